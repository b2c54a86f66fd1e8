//! Compares objects on several threads, and stops scripts that do not end.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{iter, process, thread};

use anyhow::{anyhow, bail};
use interpreters::comparison::{Comparison, Subject};
use interpreters::lua::{LuaInterpreter, StopFlag};
use interpreters::{InterpretedKind, Operation};
use jiff::Timestamp;

use super::findings::{Findings, Origin};
use crate::scripts::{SCRIPT_END, SCRIPT_TIME};
use crate::terminal::{self, NO_ANSWER};

/// Objects that wait for a thread.
const QUEUE: usize = 64;
/// Scripts that may run out of time. More would make the command very slow.
const STOPPED_MAX: u32 = 10;

/// An object to compare.
pub(super) struct Job {
    pub(super) kind: InterpretedKind,
    pub(super) origin: Origin,
    pub(super) subject: Subject,
}

/// What is compared.
pub(super) struct Task<'t> {
    pub(super) scripts: &'t LuaInterpreter,
    pub(super) now: Timestamp,
    /// The operations of each kind.
    pub(super) operations: &'t BTreeMap<InterpretedKind, Vec<Operation>>,
}

impl Task<'_> {
    /// Returns the operations that are compared.
    pub(super) fn operations(&self, kind: InterpretedKind) -> &[Operation] {
        self.operations.get(&kind).map_or(&[], Vec::as_slice)
    }
}

/// The object that a thread compares now.
#[derive(Default)]
struct Current {
    /// Counts the objects. 0 means none.
    number: u64,
    stop: StopFlag,
}

/// What all threads share.
#[derive(Default)]
struct Watched {
    threads: Vec<Mutex<Current>>,
    stopped: AtomicU32,
}

/// Adds objects to the queue of the threads.
pub(super) struct Feeder<'w> {
    sender: SyncSender<Job>,
    watched: &'w Watched,
}

impl Feeder<'_> {
    /// Adds an object. Waits while the queue is full.
    ///
    /// # Errors
    ///
    /// If too many scripts have run out of time.
    pub(super) fn add(&self, job: Job) -> anyhow::Result<()> {
        if self.watched.stopped.load(Ordering::Relaxed) >= STOPPED_MAX {
            bail!(
                "{STOPPED_MAX} calls of scripts took more than a second: the comparison would not end"
            );
        }
        self.sender
            .send(job)
            .map_err(|_| anyhow!("the comparison has ended"))
    }
}

/// Compares the objects that `feed` adds. Returns what was found on the hub, and what with generated objects.
///
/// # Errors
///
/// The error of `feed`, and if a thread panics.
pub(super) fn compare(
    task: &Task<'_>,
    feed: impl FnOnce(&Feeder<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<(Findings, Findings)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let watched = Watched {
        threads: iter::repeat_with(Mutex::default).take(threads).collect(),
        stopped: AtomicU32::new(0),
    };
    let (sender, receiver) = sync_channel(QUEUE);
    let receiver = Mutex::new(receiver);
    let (ended, wait_for_end) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let workers: Vec<_> = watched
            .threads
            .iter()
            .map(|current| scope.spawn(|| work(task, &receiver, current)))
            .collect();
        let all = &watched;
        scope.spawn(move || watch(all, &wait_for_end));
        let feeder = Feeder {
            sender,
            watched: &watched,
        };
        let added = feed(&feeder);
        drop(feeder);
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        let found: Result<Vec<_>, _> = joined.collect();
        drop(ended);
        added?;
        let found = found.map_err(|_| anyhow!("a thread of the comparison has panicked"))?;
        let (mut on_hub, mut generated) = (Findings::default(), Findings::default());
        for (one, other) in found {
            on_hub = on_hub.merge(one);
            generated = generated.merge(other);
        }
        Ok((on_hub, generated))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares objects until the queue has ended.
fn work(
    task: &Task<'_>,
    queue: &Mutex<Receiver<Job>>,
    current: &Mutex<Current>,
) -> (Findings, Findings) {
    let (mut on_hub, mut generated) = (Findings::default(), Findings::default());
    for number in 1.. {
        let received = lock(queue).recv();
        let Ok(Job {
            kind,
            origin,
            subject,
        }) = received
        else {
            break;
        };
        let stop = StopFlag::default();
        *lock(current) = Current {
            number,
            stop: stop.clone(),
        };
        let findings = match origin {
            Origin::Hub => &mut on_hub,
            Origin::Generated(_) => &mut generated,
        };
        let comparison = Comparison {
            scripts: task.scripts,
            now: task.now,
            stop: &stop,
        };
        findings.add_object(kind);
        for &operation in task.operations(kind) {
            let differences = comparison.compare(operation, &subject);
            findings.add(kind, operation, (origin, &subject), differences);
        }
        lock(current).number = 0;
    }
    (on_hub, generated)
}

/// Stops the scripts about an object after [`SCRIPT_TIME`] to twice this time. If they do not end within [`SCRIPT_END`],
/// the process ends.
fn watch(watched: &Watched, end: &Receiver<()>) {
    let rounds_to_end = SCRIPT_END.as_secs() / SCRIPT_TIME.as_secs();
    // The number of the object of each thread, and for how many rounds the thread has had it.
    let mut seen: Vec<(u64, u64)> = vec![(0, 0); watched.threads.len()];
    while wait(end, SCRIPT_TIME) {
        for (current, (number, rounds)) in watched.threads.iter().zip(&mut seen) {
            let current = lock(current);
            if current.number == 0 || current.number != *number {
                (*number, *rounds) = (current.number, 0);
                continue;
            }
            *rounds += 1;
            if *rounds == 1 {
                current.stop.stop();
                watched.stopped.fetch_add(1, Ordering::Relaxed);
            } else if *rounds > rounds_to_end {
                // Nothing can stop the thread.
                let _: ExitCode = terminal::failed(&anyhow!("a script does not end"), NO_ANSWER);
                process::exit(NO_ANSWER.into());
            }
        }
    }
}

/// Waits for this time. Returns false if the end has come.
fn wait(end: &Receiver<()>, time: Duration) -> bool {
    matches!(end.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}
