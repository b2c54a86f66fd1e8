//! Finds out why a cell does not get the current copy: an override of Karmada cannot be applied there.
//!
//! Karmada says so only in Events of the copy. It does not say when the failure ends, and it leaves out Events of an object
//! that has had many. So the Events are read only while a cell lacks the current copy, and a failure that was found once
//! is shown until the cell has the copy (docs/operate/cell-rules.md).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::condition::MESSAGE_MAX;
use api::karmada::events::{OVERRIDE_FAILED, WORK_FAILED};
use api::{HubNamespace, ProjectName, WorkloadDeployment};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{Client, Resource};
use tokio::sync::Semaphore;
use tracing::debug;

use crate::lock::lock;
use crate::runtime::keys::ProjectKey;
use crate::runtime::write::Collection;

/// Time that Karmada gets to write a copy to its cells before its Events are read.
const FIRST: SignedDuration = SignedDuration::from_secs(2);
/// Longest interval between two reads.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);
/// Most lists of Events at a time. While the hub is slow, the other reads wait.
const LISTS: usize = 4;
/// Most Events of one list.
const EVENTS_MAX: u32 = 500;
/// Age of an Event up to which Karmada is known to repeat the override. Its longest pause is 17 minutes.
const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// Largest assumed difference between the clocks of this process and of the hub.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// How long the Events of a namespace are used. After a change of many copies, one list serves all of them.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// Records, for the WorkloadDeployments of all projects, why cells lack the current copy.
#[derive(Debug)]
pub(super) struct OverrideFailures {
    lacks: Mutex<HashMap<ProjectKey, Lack>>,
    /// The Events of hub namespaces, and when they were read.
    events: Mutex<HashMap<HubNamespace, (Timestamp, Events)>>,
    lists: Semaphore,
}

impl Default for OverrideFailures {
    fn default() -> Self {
        Self {
            lacks: Mutex::default(),
            events: Mutex::default(),
            lists: Semaphore::new(LISTS),
        }
    }
}

type Events = Arc<[Event]>;

/// Cells lack the current copy.
#[derive(Debug)]
struct Lack {
    cells: BTreeSet<String>,
    since: Timestamp,
    /// When the Events were last read.
    read: Option<Timestamp>,
    failure: Option<Failure>,
}

/// What is known about the cells that lack the copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownLack {
    /// Whether they have lacked it for longer than Karmada usually needs.
    pub(super) is_late: bool,
    /// The message about overrides that fail.
    pub(super) override_failure: Option<String>,
}

/// Overrides that fail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    message: String,
    /// The cells for which they fail.
    cells: BTreeSet<String>,
    /// When Karmada last said so.
    last: Timestamp,
}

impl OverrideFailures {
    /// Returns what is known about the cells that lack the copy.
    pub(super) fn of(&self, key: &ProjectKey) -> KnownLack {
        let lacks = lock(&self.lacks);
        let lack = lacks.get(key);
        let failure = lack.and_then(|lack| lack.failure.as_ref());
        KnownLack {
            is_late: lack.is_some_and(|lack| lack.read.is_some()),
            override_failure: failure.map(|failure| failure.message.clone()),
        }
    }

    /// Returns whether overrides that fail are the reason why each of these cells lacks the copy. Karmada repeats them by
    /// itself. A failure without a recent Event may have ended.
    pub(super) fn explain(
        &self,
        key: &ProjectKey,
        cells: &BTreeSet<String>,
        now: Timestamp,
    ) -> bool {
        let lacks = lock(&self.lacks);
        let failure = lacks.get(key).and_then(|lack| lack.failure.as_ref());
        failure.is_some_and(|failure| {
            cells.is_subset(&failure.cells) && now.duration_since(failure.last) < RECENT
        })
    }

