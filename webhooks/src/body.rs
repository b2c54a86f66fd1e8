//! Reads the body of a request within its limits.

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

/// Reads the whole body within the timeout of the request. A slow body gives the slot of its request back.
///
/// # Errors
///
/// [`HttpError`] if the body is too large, too slow or broken, or if the capacity is used up.
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
    // Common case: the whole body has arrived already, and no timer is needed.
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

/// A body, and the part of it that has arrived.
struct BodyReader<'s> {
    bytes_max: usize,
    capacity: &'s Capacity,
    body: Body,
    /// The first frame while it is the only one: usually the whole body, which is then not copied.
    first: Bytes,
    /// All frames, once there are several.
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
    /// A call that was dropped loses no bytes: the next call continues there.
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
