//! Metrics of caches, queues and controllers.

mod examples;
mod waiting;

use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::clock::{self, Clock};
use waiting::WaitingSince;

/// Upper bounds of the duration of a reconciliation, in seconds.
const BUCKETS: [f64; 9] = [0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
/// Upper bounds of the time from an event to a write, in seconds. The time is usually about 10 ms. It can be minutes
/// while a plane is unreachable.
const PROPAGATION_BUCKETS: [f64; 11] = [
    0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0,
];

/// Counters, gauges and histograms of caches and controllers.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) reconciles: Family<ReconcileLabels, Counter>,
    pub(crate) reconcile_seconds: Family<ControllerLabels, Histogram>,
    pub(crate) queue_depth: Family<ControllerLabels, Gauge>,
    pub(crate) queue_keys: Family<ControllerLabels, Gauge>,
    pub(crate) queue_groups_in_trouble: Family<OutageLabels, Gauge>,
    pub(crate) cached: Family<CacheLabels, Gauge>,
    pub(crate) undecodable: Family<CacheLabels, Gauge>,
    pub(crate) leader: Gauge,
    controllers_waiting: Gauge,
    pub(crate) projects_engaged: Gauge,
    pub(crate) projects_failing: Gauge,
    pub(crate) projects_failing_kinds: Family<KindLabels, Gauge>,
    pub(crate) projects_not_ready: Gauge,
    pub(crate) projects_suspended: Gauge,
    pub(crate) project_kubeconfigs_refused: Gauge,
    unidentified_namespaces: Gauge,
    hub_contradictions: Gauge,
    quarantined_objects: Family<QuarantineLabels, Gauge>,
    shadowing_customizations: Gauge,
    silent_lower_hubs: Gauge,
    events: Family<EventLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    propagation_seconds: Family<WriteLabels, Histogram>,
    quota_enforced: Gauge,
    quota_waiting: WaitingSince,
    networks_waiting: WaitingSince,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ControllerLabels {
    pub(crate) controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReconcileLabels {
    pub(crate) controller: &'static str,
    pub(crate) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutageLabels {
    pub(crate) controller: &'static str,
    pub(crate) trouble: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CacheLabels {
    pub(crate) plane: String,
    pub(crate) kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    pub(crate) kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuarantineLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    controller: &'static str,
    verb: &'static str,
    kind: String,
}

impl Metrics {
    /// Records whether the controllers of the leader wait for current caches.
    pub fn set_controllers_waiting(&self, waiting: bool) {
        self.controllers_waiting.set(i64::from(waiting));
    }

    /// Returns whether the controllers of the leader wait for current caches.
    pub fn controllers_wait(&self) -> bool {
        self.controllers_waiting.get() > 0
    }

    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let propagation: fn() -> Histogram = || Histogram::new(PROPAGATION_BUCKETS);
        let metrics = Self {
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(histogram),
            queue_depth: Family::default(),
            queue_keys: Family::default(),
            queue_groups_in_trouble: Family::default(),
            cached: Family::default(),
            undecodable: Family::default(),
            leader: Gauge::default(),
            controllers_waiting: Gauge::default(),
            projects_engaged: Gauge::default(),
            projects_failing: Gauge::default(),
            projects_failing_kinds: Family::default(),
            projects_not_ready: Gauge::default(),
            projects_suspended: Gauge::default(),
            project_kubeconfigs_refused: Gauge::default(),
            unidentified_namespaces: Gauge::default(),
            hub_contradictions: Gauge::default(),
            quarantined_objects: Family::default(),
            shadowing_customizations: Gauge::default(),
            silent_lower_hubs: Gauge::default(),
            events: Family::default(),
            writes: Family::default(),
            propagation_seconds: Family::new_with_constructor(propagation),
            quota_enforced: Gauge::default(),
            quota_waiting: WaitingSince::default(),
            networks_waiting: WaitingSince::default(),
        };
        metrics.register_queues(registry);
        registry.register(
            "cached_objects",
            "Watched objects, by plane and kind",
            metrics.cached.clone(),
        );
        registry.register(
            "undecodable_objects",
            "Watched objects that cannot be decoded, by plane and kind",
            metrics.undecodable.clone(),
        );
        registry.register(
            "leader",
            "1 while this process may write, because it holds the lease or needs none, otherwise 0",
            metrics.leader.clone(),
        );
        registry.register(
            "controllers_waiting",
            "1 while this process may write, but its controllers wait until the caches of the hub or of the cell are current",
            metrics.controllers_waiting.clone(),
        );
        metrics.register_projects(registry);
        registry.register(
            "unidentified_namespaces",
            "Hub namespaces that contain our objects but do not identify their project",
            metrics.unidentified_namespaces.clone(),
        );
        registry.register(
            "hub_contradictions",
            "WorkloadDeployments and LowerHubs that are held because nothing proves that the hub in use is theirs",
            metrics.hub_contradictions.clone(),
        );
        registry.register(
            "quarantined_objects",
            "Hub Instances that are not projected until an administrator repairs them, by reason",
            metrics.quarantined_objects.clone(),
        );
        registry.register(
            "shadowing_customizations",
            "ResourceInterpreterCustomizations that Karmada uses for our kinds instead of the webhook",
            metrics.shadowing_customizations.clone(),
        );
        registry.register(
            "silent_lower_hubs",
            "LowerHubs whose process has sent no heartbeat for 40 s",
            metrics.silent_lower_hubs.clone(),
        );
        // An alert sees the first lost event only if the counter was 0 before.
        for outcome in ["published", "failed", "dropped"] {
            drop(metrics.events.get_or_create(&EventLabels { outcome }));
        }
        registry.register(
            "events",
            "Kubernetes Events about transitions of conditions, by outcome (published, failed, dropped)",
            metrics.events.clone(),
        );
        registry.register(
            "writes",
            "Writes to API servers by controller, verb and kind",
            metrics.writes.clone(),
        );
        registry.register(
            "propagation_seconds",
            "Time in seconds from the watch event of a change to the write that followed from it",
            metrics.propagation_seconds.clone(),
        );
        metrics
    }

    /// Registers the metrics of quota and of networks, which only a cell has. The names of those of quota are those of
    /// the Go manager, so `registry` has another prefix.
    pub fn register_cell(&self, registry: &mut Registry) {
        self.register_cell_with(registry, clock::now);
    }

    fn register_cell_with(&self, registry: &mut Registry, clock: Clock) {
        registry.register(
            "quota_enforcement_enabled",
            "Only in cells: 1 if this cell makes Instances wait for quota, 0 if its config file names no credentials for it",
            self.quota_enforced.clone(),
        );
        let waiting = [
            self.quota_waiting.collector(
                "quota_claims_waiting_seconds",
                "Only in cells: how long the Instance that waits longest for quota has waited, in seconds; 0 if none waits",
                clock,
            ),
            self.networks_waiting.collector(
                "networks_waiting_seconds",
                "Only in cells: how long the Instance that waits longest for its networks has waited, in seconds; 0 if none waits",
                clock,
            ),
        ];
        for collector in waiting {
            registry.register_collector(Box::new(collector));
        }
    }

    /// Records whether this cell makes Instances wait for quota.
    pub fn quota_enforced(&self, is_enforced: bool) {
        self.quota_enforced.set(i64::from(is_enforced));
    }

    /// Records since when the Instance waits that waits longest for quota. `None` means that none waits.
    pub fn quota_waiting(&self, since: Option<Timestamp>) {
        self.quota_waiting.set(since);
    }

    /// Records since when the Instance waits that waits longest for its networks. `None` means that none waits.
    pub fn networks_waiting(&self, since: Option<Timestamp>) {
        self.networks_waiting.set(since);
    }

    fn register_queues(&self, registry: &mut Registry) {
        registry.register(
            "reconciles",
            "Reconciliations by controller and result (settled, again, gone, error)",
            self.reconciles.clone(),
        );
        registry.register(
            "reconcile_seconds",
            "Duration of reconciliations in seconds, by controller",
            self.reconcile_seconds.clone(),
        );
        registry.register(
            "queue_depth",
            "Keys that wait for a worker, by controller",
            self.queue_depth.clone(),
        );
        registry.register(
            "queue_keys",
            "Keys that a controller reconciles now, later or at the next resync",
            self.queue_keys.clone(),
        );
        registry.register(
            "queue_groups_in_trouble",
            "Tenants that a controller found unreachable or suspended, or whose write budget is used up (busy)",
            self.queue_groups_in_trouble.clone(),
        );
    }

    fn register_projects(&self, registry: &mut Registry) {
        registry.register(
            "projects_engaged",
            "Projects whose API servers are in use",
            self.projects_engaged.clone(),
        );
        registry.register(
            "projects_failing",
            "Engaged projects with a kind that cannot be listed or watched at present",
            self.projects_failing.clone(),
        );
        registry.register(
            "projects_failing_kinds",
            "Engaged projects in which this kind cannot be listed or watched at present",
            self.projects_failing_kinds.clone(),
        );
        registry.register(
            "projects_not_ready",
            "Projects that are not in use because they are not ready",
            self.projects_not_ready.clone(),
        );
        registry.register(
            "projects_suspended",
            "Engaged projects that refuse creates and updates because they are suspended",
            self.projects_suspended.clone(),
        );
        registry.register(
            "project_kubeconfigs_refused",
            "Kubeconfig files of projects whose contents are not in use",
            self.project_kubeconfigs_refused.clone(),
        );
    }

    /// Returns the number of keys in the queue of a controller.
    pub fn queued_keys(&self, controller: &'static str) -> i64 {
        let keys = self.queue_keys.get(&ControllerLabels { controller });
        keys.map_or(0, |keys| keys.get())
    }

    /// Returns the number of engaged projects with a kind that cannot be listed or watched at present.
    pub fn failing_projects(&self) -> i64 {
        self.projects_failing.get()
    }

    /// Sets the metric `leader`, because this process may write without a lease.
    pub fn leads_without_election(&self) {
        self.leader.set(1);
    }

    /// Sets the number of hub namespaces that contain our objects but do not identify their project.
    pub fn unidentified_namespaces(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.unidentified_namespaces.set(count);
    }

    /// Sets the number of WorkloadDeployments that are held because they are not proved to be on the hub in use.
    pub fn hub_contradictions(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.hub_contradictions.set(count);
    }

    /// Counts a hub Instance that is not projected for this reason. The Instance is counted until the result is
    /// dropped.
    pub fn quarantined_object(&self, reason: &'static str) -> Counted {
        let gauge = self
            .quarantined_objects
            .get_or_create(&QuarantineLabels { reason });
        Counted::new(&gauge)
    }

    /// Sets the number of ResourceInterpreterCustomizations that Karmada uses for our kinds instead of the webhook.
    pub fn shadowing_customizations(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.shadowing_customizations.set(count);
    }

    /// Sets the number of lower hubs whose process is silent.
    pub fn silent_lower_hubs(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.silent_lower_hubs.set(count);
    }

    /// Counts an Event about a transition: `published`, `failed` or `dropped`.
    pub fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&EventLabels { outcome }).inc();
    }

    /// Counts a write of a controller. `age` is the time from the event that triggered the work to the write. It is
    /// `None` if there was no event.
    pub fn wrote(
        &self,
        controller: &'static str,
        verb: &'static str,
        kind: &str,
        age: Option<Duration>,
    ) {
        let labels = WriteLabels {
            controller,
            verb,
            kind: kind.to_owned(),
        };
        self.writes.get_or_create(&labels).inc();
        if let Some(age) = age {
            let propagation = self.propagation_seconds.get_or_create(&labels);
            propagation.observe(age.as_secs_f64());
        }
    }
}

/// Sets one gauge of a family.
pub(crate) fn set<L>(family: &Family<L, Gauge>, labels: &L, value: usize)
where
    L: Clone + Eq + Hash,
{
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    family.get_or_create(labels).set(value);
}

/// Adds one to a gauge until it is dropped.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    /// Returns metrics that are not exported.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