    /// Notes the cells that lack the copy now. Returns when to read the Events, and since when cells lack the copy.
    /// Returns `None` if no cell lacks it.
    fn observe(
        &self,
        key: &ProjectKey,
        cells: &BTreeSet<String>,
        now: Timestamp,
    ) -> Option<(Timestamp, Timestamp)> {
        let mut lacks = lock(&self.lacks);
        if cells.is_empty() {
            lacks.remove(key);
            return None;
        }
        let lack = lacks.entry(key.clone()).or_insert_with(|| Lack {
            cells: cells.clone(),
            since: now,
            read: None,
            failure: None,
        });
        if lack.cells != *cells {
            lack.cells.clone_from(cells);
            lack.read = None;
            // The plan keeps what is shown about cells that still lack the copy.
            lack.failure = None;
        }
        let (from, wait) = match lack.read {
            None => (lack.since, FIRST),
            Some(read) => (read, read.duration_since(lack.since).clamp(FIRST, LONGEST)),
        };
        let due = from.saturating_add(wait).unwrap_or(Timestamp::MAX);
        Some((due, lack.since))
    }

    /// Notes the result of a read. Returns whether something new must be shown.
    fn note(&self, key: &ProjectKey, failure: Option<Failure>, now: Timestamp) -> bool {
        let mut lacks = lock(&self.lacks);
        let Some(lack) = lacks.get_mut(key) else {
            return false;
        };
        let is_first = lack.read.replace(now).is_none();
        let is_new = failure.is_some() && lack.failure != failure;
        // Without a recent Event, the failure has not ended.
        lack.failure = failure.or_else(|| lack.failure.take());
        is_first || is_new
    }

    pub(super) fn forget(&self, key: &ProjectKey) {
        lock(&self.lacks).remove(key);
    }

    pub(super) fn forget_project(&self, project: &ProjectName) {
        lock(&self.lacks).retain(|key, _| key.project != *project);
    }

    /// Reads the Events of the copy if it is time. Returns when to call again, or `None` if no cell lacks the copy. If the
    /// hub does not list Events, nothing is known: this must not stop the federator.
    pub(super) async fn look(
        &self,
        hub: &Client,
        hub_namespace: &HubNamespace,
        key: &ProjectKey,
        copy: Option<&WorkloadDeployment>,
        cells: &BTreeSet<String>,
        now: Timestamp,
    ) -> Option<Duration> {
        let uid = copy?.meta().uid.as_deref()?;
        let until = |due: Timestamp| due.duration_since(now).unsigned_abs();
        let (due, since) = self.observe(key, cells, now)?;
        if due > now {
            return Some(until(due));
        }
        let Some(events) = self.events(hub, hub_namespace, uid, now).await else {
            // The longer the cells have lacked the copy, the less often this is tried.
            let wait = now.duration_since(since).clamp(FIRST, LONGEST);
            return Some(wait.unsigned_abs());
        };
        let of_copy = events.iter();
        let of_copy = of_copy.filter(|it| it.involved_object.uid.as_deref() == Some(uid));
        let failure = failure(of_copy, cells, since - SKEW);
        if self.note(key, failure, now) {
            return Some(Duration::ZERO);
        }
        self.observe(key, cells, now).map(|(due, _)| until(due))
    }

