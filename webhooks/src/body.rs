//! Reads the body of a request within the limits of the server.

use std::future::ready;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout};

use crate::capacity::{RequestPermit, SMALL_BODY, is_long_work};
use crate::http_error::HttpError;
use crate::limits::Limits;

/// A request without its header, whose body has not been read yet. The header of a request with a slow body therefore
/// uses no memory.
pub(crate) struct Arriving {
    begin: Instant,
    /// The timeout of the request.
    time: Duration,
    body: Body,
    permit: RequestPermit,
}

/// A request whose body was read.
pub(crate) struct Arrived {
    pub(crate) body: Bytes,
    pub(crate) permit: RequestPermit,
    /// Whether the work on the body is long (see [`is_long_work`]).
    pub(crate) is_long: bool,
    /// The time at which the body had arrived.
    pub(crate) begin: Instant,
    /// The end of the timeout of the request.
    pub(crate) deadline: Instant,
}

impl Arriving {
    pub(crate) fn new(limits: &Limits, request: Request, permit: RequestPermit) -> Self {
        Self {
            begin: Instant::now(),
            time: limits.timeout_for(request.uri()),
            body: request.into_body(),
            permit,
        }
    }

    /// Reads the whole body within the timeout of the request. If the body is slow, its request gives its slot back.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if the body is too large, too slow or broken, or if no capacity is free.
    pub(crate) async fn read(self, limits: &Limits) -> Result<Arrived, HttpError> {
        let Self {
            begin,
            time,
            body,
            mut permit,
        } = self;
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limits.body {
            return Err(HttpError::TooLarge(limits.body));
        }
        // A client need not announce the size.
        let announced = match announced {
            0 => limits.body,
            announced => announced,
        };
        let mut reader = BodyReader::new(limits.body, announced, body);
        // In the common case the whole body has arrived already. No timer is needed then.
        let at_once = tokio::select! {
            biased;
            read = reader.read(&mut permit) => Some(read),
            () = ready(()) => None,
        };
        let (read, arrived) = match at_once {
            Some(read) => (read, begin),
            None => {
                let rest = Box::pin(reader.read_slowly(limits, time, &mut permit));
                (rest.await, Instant::now())
            }
        };
        let body = read?;
        let (is_long, deadline) = (is_long_work(&body), begin + time);
        permit.end_queue(is_long, deadline);
        Ok(Arrived {
            body,
            permit,
            is_long,
            begin: arrived,
            deadline,
        })
    }
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

    /// Reads a body that has not arrived yet to its end, within the timeout of the request, `time`.
    async fn read_slowly(
        &mut self,
        limits: &Limits,
        time: Duration,
        permit: &mut RequestPermit,
    ) -> Result<Bytes, HttpError> {
        match timeout(limits.slow.min(time), self.read(permit)).await {
            Ok(read) => return read,
            Err(_) if limits.slow >= time => return Err(HttpError::TooSlow(time)),
            Err(_) => permit.release_slot(),
        }
        let rest = timeout(time.saturating_sub(limits.slow), self.read(permit)).await;
        rest.unwrap_or(Err(HttpError::TooSlow(time)))
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
