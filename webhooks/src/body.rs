//! Reads the body of a request within the limits of the server.

use std::future::ready;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

use crate::capacity::{RequestPermit, SMALL_BODY};
use crate::http_error::HttpError;
use crate::limits::Limits;

/// Reads the whole body within the timeout of the request, `time`. If the body is slow, its request gives its slot back.
///
/// # Errors
///
/// [`HttpError`] if the body is too large, too slow or broken, or if no capacity is free.
pub(crate) async fn read(
    limits: &Limits,
    time: Duration,
    request: Request,
    permit: &mut RequestPermit,
) -> Result<Bytes, HttpError> {
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limits.body {
        return Err(HttpError::TooLarge(limits.body));
    }
    // A client need not announce the size.
    let announced = match announced {
        0 => limits.body,
        announced => announced,
    };
    // Only the body is kept, so the headers of a request with a slow body use no memory.
    let mut reader = BodyReader::new(limits.body, announced, request.into_body());
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
struct BodyReader {
    bytes_max: usize,
    /// Size of the body according to the client, or the largest size.
    announced: usize,
    body: Body,
    /// The first frame, while only one frame has arrived. The first frame is usually the whole body. A body of one
    /// frame is not copied.
    first: Bytes,
    /// All frames, as soon as a second frame has arrived.
    all: Vec<u8>,
}

impl BodyReader {
    fn new(bytes_max: usize, announced: usize, body: Body) -> Self {
        Self {
            bytes_max,
            announced,
            body,
            first: Bytes::new(),
            all: Vec::new(),
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
            false => std::mem::take(&mut self.all).into(),
        })
    }

    fn add(&mut self, data: Bytes, permit: &mut RequestPermit) -> Result<(), HttpError> {
        let arrived = self.first.len() + self.all.len() + data.len();
        if arrived > self.bytes_max {
            return Err(HttpError::TooLarge(self.bytes_max));
        }
        if self.first.is_empty() && self.all.is_empty() {
            permit.hold_body(arrived)?;
            self.first = data;
            return Ok(());
        }
        if arrived > self.all.capacity() {
            // The buffer of a small body is allocated once. The buffer of a large body doubles, because a client that
            // announces a large body may not send it.
            let size = self.announced.min(SMALL_BODY.max(2 * arrived)).max(arrived);
            permit.hold_body(size)?;
            self.all.reserve_exact(size - self.all.len());
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&data);
        Ok(())
    }
}