    /// Returns the warnings about WorkloadDeployments in a hub namespace, or those about the copy with this UID if there
    /// are too many for one list. Returns `None` if too many lists run already.
    async fn events(
        &self,
        hub: &Client,
        namespace: &HubNamespace,
        uid: &str,
        now: Timestamp,
    ) -> Option<Events> {
        /// An API server keeps no Events in memory, so each list reads all Events of the namespace from etcd.
        const WARNINGS: &str = "involvedObject.kind=WorkloadDeployment,type=Warning";
        let is_fresh = |read: Timestamp| now.duration_since(read) < FRESH;
        let known = lock(&self.events).get(namespace).cloned();
        let known = known.filter(|(read, _)| is_fresh(*read));
        if let Some((_, events)) = &known
            && is_complete(events)
        {
            return Some(Arc::clone(events));
        }
        let _list = self.lists.try_acquire().ok()?;
        let collection = Collection::<Event>::new(hub, namespace.as_str(), None);
        let list = async |fields: &str| match collection.select(fields, EVENTS_MAX).await {
            Ok(events) => events.into(),
            Err(error) => {
                debug!(namespace = namespace.as_str(), %error, "no Events");
                Events::default()
            }
        };
        if known.is_none() {
            let events = list(WARNINGS).await;
            let mut all = lock(&self.events);
            all.retain(|_, (read, _)| is_fresh(*read));
            all.insert(namespace.clone(), (now, Arc::clone(&events)));
            if is_complete(&events) {
                return Some(events);
            }
        }
        Some(list(&format!("{WARNINGS},involvedObject.uid={uid}")).await)
    }
}

/// Returns whether a list has all Events that were asked for.
fn is_complete(events: &Events) -> bool {
    u32::try_from(events.len()).is_ok_and(|count| count < EVENTS_MAX)
}

/// Returns the message about the overrides that fail in these cells, according to Events of the copy after this time.
fn failure<'e>(
    events: impl Iterator<Item = &'e Event>,
    cells: &BTreeSet<String>,
    after: Timestamp,
) -> Option<Failure> {
    let mut recent: Vec<_> = events.filter(|it| time(it) > Some(after)).collect();
    recent.sort_by_key(|it| time(it));
    let with_reason = |reason: &'static str| {
        let recent = recent.iter();
        recent.filter(move |it| it.reason.as_deref() == Some(reason))
    };
    let (mut failing, mut last) = (BTreeMap::new(), None);
    for event in with_reason(OVERRIDE_FAILED) {
        let message = event.message.as_deref().unwrap_or_default();
        if let Some((policy, cell)) = policy_and_cell(message)
            && cells.contains(cell)
        {
            failing.insert(cell, policy);
            last = time(event);
        }
    }
    if failing.is_empty() {
        return None;
    }
    let texts = failing
        .iter()
        .map(|(cell, policy)| format!("{cell}: {policy} fails"));
    let mut message = texts.collect::<Vec<_>>().join("; ");
    // Karmada writes this Event after that of the override.
    let cause = with_reason(WORK_FAILED)
        .next_back()
        .filter(|it| time(it) >= last);
    if let Some(cause) = cause.and_then(|event| event.message.as_deref()) {
        message = format!("{message}: {cause}");
    }
    Some(Failure {
        message: message.chars().take(MESSAGE_MAX).collect(),
        cells: failing.into_keys().map(str::to_owned).collect(),
        last: last?,
    })
}

/// Returns when the event last happened.
fn time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|it| it.0);
    last.or_else(|| event.event_time.as_ref().map(|it| it.0))
}

