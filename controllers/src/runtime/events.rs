//! Publishes Kubernetes events: on transitions of conditions, and about the life of objects of a cell.

mod fair_queue;
mod transitions;

use std::convert::Infallible;
use std::time::Duration;

use api::Condition;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use multicluster::projects::EngagedProject;
use multicluster::{Metrics, Tasks};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use fair_queue::FairQueue;
use transitions::{ConditionTransition, transitions};

/// Maximum number of announcements that wait to be assigned to the lines. If there are more, events are dropped and
/// counted.
const WAITING: usize = 4096;
/// How many announcements are published at the same time. Each belongs to another line.
const AT_A_TIME: usize = 16;
/// How long the publication of one event may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an event is delayed after the write of its status. After a change that affects many objects, this delay
/// lets statuses be written before events.
const LATER: Duration = Duration::from_secs(1);
/// Longest note of an event, in bytes. The limit is from events.k8s.io/v1.
const NOTE_MAX: usize = 1024;

/// Publishes events as one controller.
pub(crate) struct Events(Recorder);

impl Events {
    pub(crate) fn new(client: Client, controller: &str) -> Self {
        Self(recorder(client, own(controller)))
    }

    /// Publishes an event about `object`. If it fails, logs the failure and returns no error, because a condition
    /// contains the same information.
    pub(crate) async fn publish<K>(&self, object: &K, type_: EventType, reason: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = event(type_, reason, note);
        if let Err(error) = self.0.publish(&event, &object.object_ref(&())).await {
            warn!(%error, reason, note, "event not published");
        }
    }
}

/// Returns the name with which a controller reports events about its conditions.
fn own(controller: &str) -> String {
    format!("compute-federation-{controller}")
}

fn recorder(client: Client, controller: String) -> Recorder {
    let reporter = Reporter {
        controller,
        instance: None,
    };
    Recorder::new(client, reporter)
}

fn event(type_: EventType, reason: &str, note: &str) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: note
            .get(..note.floor_char_boundary(NOTE_MAX))
            .map(str::to_owned),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}

/// An event about the life of an object of a cell.
pub(crate) struct CellEvent {
    /// The name of the reporting controller.
    pub(crate) controller: &'static str,
    /// The object in the cell.
    pub(crate) object: ObjectReference,
    /// The object in the project for which the object is in the cell.
    pub(crate) related: ObjectReference,
    pub(crate) type_: EventType,
    pub(crate) reason: &'static str,
    pub(crate) note: String,
}

/// Publishes events in a separate task. Reconciliations do not wait for events, and a
/// failed event does not fail a reconciliation.
#[derive(Clone)]
pub(crate) struct EventPublisher {
    queue: mpsc::Sender<Announcement>,
    metrics: Metrics,
}

struct Announcement {
    since: Instant,
    /// The line in which the announcement waits: a project, or a namespace of a cell.
    line: String,
    recorder: Recorder,
    object: ObjectReference,
    event: Event,
}

impl EventPublisher {
    pub(crate) fn start(tasks: &Tasks, metrics: &Metrics) -> Self {
        let (queue, announcements) = mpsc::channel(WAITING);
        let stop = tasks.stop();
        let publishing = publish_all(announcements, metrics.clone());
        tasks.spawn("events", async move {
            stop.run_until_cancelled(publishing).await;
            Ok::<_, Infallible>(())
        });
        Self {
            queue,
            metrics: metrics.clone(),
        }
    }

    /// Publishes an event for each transition of these conditions of an object of the project.
    pub(crate) fn publish<K>(
        &self,
        project: &EngagedProject,
        controller: &'static str,
        object: &K,
        types: &[&str],
        former: &[Condition],
        current: &[Condition],
    ) where
        K: Resource<DynamicType = ()>,
    {
        for transition in transitions(types, former, current) {
            let ConditionTransition {
                type_,
                reason,
                note,
            } = transition;
            self.announce(Announcement {
                since: Instant::now(),
                line: project.name().to_string(),
                recorder: recorder(project.client().clone(), own(controller)),
                object: object.object_ref(&()),
                event: event(type_, &reason, &note),
            });
        }
    }

    /// Publishes an event about the life of an object of a cell.
    pub(crate) fn publish_in_cell(&self, client: &Client, event: CellEvent) {
        let CellEvent {
            controller,
            object,
            related,
            type_,
            reason,
            note,
        } = event;
        self.announce(Announcement {
            since: Instant::now(),
            line: object.namespace.clone().unwrap_or_default(),
            recorder: recorder(client.clone(), controller.to_owned()),
            object,
            event: Event {
                secondary: Some(related),
                ..self::event(type_, reason, &note)
            },
        });
    }

    fn announce(&self, announcement: Announcement) {
        if self.queue.try_send(announcement).is_err() {
            self.metrics.event("dropped");
        }
    }
}

/// Publishes announcements until the channel is closed.
async fn publish_all(mut announcements: mpsc::Receiver<Announcement>, metrics: Metrics) {
    let mut waiting = FairQueue::new();
    let mut publishing = FuturesUnordered::new();
    loop {
        while publishing.len() < AT_A_TIME
            && let Some((line, announcement)) = waiting.take()
        {
            publishing.push(async move { (line, publish(announcement).await) });
        }
        tokio::select! {
            Some((line, outcome)) = publishing.next() => {
                metrics.event(outcome);
                waiting.done(line);
            }
            announcement = announcements.recv() => {
                let Some(announcement) = announcement else {
                    return;
                };
                let line = announcement.line.clone();
                if waiting.add(&line, announcement).is_err() {
                    metrics.event("dropped");
                }
            }
        }
    }
}

/// Publishes an event. Returns the outcome as the value of a metric label.
async fn publish(announcement: Announcement) -> &'static str {
    let Announcement {
        since,
        line: _,
        recorder,
        object,
        event,
    } = announcement;
    sleep_until(since + LATER).await;
    let problem = match timeout(PATIENCE, recorder.publish(&event, &object)).await {
        Ok(Ok(())) => return "published",
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    // The failure is only logged at debug level, because a condition contains the same information. Only that an
    // Instance is being deleted, and that a WorkloadDeployment was scaled, is in no condition.
    debug!(
        problem,
        reason = event.reason,
        name = object.name,
        "event not published"
    );
    "failed"
}
