//! The stream of a connection, with limits on the time that it waits for its client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::frames::Frames;
use crate::activity::Activity;
use crate::limits::Limits;
use crate::peers::Discard;

/// Maximum number of bytes of a body that are discarded after its request was answered: the default of `--max-body`.
/// They are read into a small buffer, so they use no memory.
const LINGER_MAX: usize = 8 << 20;

/// Size of the buffer for bytes that are discarded, in bytes. The buffer is on the stack.
const DISCARD: usize = 4 << 10;

/// Number of bytes that are discarded without a pause. The pauses slow the client down. Without them, clients whose
/// large bodies are refused could take all CPU time.
const DISCARD_AT_ONCE: usize = 64 << 10;
const DISCARD_PAUSE: Duration = Duration::from_millis(10);

/// A stream that fails if its client sends the header of a request too slowly or in several HTTP/2 frames, or reads an
/// answer too slowly. At its end, it discards the rest of a body that was not read, within limits.
pub(super) struct PacedStream<I> {
    stream: I,
    activity: Arc<Activity>,
    limits: Limits,
    /// Whether the client must send bytes soon. These are the first bytes of the connection, or the rest of an HTTP/1.1
    /// header.
    awaits_header: bool,
    /// Deadline for the bytes of `awaits_header`. It is set at the first read that has to wait.
    header_deadline: Option<Pin<Box<Sleep>>>,
    /// The value of `Activity::started` at the last read.
    started: usize,
    /// Deadline for a write that has to wait.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// The frames of an HTTP/2 connection. `None` for HTTP/1.1.
    frames: Option<Frames>,
    end: StreamEnd,
}

/// The steps at the end of a connection.
enum StreamEnd {
    /// Both directions are open, or the write direction is being closed.
    Open,
    /// The write direction is closed. The rest of the client's body is discarded until this deadline.
    Lingering {
        deadline: Pin<Box<Sleep>>,
        pause: Pin<Box<Sleep>>,
        /// Number of bytes that were discarded, and its value at the next pause.
        read: usize,
        pause_at: usize,
        /// `None` if the bodies of too many other connections are being discarded. Nothing is read then.
        discard: Option<Discard>,
    },
}

impl<I> PacedStream<I> {
    pub(super) fn new(
        stream: I,
        version: Version,
        activity: Arc<Activity>,
        limits: Limits,
    ) -> Self {
        Self {
            stream,
            activity,
            limits,
            awaits_header: true,
            header_deadline: None,
            started: 0,
            write_deadline: None,
            frames: (version == Version::HTTP_2).then(Frames::new),
            end: StreamEnd::Open,
        }
    }

    /// Limits the time that a write waits for the client.
    fn bound_write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.write_deadline = None;
            return write;
        }
        let limit = self.limits.write;
        match self
            .write_deadline
            .get_or_insert_with(|| timer(limit))
            .as_mut()
            .poll(context)
        {
            Poll::Ready(()) => {
                Poll::Ready(Err(timed_out("the client did not read the answer in time")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> PacedStream<I> {
    /// Discards what the client sends, until it closes the connection or a limit is reached. Without this, the kernel
    /// would answer the next bytes of the client with a TCP reset. The reset makes a write of the client fail, and the
    /// client may then not read its answer.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let StreamEnd::Lingering {
            deadline,
            pause,
            read,
            pause_at,
            discard,
        } = &mut self.end
        else {
            return Poll::Ready(());
        };
        if discard.is_none() {
            return deadline.as_mut().poll(context);
        }
        while *read < LINGER_MAX && deadline.as_mut().poll(context).is_pending() {
            if *read >= *pause_at {
                pause.as_mut().reset(Instant::now() + DISCARD_PAUSE);
                *pause_at = *read + DISCARD_AT_ONCE;
            }
            ready!(pause.as_mut().poll(context));
            let mut discarded = [0; DISCARD];
            let mut buffer = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *read += buffer.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

fn timer(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + time))
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<I: AsyncRead + Unpin> AsyncRead for PacedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.frames.as_mut().is_some_and(Frames::pauses) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let started = this.activity.started();
        if started != this.started {
            this.started = started;
            this.awaits_header = false;
            this.header_deadline = None;
        }
        if read.is_ready() {
            let received = buffer.filled().get(before..).unwrap_or_default();
            match &mut this.frames {
                _ if received.is_empty() => {}
                None => this.awaits_header |= this.activity.has_no_request(),
                Some(frames) => {
                    this.awaits_header = false;
                    this.header_deadline = None;
                    frames.read(received).map_err(io::Error::other)?;
                }
            }
        } else if this.awaits_header {
            let limit = this.limits.header;
            let deadline = this.header_deadline.get_or_insert_with(|| timer(limit));
            if deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(timed_out("the client did not send a request in time")));
            }
        }
        read
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PacedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.bound_write(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bound_write(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.stream).poll_flush(context);
        self.bound_write(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.end, StreamEnd::Open) {
            let shutdown = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.bound_write(context, shutdown))?;
            if self.frames.is_some() || !self.activity.has_unread_body() {
                return Poll::Ready(Ok(()));
            }
            self.end = StreamEnd::Lingering {
                deadline: timer(self.limits.linger),
                pause: timer(Duration::ZERO),
                read: 0,
                pause_at: DISCARD_AT_ONCE,
                discard: self.activity.peer().begin_discard(),
            };
        }
        self.linger(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::poll;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::peers::{AllPeers, Peer};

    /// The threads that serve connections must not work for one client alone.
    #[tokio::test]
    async fn a_client_that_sends_many_small_frames_pauses() {
        let limits = Limits::default();
        let peer = Peer::new(Ipv4Addr::LOCALHOST.into(), Arc::new(AllPeers::new(&limits)));
        let activity = Arc::new(Activity::new(Arc::new(peer)));
        let preface = [b'p'; 24];
        // Frames of an unknown type without content.
        let frames = [0, 0, 0, 255, 0, 0, 0, 0, 0].repeat(10_000);
        let sent = [preface.as_slice(), &frames].concat();
        let mut stream = PacedStream::new(sent.as_slice(), Version::HTTP_2, activity, limits);
        let (mut pauses, mut read, mut buffer) = (0, 0, [0; 4096]);
        while read < sent.len() {
            match poll!(Box::pin(stream.read(&mut buffer))) {
                Poll::Ready(count) => read += count.unwrap(),
                Poll::Pending => pauses += 1,
            }
        }
        assert!((6..=10).contains(&pauses), "{pauses}");
    }
}