/// Reads a message of Karmada, such as `Apply override policy(ns-1/mirror) for cluster(lax1) failed.`. Returns the policy,
/// with its kind, and the cell.
fn policy_and_cell(message: &str) -> Option<(String, &str)> {
    /// Begin of the message if Kubernetes has joined Events.
    const COMBINED: &str = "(combined from similar events): ";
    let message = message.strip_prefix(COMBINED).unwrap_or(message);
    let rest = message.strip_prefix("Apply ")?.strip_suffix(") failed.")?;
    let (policy, cell) = rest.split_once(") for cluster(")?;
    let policy = match policy.strip_prefix("cluster override policy(") {
        Some(name) => format!("ClusterOverridePolicy {name}"),
        None => format!(
            "OverridePolicy {}",
            policy.strip_prefix("override policy(")?
        ),
    };
    Some((policy, cell))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn event(reason: &str, message: &str, seconds: i64) -> Event {
        object(json!({
            "metadata": {"name": "e", "namespace": "ns-1"},
            "involvedObject": {}, "reason": reason, "message": message,
            "lastTimestamp": at(seconds).to_string(),
        }))
    }

    fn cells(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_failure_names_cell_policy_and_cause() {
        let fails = |policy: &str, cell: &str, seconds| {
            let message = format!("Apply {policy} for cluster({cell}) failed.");
            event(OVERRIDE_FAILED, &message, seconds)
        };
        let events = [
            event(
                OVERRIDE_FAILED,
                "(combined from similar events): Apply override policy(ns-1/of-dfw1) for cluster(dfw1) failed.",
                20,
            ),
            fails("cluster override policy(all)", "lax1", 20),
            // Another one of the same cell failed before.
            fails("override policy(ns-1/former)", "lax1", 11),
            // Before the cells lacked the copy.
            fails("override policy(ns-1/old)", "lax2", 9),
            event(WORK_FAILED, "the first cause", 11),
            event(WORK_FAILED, "doc is missing path", 21),
            event(
                "ApplyOverridePolicySucceed",
                "Apply x for cluster(lax1) succeed.",
                22,
            ),
            event(OVERRIDE_FAILED, "in other words", 22),
        ];
        let expected = |text: &str, failing: &[&str]| {
            Some(Failure {
                message: text.to_owned(),
                cells: cells(failing),
                last: at(20),
            })
        };
        assert_eq!(
            failure(events.iter(), &cells(&["lax1", "lax2"]), at(10)),
            expected(
                "lax1: ClusterOverridePolicy all fails: doc is missing path",
                &["lax1"]
            )
        );
        assert_eq!(
            failure(events.iter(), &cells(&["dfw1", "lax1"]), at(10)),
            expected(
                "dfw1: OverridePolicy ns-1/of-dfw1 fails; lax1: ClusterOverridePolicy all fails: doc is missing path",
                &["dfw1", "lax1"]
            )
        );
        assert_eq!(failure(events.iter(), &cells(&["lax2"]), at(10)), None);
        assert_eq!(failure(events.iter(), &cells(&["lax1"]), at(30)), None);
    }

    #[test]
    fn events_are_read_after_two_seconds_and_then_less_and_less() {
        let failures = OverrideFailures::default();
        let key = ProjectKey::new(&ProjectName::new("p").unwrap(), "default", "web");
        let lax = cells(&["lax1"]);
        assert_eq!(failures.observe(&key, &BTreeSet::new(), at(0)), None);
        let mut now = 0;
        let mut times = Vec::new();
        while times.len() < 11 {
            let (due, since) = failures.observe(&key, &lax, at(now)).unwrap();
            assert_eq!(since, at(0));
            now = due.duration_since(at(0)).as_secs();
            times.push(now);
            assert_eq!(failures.of(&key).is_late, times.len() > 1);
            assert_eq!(failures.note(&key, None, due), times.len() == 1);
        }
        assert_eq!(times, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1624]);
        assert_eq!(failures.of(&key).override_failure, None);
        // Another cell lacks the copy too.
        let both = cells(&["lax1", "lax2"]);
        let (due, _) = failures.observe(&key, &both, at(now)).unwrap();
        assert_eq!(due, at(2));
        let message = || Some("fails".to_owned());
        let fails = || {
            Some(Failure {
                message: "fails".to_owned(),
                cells: lax.clone(),
                last: at(0),
            })
        };
        assert!(failures.note(&key, fails(), at(now)));
        assert!(!failures.note(&key, fails(), at(now)));
        // The Events are gone, and the cells still lack the copy.
        assert!(!failures.note(&key, None, at(now)));
        assert_eq!(failures.of(&key).override_failure, message());
        let explain = |cells, now| failures.explain(&key, cells, at(now));
        assert!(explain(&lax, 1_799) && !explain(&both, 1));
        assert!(!explain(&lax, 1_800), "Karmada would have said so again");
        assert_eq!(failures.observe(&key, &BTreeSet::new(), at(now)), None);
        assert_eq!(failures.of(&key).override_failure, None);
    }
}
