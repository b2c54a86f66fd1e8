//! Compares objects on several threads, and stops scripts that do not end.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, iter, process, thread};

use anyhow::{anyhow, bail};
use interpreters::comparison::{Comparison, Subject, WrittenSubject, varied};
use interpreters::lua::{LuaInterpreter, StopFlag};
use interpreters::{InterpretedKind, Operation};
use jiff::Timestamp;

use super::findings::{Findings, Origin};
use super::hub::subject;
use super::join::Joined;
use crate::scripts::SCRIPT_END;
use crate::terminal::{self, NO_ANSWER};

/// Objects that wait for a thread.
const QUEUE: usize = 64;
/// Scripts that may run out of time. More would make the command very slow.
const STOPPED_MAX: u32 = 10;

/// An object to compare. The thread that compares it decodes or varies it.
pub(super) struct Job {
    pub(super) kind: InterpretedKind,
    pub(super) source: Source,
}

/// The source of an object to compare.
pub(super) enum Source {
    /// An object of the hub.
    Hub(Box<Joined>),
    /// A variation of this object with this seed.
    Variation(Arc<Subject>, u64),
}

impl Source {
    fn origin(&self) -> Origin {
        match self {
            Self::Hub(_) => Origin::Hub,
            Self::Variation(_, seed) => Origin::Generated(*seed),
        }
    }

    fn subject(&self, kind: InterpretedKind, now: Timestamp) -> anyhow::Result<WrittenSubject> {
        let subject = match self {
            Self::Hub(joined) => subject(kind, joined)?,
            Self::Variation(base, seed) => varied(base, *seed, now),
        };
        Ok(WrittenSubject::new(subject)?)
    }
}

/// The inputs of the comparison.
pub(super) struct Task<'t> {
    /// Time limit of a script. A script can have up to twice this time.
    pub(super) script_time: Duration,
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

/// The call that a thread makes now.
#[derive(Default)]
struct Current {
    /// Counts the calls. 0 means none.
    number: u64,
    what: Option<Call>,
    stop: StopFlag,
}

/// The names of a call.
#[derive(Clone, Debug)]
struct Call {
    kind: InterpretedKind,
    operation: Operation,
    origin: Origin,
    /// `namespace/name` of the object.
    object: Arc<str>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, operation) = (self.kind.as_str(), self.operation.as_str());
        write!(f, "{operation} of {kind} {}", self.object)?;
        match self.origin {
            Origin::Hub => Ok(()),
            Origin::Generated(seed) => write!(f, ", seed {seed}"),
        }
    }
}

