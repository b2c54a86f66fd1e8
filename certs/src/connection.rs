//! Serves one connection within its limits.

mod frames;
mod paced_stream;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Request, Response, Version, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::bodies::{AnswerBody, RequestBody};
use crate::limits::{BUFFER_MAX, Limits};
use crate::slots::Slot;
use paced_stream::PacedStream;

/// Flow-control window of an HTTP/2 connection and of each of its streams, in bytes. It is the maximum amount of data
/// that a client can store in this process before a handler reads and counts the data. Handlers read at once, so the
/// window does not slow down a client in the same region. HTTP/2 allows no smaller initial window of a connection (RFC
/// 9113, 6.9.2).
const WINDOW: u32 = (64 << 10) - 1;
/// Largest header list of an HTTP/2 request, in bytes: 32 for each field, and its name and value (RFC 9113, 6.5.2). The
/// largest header that callers send has a token of 1 to 2 KiB. In memory, a list of many short fields is five times as
/// large.
const HEADER_MAX: u32 = 4 << 10;

/// The two steps in which a server stops.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// After this token is cancelled, clients are asked to open another connection: by a header in each HTTP/1.1
    /// response, and by a GOAWAY on HTTP/2. New connections are still served.
    pub draining: CancellationToken,
    /// After this token is cancelled, no new connections are accepted, idle connections are closed, and requests in
    /// flight are answered.
    pub stop: CancellationToken,
}

/// The reason why a connection ends.
enum End {
    /// The connection is too old or idle. Its requests in flight have time to end.
    Graceful,
    /// The client did not take an answer in time.
    AnswerUnread,
}

/// Waits until the connection must end. The task sleeps until the earliest time at which this can be the case, so
/// requests do not wake the task.
///
/// At its age, an HTTP/1.1 connection is only marked: its next answer asks the client to close it. If the server closed
/// it while it is idle, a request that is on its way would be lost. The server ends it when it has been idle for too
/// long, or at the latest `idle + drain` after the mark.
async fn expired(activity: &Activity, version: Version, limits: &Limits) -> End {
    let mut old = activity.start() + with_jitter(limits.age);
    // An answer that became ready three periods ago has been unread for two whole periods, which are `limits.write`.
    let period = limits.write / 2;
    let mut period_end = activity.start() + period;
    loop {
        let since = match activity.has_no_request() {
            true => activity.last_progress(),
            false => Instant::now(),
        };
        let now = Instant::now();
        if old <= now && version != Version::HTTP_2 && !activity.is_old() {
            activity.set_old();
            old = now + limits.idle + limits.drain;
        }
        let end = old.min(since + limits.idle);
        if end <= now {
            return End::Graceful;
        }
        if period_end <= now {
            if activity.next_period() {
                return End::AnswerUnread;
            }
            period_end = now + period;
        }
        sleep_until(end.min(period_end)).await;
    }
}

/// The error of a request above [`Limits::requests`] or above the limit of its source address, and of a request whose
/// share has no free slot. On HTTP/2 the stream is reset, on HTTP/1.1 the connection is closed.
#[derive(Debug, Error)]
#[error("too many requests are in flight")]
struct TooManyRequests;

/// Serves the requests of a connection. The connection ends when it has been idle for too long, is too old, or is shut
/// down.
pub(crate) async fn serve<I, S, B>(
    stream: I,
    version: Version,
    service: S,
    slot: Arc<Slot>,
    limits: Limits,
    shutdown: Shutdown,
) -> hyper::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let activity = Arc::clone(&slot.activity);
    // Requests share the token, because each clone of a token locks it.
    let of_requests = Arc::new(shutdown.draining.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let active = match slot.classify(request.uri()) {
            true => slot.activity.begin(),
            false => None,
        };
        let begun = active.map(|active| {
            let receiving = slot.activity.receiving();
            let mut request = request.map(|body| RequestBody::new(body, receiving));
            let has_arrived = request.body().has_arrived();
            // Handlers limit what one source address holds.
            request.extensions_mut().insert(slot.activity.address());
            (active, has_arrived, service.call(request))
        });
        let draining = Arc::clone(&of_requests);
        async move {
            let (mut active, has_arrived, answer) = begun.ok_or(TooManyRequests)?;
            let Ok(mut response) = answer.await;
            active.answered();
            let is_early = version == Version::HTTP_2 && !has_arrived.load(Ordering::Acquire);
            let early = is_early.then(|| active.begin_early_answer()).flatten();
            if is_early && early.is_none() {
                response.headers_mut().remove(header::CONTENT_LENGTH);
                return Ok(response.map(|_| AnswerBody::empty(active)));
            }
            // The header asks an HTTP/1.1 client to close this connection. On HTTP/2, a GOAWAY is sent for
            // the whole connection.
            if version != Version::HTTP_2 && (draining.is_cancelled() || active.ends_connection()) {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, TooManyRequests>(response.map(|body| AnswerBody::new(body, active, early)))
        }
    });
    let stream = TokioIo::new(PacedStream::new(
        stream,
        version,
        Arc::clone(&activity),
        limits,
    ));
    let Shutdown { draining, stop } = &shutdown;
    if version == Version::HTTP_2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.ping)
            .keep_alive_timeout(limits.ping_answer)
            .max_concurrent_streams(limits.requests_per_connection)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(HEADER_MAX);
        let mut connection = Box::pin(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            end = expired(&activity, version, &limits) => match end {
                End::Graceful => {}
                End::AnswerUnread => return Ok(()),
            },
            () = draining.cancelled() => {}
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        end(connection, limits).await
    } else {
        let mut builder = http1::Builder::new();
        // `PacedStream` limits the time for the header at a lower cost.
        builder.header_read_timeout(None).max_buf_size(BUFFER_MAX);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            end = expired(&activity, version, &limits) => match end {
                End::Graceful => {}
                End::AnswerUnread => return Ok(()),
            },
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        end(connection, limits).await
    }
}

/// Waits for a graceful end, but at most for the drain time, because a client can delay the end.
async fn end(
    connection: impl Future<Output = hyper::Result<()>>,
    limits: Limits,
) -> hyper::Result<()> {
    timeout(limits.drain, connection).await.unwrap_or(Ok(()))
}

/// Returns a random time between 80 % and 120 % of `time`. Connections that began together therefore do not end
/// together.
fn with_jitter(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 401;
    let parts = u32::try_from(800 + random).unwrap_or(1000);
    time.saturating_mul(parts) / 1000
}
