//! One connection: its requests, its pace and its end.

use std::convert::Infallible;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, Version, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

/// Window of one HTTP/2 stream, and of a connection: bounds what a client can have waiting here.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest header of an HTTP/2 request.
const HEADER_MAX: u32 = 16 << 10;
/// What is read at a time from an HTTP/1.1 connection, which keeps a buffer of this size.
const BUFFER_MAX: usize = 12 << 10;

/// The two steps of an end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Every answer asks its client to use another connection from now on; new connections are still served.
    pub draining: CancellationToken,
    /// No new connections; idle ones are closed, requests in flight are answered.
    pub stop: CancellationToken,
}

/// What the parts of one connection know of each other.
struct State {
    /// When the connection began: the zero of `ended`.
    start: Instant,
    begun: AtomicUsize,
    in_flight: AtomicUsize,
    /// When the last request ended, in milliseconds.
    ended: AtomicU64,
    shutdown: Shutdown,
}

/// A request that is being answered.
struct InFlight(Arc<State>);

impl State {
    fn new(shutdown: Shutdown) -> Self {
        Self {
            start: Instant::now(),
            begun: AtomicUsize::default(),
            in_flight: AtomicUsize::default(),
            ended: AtomicU64::default(),
            shutdown,
        }
    }

    fn begin(self: &Arc<Self>) -> InFlight {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// Waits until the connection is too old, or no request has been in flight for too long. It looks when that can be the
    /// case at the earliest: no request wakes it.
    async fn over(&self, limits: &Limits) {
        let old = self.start + with_jitter(limits.age);
        loop {
            let since = if self.is_idle() {
                self.start + Duration::from_millis(self.ended.load(Ordering::Acquire))
            } else {
                Instant::now()
            };
            let end = old.min(since + limits.idle);
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let ended = self.0.start.elapsed().as_millis();
        let ended = u64::try_from(ended).unwrap_or(u64::MAX);
        self.0.ended.store(ended, Ordering::Release);
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves the requests of a connection until it is idle, old, or told to end.
pub(crate) async fn serve<I, S, B>(
    stream: I,
    version: Version,
    service: S,
    limits: Limits,
    shutdown: Shutdown,
) -> hyper::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let state = Arc::new(State::new(shutdown));
    let counted = Arc::clone(&state);
    let service = service_fn(move |request: Request<Incoming>| {
        let in_flight = counted.begin();
        let answer = service.call(request);
        async move {
            let mut response = answer.await?;
            // The client opens its next connection elsewhere. Of HTTP/2 the connection itself tells it.
            if version != Version::HTTP_2 && in_flight.0.shutdown.draining.is_cancelled() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let stream = TokioIo::new(Paced::new(stream, version, Arc::clone(&state), limits));
    let Shutdown { draining, stop } = &state.shutdown;
    if version == Version::HTTP_2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.ping)
            .keep_alive_timeout(limits.ping_answer)
            .max_concurrent_streams(limits.requests_per_connection)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_MAX);
        let mut connection = Box::pin(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            () = state.over(&limits) => {}
            () = draining.cancelled() => {}
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        end(connection, limits).await
    } else {
        let mut builder = http1::Builder::new();
        // The stream is paced, at less cost.
        builder.header_read_timeout(None).max_buf_size(BUFFER_MAX);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            () = state.over(&limits) => {}
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        end(connection, limits).await
    }
}

/// Waits for the end of a connection that has been asked for, which a client can put off, but not for ever.
async fn end(
    connection: impl Future<Output = hyper::Result<()>>,
    limits: Limits,
) -> hyper::Result<()> {
    timeout(limits.drain, connection).await.unwrap_or(Ok(()))
}

/// Between 80 and 120 % of this, so that connections that began together do not end together.
fn with_jitter(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 401;
    let parts = u32::try_from(800 + random).unwrap_or(1000);
    time.saturating_mul(parts) / 1000
}

/// A stream that ends when a client takes too long to send a request's header, or to take an answer.
struct Paced<I> {
    stream: I,
    state: Arc<State>,
    limits: Limits,
    /// Whether something has to come soon: the first bytes, or the header of an HTTP/1.1 request that has begun to come.
    awaits_header: bool,
    /// When that must have come, once it has been waited for.
    header: Option<Pin<Box<Sleep>>>,
    /// How many requests had begun when the last read ended.
    begun: usize,
    /// When a write that waits must have gone on.
    write: Option<Pin<Box<Sleep>>>,
    is_http1: bool,
}

impl<I> Paced<I> {
    fn new(stream: I, version: Version, state: Arc<State>, limits: Limits) -> Self {
        let is_http1 = version != Version::HTTP_2;
        Self {
            stream,
            state,
            limits,
            awaits_header: true,
            header: None,
            begun: 0,
            write: None,
            is_http1,
        }
    }

    /// Bounds the time for which a write waits.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.write = None;
            return write;
        }
        let limit = self.limits.write;
        match self
            .write
            .get_or_insert_with(|| timer(limit))
            .as_mut()
            .poll(context)
        {
            Poll::Ready(()) => Poll::Ready(Err(timed_out("the client does not take the answer"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn timer(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + time))
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<I: AsyncRead + Unpin> AsyncRead for Paced<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let begun = this.state.begun.load(Ordering::Acquire);
        if begun != this.begun {
            this.begun = begun;
            this.awaits_header = false;
            this.header = None;
        }
        if read.is_ready() {
            let received = buffer.filled().len() > before;
            if received && this.is_http1 {
                this.awaits_header |= this.state.is_idle();
            } else if received {
                this.awaits_header = false;
                this.header = None;
            }
        } else if this.awaits_header {
            let limit = this.limits.header;
            let header = this.header.get_or_insert_with(|| timer(limit));
            if header.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(timed_out("no request came in time")));
            }
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Paced<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.bounded(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bounded(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shutdown)
    }
}
