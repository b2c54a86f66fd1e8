//! Reads the body of a request within the limits of the server.

use std::future::ready;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

use crate::http_error::HttpError;
use crate::limits::Limits;
use crate::overload::{Capacity, RequestPermit};

/// Reads the whole body within the timeout of the request. If the body is slow, its request gives its slot back.
///
/// # Errors
///
/// [`HttpError`] if the body is too large, too slow or broken, or if no capacity is free.
pub(crate) async fn read(
    limits: &Limits,
    capacity: &Capacity,
    request: Request,
    permit: &mut RequestPermit,
) -> Result<Bytes, HttpError> {
    let time = limits.timeout_for(request.uri());
    let announced = request.body().size_hint().lower();
    if announced > u64::try_from(limits.body).unwrap_or(u64::MAX) {
        return Err(HttpError::TooLarge(limits.body));
    }
    let mut reader = BodyReader::new(limits.body, capacity, request.into_body());
    // In the common case the whole body has arrived already. No timer is needed then.
    tokio::select! {
        biased;
        read = reader.read(permit) => return read,
        () = ready(()) => {}
    }
    match timeout(limits.slow.min(time), reader.read(permit)).await {
        Ok(read) => return read,
        Err(_) if limits.slow >= time => return Err(HttpError::TooSlow(time)),
        Err(_) => permit.release_slot(),
    }
    let rest = timeout(time.saturating_sub(limits.slow), reader.read(permit)).await;
    rest.unwrap_or(Err(HttpError::TooSlow(time)))
}

/// The body of one request, with the bytes that have arrived.
struct BodyReader<'s> {
    bytes_max: usize,
    capacity: &'s Capacity,
    body: Body,
    /// The first frame, while only one frame has arrived. The first frame is usually the whole body. A body of one
    /// frame is not copied.
    first: Bytes,
    /// All frames, as soon as a second frame has arrived.
    all: BytesMut,
}

impl<'s> BodyReader<'s> {
    fn new(bytes_max: usize, capacity: &'s Capacity, body: Body) -> Self {
        Self {
            bytes_max,
            capacity,
            body,
            first: Bytes::new(),
            all: BytesMut::new(),
        }
    }

    /// Reads to the end of the body.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no bytes are lost. The next call continues after the last byte that was read.
    async fn read(&mut self, permit: &mut RequestPermit) -> Result<Bytes, HttpError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(HttpError::Unreadable)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.add(data, permit)?;
        }
        Ok(match self.all.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.all).freeze(),
        })
    }

    fn add(&mut self, data: Bytes, permit: &mut RequestPermit) -> Result<(), HttpError> {
        if self.first.len() + self.all.len() + data.len() > self.bytes_max {
            return Err(HttpError::TooLarge(self.bytes_max));
        }
        self.capacity.reserve(permit, data.len())?;
        if self.first.is_empty() && self.all.is_empty() {
            self.first = data;
        } else {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.extend_from_slice(&data);
        }
        Ok(())
    }
}
