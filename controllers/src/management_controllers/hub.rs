//! The watches of the hub. The watches pass each change to the triggers of the controllers.

use std::fmt::Debug;
use std::sync::Arc;

use api::karmada::{
    Cluster, ClusterOverridePolicy, PropagationPolicy, ResourceBinding,
    ResourceInterpreterCustomization,
};
use api::labels::LOWER_HUB;
use api::{CellRule, HubNamespace, Instance, LowerHub, WorkloadDeployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use multicluster::cache::{Change, Reflector};
use multicluster::{Cache, Metrics};
use serde::de::DeserializeOwned;

use super::indexes::{cells_of, deployment_of, project_of, upstream_of};
use super::lookups::HubView;
use super::queues::ManagementQueues;
use crate::customizations::{CustomizationReflector, wake_customization};
use crate::deletion_locks::DeletionLocks;
use crate::federator::StaleCells;
use crate::hub::HubCaches;
use crate::hub::cells::Cells;
use crate::hub::departed::DepartedNamespaces;
use crate::hub::heartbeats::WatchedLowerHubs;
use crate::hub::policy_refusals::PolicyRefusals;
use crate::hub::unidentified::UnidentifiedNamespaces;
use crate::objects::Namespace;
use crate::policy::kinds;
use crate::projector::Quarantined;
use crate::runtime::triggers::{self, HubSource, NO_OBJECT, wake};
use crate::runtime::wiring::{Wiring, for_each_version};
use crate::{cell_rules, heartbeat};

/// The log message when Clusters cannot be watched.
const WITHOUT_CLUSTERS: &str = "the status of a WorkloadDeployment does not show cells that are unreachable or missing, and CellRules have no effect";
/// The log message when CellRules or ClusterOverridePolicies cannot be watched.
const WITHOUT_CELL_RULES: &str = "CellRules have no effect";
/// The log message when LowerHubs cannot be watched.
const WITHOUT_LOWER_HUBS: &str =
    "the status of a WorkloadDeployment does not show unreachable cells below lower hubs";
/// The log message when the Leases of lower hubs cannot be watched.
const WITHOUT_HEARTBEATS: &str = "nothing shows that the process of a lower hub is silent";
/// The log message when ResourceBindings cannot be watched.
const WITHOUT_BINDINGS: &str = "the status of a WorkloadDeployment does not show cells that are unreachable or missing, and \
    no PropagationPolicy is deleted";

/// The reflectors of the hub.
pub(crate) struct HubReflectors {
    namespaces: Reflector<Namespace>,
    deployments: Reflector<WorkloadDeployment>,
    policies: Reflector<PropagationPolicy>,
    bindings: Reflector<ResourceBinding>,
    instances: Reflector<Instance>,
    clusters: Reflector<Cluster>,
    lower_hubs: Reflector<LowerHub>,
    /// The Leases of lower hubs alone.
    leases: Reflector<Lease>,
    cell_rules: Reflector<CellRule>,
    override_policies: Reflector<ClusterOverridePolicy>,
    customizations: CustomizationReflector,
}

impl HubReflectors {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            namespaces: Reflector::new("hub", metrics),
            deployments: Reflector::new("hub", metrics),
            policies: Reflector::new("hub", metrics),
            bindings: Reflector::new("hub", metrics),
            instances: Reflector::new("hub", metrics),
            clusters: Reflector::new("hub", metrics),
            lower_hubs: Reflector::new("hub", metrics).optional(),
            leases: Reflector::new("hub", metrics).labelled(LOWER_HUB, "true"),
            cell_rules: Reflector::new("hub", metrics),
            override_policies: Reflector::new("hub", metrics),
            customizations: CustomizationReflector::new(metrics),
        }
    }

    /// Returns the caches that the reflectors fill.
    pub(crate) fn hub(&mut self, client: Client) -> HubCaches {
        let lower_hubs = WatchedLowerHubs::new(client.clone(), &mut self.lower_hubs, &self.leases);
        HubCaches {
            client,
            namespaces: self.namespaces.cache(),
            departed: DepartedNamespaces::default(),
            namespaces_of: self.namespaces.index(project_of),
            namespaces_for: self.namespaces.index(upstream_of),
            deployments: self.deployments.cache(),
            copies_for_policies: self
                .deployments
                .index_all(|copy| kinds::of_copy(copy.meta()), kinds::of_copy),
            policies: self.policies.cache(),
            policy_locks: DeletionLocks::default(),
            policy_refusals: PolicyRefusals::default(),
            bindings: self.bindings.cache(),
            bindings_for_policies: self.bindings.index_all(
                |binding| kinds::of_binding(binding.meta()),
                kinds::of_binding,
            ),
            cell_rules: self.cell_rules.cache(),
            override_policies: self.override_policies.cache(),
            instances: self.instances.cache(),
            instances_of: self.instances.index(deployment_of),
            instances_in_cell: self.instances.index(cells_of),
            cells: Cells::new(&self.clusters, &self.lower_hubs, &self.bindings),
            lower_hubs,
        }
    }

    pub(super) fn customizations(&self) -> Cache<ResourceInterpreterCustomization> {
        self.customizations.cache()
    }

    /// Forgets the activity of a cell whose Cluster was deleted.
    pub(super) fn forget_deleted_cells(&mut self, stale_cells: &Arc<StaleCells>) {
        let stale_cells = Arc::clone(stale_cells);
        self.clusters.on_change(move |change: Change<'_>| {
            let name = change.former.and_then(|former| former.name.as_deref());
            if let (Some(name), None) = (name, change.current) {
                stale_cells.forget_cell(name);
            }
        });
    }

    /// Registers all watches.
    pub(super) fn watch(
        mut self,
        wiring: &mut Wiring<'_>,
        view: &HubView,
        queues: &ManagementQueues,
        metrics: &Metrics,
        quarantined: &Quarantined,
    ) {
        let hub = &view.hub;
        // The triggers read the identities of deleted namespaces, so they are noted first.
        self.namespaces.on_change({
            let hub = Arc::clone(hub);
            move |change| hub.departed.note(change)
        });
        self.report_unidentified(hub, metrics);
        forget_quarantined(&mut self.instances, quarantined);
        wake_on_changes(&mut self.namespaces, HubSource::Namespaces, view, queues);
        wake_on_changes(&mut self.deployments, HubSource::Deployments, view, queues);
        wake_on_changes(&mut self.policies, HubSource::Policies, view, queues);
        wake_on_changes(&mut self.bindings, HubSource::Bindings, view, queues);
        wake_on_changes(&mut self.instances, HubSource::Instances, view, queues);
        wake_on_reachability(&mut self.clusters, view, queues);
        wake_on_cells_below(&mut self.lower_hubs, view, queues);
        let (lower_hubs, leases) = (&mut self.lower_hubs, &mut self.leases);
        let heartbeats = &hub.lower_hubs.heartbeats;
        heartbeat::wake_on_heartbeats(lower_hubs, leases, heartbeats, &queues.heartbeat);
        wake_on_lists(&mut self.bindings, view, queues);
        wake_on_lists(&mut self.clusters, view, queues);
        wake_cell_rules(&mut self.clusters, HubSource::Clusters, queues);
        wake_cell_rules(&mut self.cell_rules, HubSource::CellRules, queues);
        let (source, policies) = (HubSource::OverridePolicies, &mut self.override_policies);
        wake_cell_rules(policies, source, queues);
        wake_on_changes(policies, source, view, queues);

        let client = &hub.client;
        let customizations = self.begin(wiring, client);
        customizations.watch(wiring, client, &queues.customizations);
    }

    /// Starts all watches except the watch of ResourceInterpreterCustomizations, which is returned.
    pub(crate) fn begin(self, wiring: &mut Wiring<'_>, client: &Client) -> CustomizationReflector {
        let what = "Clusters of the hub";
        wiring.watch_if_served(what, WITHOUT_CLUSTERS, self.clusters, client.clone());
        let (what, lower_hubs) = ("LowerHubs of the hub", self.lower_hubs);
        wiring.watch_if_served(what, WITHOUT_LOWER_HUBS, lower_hubs, client.clone());
        wiring.watch("Namespaces of the hub", self.namespaces, client.clone());
        let what = "WorkloadDeployments of the hub";
        wiring.watch(what, self.deployments, client.clone());
        let what = "PropagationPolicies of the hub";
        wiring.watch(what, self.policies, client.clone());
        let what = "ResourceBindings of the hub";
        wiring.watch_if_served(what, WITHOUT_BINDINGS, self.bindings, client.clone());
        wiring.watch("Instances of the hub", self.instances, client.clone());
        let (rules, policies) = (self.cell_rules, self.override_policies);
        let what = "CellRules of the hub";
        wiring.watch_in_background(what, WITHOUT_CELL_RULES, rules, client.clone());
        let what = "ClusterOverridePolicies of the hub";
        wiring.watch_in_background(what, WITHOUT_CELL_RULES, policies, client.clone());
        let (what, leases) = ("Leases of lower hubs", self.leases);
        wiring.watch_in_background(what, WITHOUT_HEARTBEATS, leases, client.clone());
        self.customizations
    }

    /// Reports hub namespaces that contain our objects but have no identity. The result depends on the labels of the
    /// hub namespace and on our objects in it. So each change of the namespace or of these objects triggers a check.
    fn report_unidentified(&mut self, hub: &Arc<HubCaches>, metrics: &Metrics) {
        let unidentified = Arc::new(UnidentifiedNamespaces::new(metrics));
        self.namespaces.on_change({
            let (hub, unidentified) = (Arc::clone(hub), Arc::clone(&unidentified));
            for_each_version(move |metadata| {
                let name = metadata.name.as_deref().unwrap_or_default();
                if HubNamespace::new(name).is_ok() {
                    unidentified.namespace_changed(&hub, metadata);
                }
            })
        });
        let check = {
            let hub = Arc::clone(hub);
            Arc::new(move |metadata: &ObjectMeta| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                unidentified.check(&hub, namespace);
            })
        };
        self.deployments.on_change({
            let check = Arc::clone(&check);
            for_each_version(move |metadata| check(metadata))
        });
        self.policies
            .on_change(for_each_version(move |metadata| check(metadata)));
    }
}

