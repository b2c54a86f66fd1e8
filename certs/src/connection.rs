//! One connection: its requests, its pace and its end.

use std::convert::Infallible;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, Version, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

/// Window of one HTTP/2 stream, and of a connection: bounds what a client can have waiting here.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest header of an HTTP/2 request, and of an HTTP/1.1 one together with what is read ahead.
const HEADER_MAX: u32 = 16 << 10;
const BUFFER_MAX: usize = 16 << 10;

/// The two steps of an end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Every answer asks its client to use another connection from now on; new connections are still served.
    pub draining: CancellationToken,
    /// No new connections; idle ones are closed, requests in flight are answered.
    pub stop: CancellationToken,
}

/// The requests of one connection.
#[derive(Debug, Default)]
struct Requests {
    begun: AtomicUsize,
    in_flight: AtomicUsize,
    changed: Notify,
}

/// A request that is being answered.
struct InFlight(Arc<Requests>);

impl Requests {
    fn begin(self: &Arc<Self>) -> InFlight {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        InFlight(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// Waits until no request has been in flight for this long.
    async fn idle(&self, time: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.is_idle() {
                tokio::select! {
                    () = sleep(time) => return,
                    () = changed => {}
                }
            } else {
                changed.await;
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
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
    let requests = Arc::new(Requests::default());
    let draining = shutdown.draining.clone();
    let counted = Arc::clone(&requests);
    let service = service_fn(move |request: Request<Incoming>| {
        let in_flight = counted.begin();
        let draining = draining.clone();
        let answer = service.call(request);
        async move {
            let mut response = answer.await?;
            drop(in_flight);
            // The client opens its next connection elsewhere. Of HTTP/2 the connection itself tells it.
            if version != Version::HTTP_2 && draining.is_cancelled() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let stream = TokioIo::new(Paced::new(stream, version, Arc::clone(&requests), limits));
    let age = sleep(with_jitter(limits.age));
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
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            () = age => {}
            () = requests.idle(limits.idle) => {}
            () = shutdown.draining.cancelled() => {}
            () = shutdown.stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).max_buf_size(BUFFER_MAX);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            outcome = connection.as_mut() => return outcome,
            () = age => {}
            () = requests.idle(limits.idle) => {}
            () = shutdown.stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    }
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
    requests: Arc<Requests>,
    limits: Limits,
    /// When the header of an HTTP/1.1 request must be complete; `None` between requests, and for HTTP/2.
    header: Option<Pin<Box<Sleep>>>,
    /// How many requests had begun when the last read ended.
    begun: usize,
    /// When a write that waits must have gone on.
    write: Option<Pin<Box<Sleep>>>,
    is_http1: bool,
}

impl<I> Paced<I> {
    fn new(stream: I, version: Version, requests: Arc<Requests>, limits: Limits) -> Self {
        let is_http1 = version != Version::HTTP_2;
        Self {
            stream,
            requests,
            limits,
            header: is_http1.then(|| timer(limits.header)),
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
        let begun = this.requests.begun.load(Ordering::Acquire);
        if begun != this.begun {
            this.begun = begun;
            this.header = None;
        }
        let received = read.is_ready() && buffer.filled().len() > before;
        if received && this.is_http1 && this.requests.is_idle() {
            this.header.get_or_insert_with(|| timer(this.limits.header));
        }
        if let (Poll::Pending, Some(header)) = (&read, &mut this.header)
            && header.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(timed_out("no request came in time")));
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
