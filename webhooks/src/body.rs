//! Reads the body of a request within the limits of the server.

use std::future::ready;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

use crate::capacity::{RequestPermit, SMALL_BODY};
use crate::http_error::HttpError;
use crate::limits::Limits;

/// Reads the whole body within the timeout of the request. If the body is slow, its request gives its slot back.
///
/// # Errors
///
/// [`HttpError`] if the body is too large, too slow or broken, or if no capacity is free.
pub(crate) async fn read(
    limits: &Limits,
    request: Request,
    permit: &mut RequestPermit,
) -> Result<Bytes, HttpError> {
    let time = limits.timeout_for(request.uri());
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
    /// A frame that is not in `first` or `all` yet, because the request waits for its turn.
    waiting: Option<Bytes>,
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
            waiting: None,
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
        while let Some(size) = self.next_frame().await? {
            let arrived = self.first.len() + self.all.len() + size;
            if arrived > SMALL_BODY {
                permit.take_turn(self.announced).await?;
            }
            if let Some(data) = self.waiting.take() {
                self.add(data, permit)?;
            }
        }
        Ok(match self.all.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.all).into(),
        })
    }

    /// Reads the next frame with data into `waiting`. Returns its size, or `None` at the end of the body.
    async fn next_frame(&mut self) -> Result<Option<usize>, HttpError> {
        while self.waiting.is_none() {
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            self.waiting = frame.map_err(HttpError::Unreadable)?.into_data().ok();
        }
        Ok(self.waiting.as_ref().map(Bytes::len))
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::capacity::Capacity;
    use crate::metrics::RequestMetrics;

    /// The first timeout drops the future that waits for the turn.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_for_its_turn_is_received_whole() {
        let limits = Limits::default();
        let [capacity, _] = Capacity::of_protocols(&limits, 1);
        let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
        let admit = |address| {
            let source = IpAddr::from([10, 0, 0, address]);
            capacity.admit(Some(source), metrics.in_flight()).unwrap()
        };
        let mut busy = Vec::new();
        for address in 4.. {
            let mut permit = admit(address);
            permit.end_queue(Instant::now());
            match permit.take_turn(SMALL_BODY).await {
                Ok(()) => busy.push(permit),
                Err(_) => break,
            }
        }
        let end = tokio::spawn(async move {
            sleep(2 * Duration::from_millis(250)).await;
            drop(busy);
        });
        let body: Arc<[u8]> = (0..u8::MAX).cycle().take(3 * SMALL_BODY).collect();
        let request = Request::new(Body::from(body.to_vec()));
        let mut permit = admit(3);
        let read = read(&limits, request, &mut permit).await.unwrap();
        assert!(*read == *body, "the body is not whole");
        end.await.unwrap();
    }
}