/// Adds the keys of all objects of the hub. The keys of a hub namespace contain those of its WorkloadDeployments and
/// policies; bindings and cells add no others.
pub(super) fn wake_all(
    view: &HubView,
    customizations: &Cache<ResourceInterpreterCustomization>,
    queues: &ManagementQueues,
) {
    let hub = &view.hub;
    let wake = |source| move |change: Change<'_>| queues.wake_on_hub(source, change, view);
    hub.namespaces.replay(wake(HubSource::Namespaces));
    hub.instances.replay(wake(HubSource::Instances));
    let (queue, rows) = (&queues.cell_rules, cell_rules::triggers::ON_HUB);
    let source = HubSource::CellRules;
    triggers::wake(queue, rows, source, NO_OBJECT, &());
    heartbeat::wake_all(&hub.lower_hubs.cache, &queues.heartbeat);
    customizations.replay(|change| wake_customization(&queues.customizations, change));
}

/// Forgets the quarantine of an Instance that is gone, or that was replaced by another Instance of the same name.
fn forget_quarantined(instances: &mut Reflector<Instance>, quarantined: &Quarantined) {
    let quarantined = quarantined.clone();
    instances.on_change(move |change| {
        let uid = |metadata: &ObjectMeta| metadata.uid.clone();
        let (former, current) = (change.former.and_then(uid), change.current.and_then(uid));
        if let Some(gone) = former.filter(|former| current.as_ref() != Some(former)) {
            quarantined.forget(&gone);
        }
    });
}

