//! Writes log lines in a thread of its own. A program that does not read stderr must not block the threads that serve
//! requests.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of lines that wait to be written.
const LINES_MAX: usize = 4096;
/// Maximum number of bytes that wait to be written: 512 KiB. These are some thousand lines.
const BYTES_MAX: usize = 512 << 10;
/// Longest time for which the end of the process waits until all lines are written: 1 s.
const FLUSH: Duration = Duration::from_secs(1);

/// Number of lines that were dropped.
pub(super) static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

enum Entry {
    Line(Vec<u8>),
    /// Asks for a notification when all earlier lines are written.
    Flush(SyncSender<()>),
}

/// Changes a line before it is written.
pub(super) type Tidy = fn(&[u8]) -> Cow<'_, [u8]>;

/// Returns the line.
pub(super) fn unchanged(line: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(line)
}

/// The queue in front of the log.
#[derive(Clone)]
pub(super) struct LogWriter {
    tidy: Tidy,
    entries: SyncSender<Entry>,
    waiting: Arc<AtomicUsize>,
}

/// Waits until the log is written when it is dropped.
pub(crate) struct FlushGuard(SyncSender<Entry>);

impl LogWriter {
    /// Starts the thread. If there is no thread, all lines are dropped.
    pub(super) fn start(out: impl Write + Send + 'static, tidy: Tidy) -> (Self, FlushGuard) {
        let (entries, received) = sync_channel(LINES_MAX);
        let waiting = Arc::new(AtomicUsize::default());
        let writer = Self {
            tidy,
            entries: entries.clone(),
            waiting: Arc::clone(&waiting),
        };
        // The thread ends with the process. It writes while the runtimes of the process start and end.
        let started = thread::Builder::new().name("log".to_owned());
        let _ = started.spawn(move || write(out, &received, &waiting));
        (writer, FlushGuard(entries))
    }

    fn push(&self, line: &[u8]) {
        let line = (self.tidy)(line);
        let length = line.len();
        let waiting = self.waiting.fetch_add(length, Ordering::AcqRel);
        // One line is always accepted, however long it is.
        let fits = waiting == 0 || waiting.saturating_add(length) <= BYTES_MAX;
        if !fits
            || self
                .entries
                .try_send(Entry::Line(line.into_owned()))
                .is_err()
        {
            self.waiting.fetch_sub(length, Ordering::AcqRel);
            DROPPED.inc();
        }
    }
}

fn write(mut out: impl Write, received: &Receiver<Entry>, waiting: &AtomicUsize) {
    for entry in received {
        match entry {
            Entry::Line(line) => {
                // If stderr is closed, nobody can be told.
                let _ = out.write_all(&line);
                waiting.fetch_sub(line.len(), Ordering::AcqRel);
            }
            Entry::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        let (done, flushed) = sync_channel(1);
        // If the queue is full, stderr is not read, and a wait would be in vain.
        if self.0.try_send(Entry::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(FLUSH);
        }
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = LineWriter<'w>;

    fn make_writer(&'w self) -> LineWriter<'w> {
        LineWriter(self)
    }
}

/// Receives one line. The formatter of `tracing-subscriber` writes each line at once.
pub(super) struct LineWriter<'w>(&'w LogWriter);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A sink that takes a line only when the test allows it.
    struct Sink {
        allowed: Receiver<()>,
        lines: std::sync::mpsc::Sender<Vec<u8>>,
    }

    impl Write for Sink {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            self.lines.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_beyond_the_queue_are_dropped_and_counted_and_the_others_are_written_in_order() {
        let ((allow, allowed), (lines, written)) = (channel(), channel());
        let (writer, guard) = LogWriter::start(Sink { allowed, lines }, unchanged);
        let before = DROPPED.get();
        let line = |number: u8| vec![number; BYTES_MAX / 4];
        for number in 0..6 {
            writer.push(&line(number));
        }
        assert_eq!(DROPPED.get() - before, 2, "four lines fill the queue");
        for _ in 0..4 {
            allow.send(()).unwrap();
        }
        drop(guard);
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!(written, (0..4).map(line).collect::<Vec<_>>());
    }
}