/// The state that all threads share.
#[derive(Default)]
struct Watched {
    threads: Vec<Mutex<Current>>,
    stopped: AtomicU32,
    /// The first call that ran out of time.
    first_stopped: Mutex<Option<Call>>,
    /// Why an object cannot be decoded. The comparison then ends.
    failed: Mutex<Option<anyhow::Error>>,
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
    /// If too many scripts have run out of time, or if an earlier object cannot be decoded.
    pub(super) fn add(&self, job: Job) -> anyhow::Result<()> {
        if let Some(error) = lock(&self.watched.failed).take() {
            return Err(error);
        }
        if self.watched.stopped.load(Ordering::Relaxed) >= STOPPED_MAX {
            let first = lock(&self.watched.first_stopped);
            let first = first.as_ref().map_or_else(String::new, Call::to_string);
            bail!(
                "{STOPPED_MAX} calls of scripts took more than a second, first {first}: the comparison would take too long"
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
/// The error of `feed`, if an object of the hub cannot be decoded, and if a thread panics.
pub(super) fn compare(
    task: &Task<'_>,
    feed: impl FnOnce(&Feeder<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<(Findings, Findings)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let watched = Watched {
        threads: iter::repeat_with(Mutex::default).take(threads).collect(),
        stopped: AtomicU32::new(0),
        first_stopped: Mutex::default(),
        failed: Mutex::default(),
    };
    let (sender, receiver) = sync_channel(QUEUE);
    let receiver = Mutex::new(receiver);
    let (ended, wait_for_end) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let workers: Vec<_> = watched
            .threads
            .iter()
            .map(|current| scope.spawn(|| work(task, &receiver, current, &watched.failed)))
            .collect();
        let all = &watched;
        scope.spawn(move || watch(all, task.script_time, &wait_for_end));
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
        if let Some(error) = lock(&watched.failed).take() {
            return Err(error);
        }
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

/// Compares objects until the queue has ended. After an object that cannot be decoded, the thread goes on: the feeder would
/// wait for ever if nobody emptied the queue.
fn work(
    task: &Task<'_>,
    queue: &Mutex<Receiver<Job>>,
    current: &Mutex<Current>,
    failed: &Mutex<Option<anyhow::Error>>,
) -> (Findings, Findings) {
    let (mut on_hub, mut generated) = (Findings::default(), Findings::default());
    let mut number = 0;
    loop {
        let received = lock(queue).recv();
        let Ok(Job { kind, source }) = received else {
            break;
        };
        let origin = source.origin();
        let written = match source.subject(kind, task.now) {
            Ok(written) => written,
            Err(error) => {
                lock(failed).get_or_insert(error);
                continue;
            }
        };
        let findings = match origin {
            Origin::Hub => &mut on_hub,
            Origin::Generated(_) => &mut generated,
        };
        findings.add_object(kind);
        let subject = &written.subject;
        let (namespace, name) = subject.key();
        let object: Arc<str> = format!("{namespace}/{name}").into();
        for &operation in task.operations(kind) {
            number += 1;
            let stop = StopFlag::default();
            *lock(current) = Current {
                number,
                what: Some(Call {
                    kind,
                    operation,
                    origin,
                    object: Arc::clone(&object),
                }),
                stop: stop.clone(),
            };
            let comparison = Comparison {
                scripts: task.scripts,
                now: task.now,
                stop: &stop,
            };
            let differences = comparison.compare(operation, &written);
            lock(current).number = 0;
            findings.add(kind, operation, (origin, subject), differences);
        }
    }
    (on_hub, generated)
}

/// Stops a script after `time` to twice this time. If it does not end within [`SCRIPT_END`], the process ends.
fn watch(watched: &Watched, time: Duration, end: &Receiver<()>) {
    let rounds_to_end = SCRIPT_END.as_millis() / time.as_millis().max(1);
    // The number of the call of each thread, and for how many rounds the thread has made it.
    let mut seen: Vec<(u64, u128)> = vec![(0, 0); watched.threads.len()];
    while wait(end, time) {
        for (current, (number, rounds)) in watched.threads.iter().zip(&mut seen) {
            let current = lock(current);
            if current.number == 0 || current.number != *number {
                (*number, *rounds) = (current.number, 0);
                continue;
            }
            *rounds += 1;
            if *rounds == 1 {
                current.stop.stop();
                if watched.stopped.fetch_add(1, Ordering::Relaxed) == 0 {
                    lock(&watched.first_stopped).clone_from(&current.what);
                }
            } else if *rounds > rounds_to_end {
                // Nothing can stop the thread.
                let call = current.what.as_ref();
                let call = call.map_or_else(String::new, Call::to_string);
                let error = anyhow!("a script does not end: {call}");
                let _: ExitCode = terminal::failed(&error, NO_ANSWER);
                process::exit(NO_ANSWER.into());
            }
        }
    }
}

/// Waits for this time. Returns false if the end has come.
fn wait(end: &Receiver<()>, time: Duration) -> bool {
    matches!(end.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

#[cfg(test)]
mod tests {
    use interpreters::lua::Limits;
    use serde_json::json;

    use super::*;

    const KIND: InterpretedKind = InterpretedKind::WorkloadDeployment;
    /// Errors are slow, so the time ends before the instructions.
    const ENDLESS: &str = "function GetReplicas() while true do pcall(string.rep) end end";

    fn compare_objects(
        rules: &serde_json::Value,
        objects: u64,
    ) -> anyhow::Result<(Findings, Findings)> {
        let customization = serde_json::from_value(json!({
            "kind": "ResourceInterpreterCustomization", "metadata": {"name": "a"},
            "spec": {
                "target": {"apiVersion": api::API_VERSION, "kind": KIND.as_str()},
                "customizations": rules,
            },
        }))?;
        let scripts = LuaInterpreter::new(&[customization], Limits::default());
        let scripts = scripts.map_err(|errors| anyhow!("{errors:?}"))?;
        let all = vec![Operation::InterpretReplica, Operation::Retain];
        let operations = BTreeMap::from([(KIND, all)]);
        let task = Task {
            script_time: Duration::from_millis(50),
            scripts: &scripts,
            now: Timestamp::UNIX_EPOCH,
            operations: &operations,
        };
        compare(&task, |feeder| {
            let sample = Arc::new(Subject::sample(KIND));
            for seed in 0..objects {
                let source = if seed % 2 == 0 {
                    Source::Hub(Box::new((
                        serde_json::from_value(sample.object.clone())?,
                        None,
                    )))
                } else {
                    Source::Variation(Arc::clone(&sample), seed)
                };
                feeder.add(Job { kind: KIND, source })?;
            }
            Ok(())
        })
    }

    #[test]
    fn all_objects_are_compared() {
        let rules = json!({"retention": {"luaScript": "function Retain(d) return d end"}});
        let (on_hub, generated) = compare_objects(&rules, 301).unwrap();
        assert_eq!((on_hub.total(), generated.total()), (151, 150));
        assert_eq!((on_hub.answers(), generated.answers()), (302, 300));
        assert_eq!(on_hub.unexplained().count(), 0);
    }

    /// Each thread gets several of these objects, and more are fed than the queue has places for.
    #[test]
    fn objects_that_cannot_be_decoded_end_the_comparison() {
        let scripts = LuaInterpreter::new(&[], Limits::default()).unwrap();
        let task = Task {
            script_time: Duration::from_millis(50),
            scripts: &scripts,
            now: Timestamp::UNIX_EPOCH,
            operations: &BTreeMap::new(),
        };
        let binding = |name: &str| {
            let text = json!({
                "metadata": {"namespace": "ns", "name": name}, "spec": {},
                "status": {"aggregatedStatus": 1},
            })
            .to_string();
            serde_json::from_str(&text).unwrap()
        };
        let error = compare(&task, |feeder| {
            for number in 0..10_000 {
                let name = format!("web-{number}");
                let object = json!({"metadata": {"namespace": "ns", "name": name}});
                let joined = (serde_json::from_value(object)?, Some(binding(&name)));
                let source = Source::Hub(Box::new(joined));
                feeder.add(Job { kind: KIND, source })?;
            }
            panic!("the feeder is not told");
        });
        let error = format!("{:#}", error.map(drop).unwrap_err());
        assert!(
            error.contains("WorkloadDeployment ns/web-") && error.contains("aggregatedStatus"),
            "{error}"
        );
    }

    #[test]
    fn a_script_that_runs_out_of_time_spoils_no_other_operation() {
        let rules = json!({
            "replicaResource": {"luaScript": ENDLESS},
            "retention": {"luaScript": "function Retain(d) return d end"},
        });
        let (on_hub, _) = compare_objects(&rules, 1).unwrap();
        let groups: Vec<_> = on_hub.groups.iter().collect();
        let [((_, operation, _), group)] = groups.as_slice() else {
            panic!("{groups:?}");
        };
        assert_eq!(*operation, Operation::InterpretReplica);
        assert!(
            group.example.now.contains("exceeds the time limit"),
            "{group:?}"
        );
    }

    #[test]
    fn too_many_calls_without_end_end_the_comparison() {
        let rules = json!({"replicaResource": {"luaScript": ENDLESS}});
        let error = compare_objects(&rules, 1000)
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("first InterpretReplica of WorkloadDeployment sample/sample"),
            "{error}"
        );
    }
}