/// Passes each change of a kind to the triggers of its source.
fn wake_on_changes<K>(
    reflector: &mut Reflector<K>,
    source: HubSource,
    view: &HubView,
    queues: &ManagementQueues,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (view, queues) = (view.clone(), queues.clone());
    reflector.on_change(move |change| queues.wake_on_hub(source, change, &view));
}

/// Passes each list of a kind that describes cells to the triggers.
fn wake_on_lists<K>(reflector: &mut Reflector<K>, view: &HubView, queues: &ManagementQueues)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (view, queues) = (view.clone(), queues.clone());
    reflector.on_listed(move || queues.wake_on_hub(HubSource::CellsListed, NO_OBJECT, &view));
}

/// Passes each change, and each list, of a kind to the triggers of the rules of cells.
fn wake_cell_rules<K>(reflector: &mut Reflector<K>, source: HubSource, queues: &ManagementQueues)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let rows = cell_rules::triggers::ON_HUB;
    let queue = queues.cell_rules.clone();
    reflector.on_listed(move || wake(&queue, rows, source, NO_OBJECT, &()));
    let queue = queues.cell_rules.clone();
    reflector.on_change(move |change| wake(&queue, rows, source, change, &()));
}

/// Passes a change of a Cluster to the triggers if the reachability of the cell changed.
fn wake_on_reachability(
    clusters: &mut Reflector<Cluster>,
    view: &HubView,
    queues: &ManagementQueues,
) {
    // The first list shows which cells have no Cluster. No event of a Cluster reports them.
    clusters.on_listed({
        let (view, queues) = (view.clone(), queues.clone());
        move || {
            let cells = view.hub.cells.reached().into_iter();
            for cell in cells.filter(|cell| view.hub.cells.reachability_changed(cell)) {
                wake_named(HubSource::CellReachability, cell, &view, &queues);
            }
        }
    });
    let (view, queues) = (view.clone(), queues.clone());
    clusters.on_change(move |change: Change<'_>| {
        let metadata = change.current.or(change.former);
        let name = metadata.and_then(|metadata| metadata.name.as_deref());
        if name.is_some_and(|name| view.hub.cells.reachability_changed(name)) {
            queues.wake_on_hub(HubSource::CellReachability, change, &view);
        }
    });
}

/// Passes a change of a LowerHub to the triggers if a cell below it changed its state: once the lower hub, and each of
/// these cells.
fn wake_on_cells_below(
    lower_hubs: &mut Reflector<LowerHub>,
    view: &HubView,
    queues: &ManagementQueues,
) {
    let (view, queues) = (view.clone(), queues.clone());
    lower_hubs.on_change(move |change: Change<'_>| {
        let metadata = change.current.or(change.former);
        let Some(name) = metadata.and_then(|metadata| metadata.name.as_deref()) else {
            return;
        };
        let changed = view.hub.cells.changed_below(name);
        if !changed.is_empty() {
            queues.wake_on_hub(HubSource::LowerHubs, change, &view);
        }
        for cell in changed {
            wake_named(HubSource::CellsBelow, cell, &view, &queues);
        }
    });
}

/// Passes a cell to the triggers. It may have no object.
fn wake_named(source: HubSource, cell: String, view: &HubView, queues: &ManagementQueues) {
    let cell = ObjectMeta {
        name: Some(cell),
        ..ObjectMeta::default()
    };
    let change = Change {
        former: Some(&cell),
        current: None,
    };
    queues.wake_on_hub(source, change, view);
}
