//! Triggers. Each row turns a change into keys of a work queue.
//!
//! Each controller lists its rows in its own `triggers.rs`. The wiring of the management plane or of a cell registers
//! the watches and passes each change to all rows of its source. No other code adds keys to a work queue.

#[cfg(test)]
pub(crate) mod cases;
#[cfg(test)]
pub(crate) mod fakes;
pub(crate) mod lookups;

use std::fmt::Debug;

use multicluster::Queue;
use multicluster::cache::Change;
use multicluster::queue::Key;
use tracing::trace;

/// One reason to reconcile. A change at `source` adds the keys that `keys` returns to the queue.
///
/// `S` is the type of the source, `L` gives access to caches, and `K` is the type of the keys in the controller's
/// queue.
pub(crate) struct Trigger<S, L: ?Sized, K> {
    /// The source of the change.
    pub(crate) source: S,
    /// Why the controller must reconcile.
    pub(crate) reason: &'static str,
    /// Returns the keys to reconcile. Runs on every watch event and must not block.
    pub(crate) keys: fn(Change<'_>, &L) -> Vec<K>,
}

/// A source of changes in one project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectSource {
    /// Namespaces of the project.
    Namespaces,
    /// Networks of the project.
    Networks,
    /// Workloads of the project.
    Workloads,
    /// WorkloadDeployments of the project.
    Deployments,
    /// Instances of the project.
    Instances,
    /// ConfigMaps of the project.
    ConfigMaps,
    /// Secrets of the project.
    Secrets,
    /// WorkloadSummaries of the project.
    Summaries,
    /// The caches of the project are filled and this process serves it. The change has no object.
    Served,
    /// The offered cities, the state of the Network cache or the suspension of the project changed. The change has no
    /// object.
    NeedsChanged,
    /// This process no longer serves the project. The change has no object.
    Unserved,
    /// Discovery no longer lists the project. The change has no object.
    Removed,
}

/// A source of changes on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HubSource {
    /// Namespaces of the hub.
    Namespaces,
    /// Copies of WorkloadDeployments.
    Deployments,
    /// PropagationPolicies.
    Policies,
    /// ResourceBindings.
    Bindings,
    /// Copies of Instances.
    Instances,
    /// Clusters whose reachability has changed since their last event.
    CellReachability,
    /// LowerHubs with a cell whose reachability has changed since their last event.
    LowerHubs,
    /// LowerHubs.
    AllLowerHubs,
    /// Leases that the processes of lower hubs renew.
    Heartbeats,
    /// Cells below lower hubs whose reachability has changed. The change has only the name of the cell, or that of a
    /// lower hub, which stands for all its cells.
    CellsBelow,
    /// ResourceBindings or Clusters have been listed. The change has no object.
    CellsListed,
    /// Clusters.
    Clusters,
    /// CellRules.
    CellRules,
    /// ClusterOverridePolicies.
    OverridePolicies,
    /// ResourceInterpreterCustomizations that shadow the webhook.
    ShadowingCustomizations,
}

/// A source of changes in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellSource {
    /// WorkloadDeployments of the cell.
    Deployments,
    /// Instances of the cell.
    Instances,
    /// HorizontalPodAutoscalers of the cell.
    Autoscalers,
    /// Namespaces of the cell.
    Namespaces,
    /// ResourceClaims of this cell in a project.
    Claims,
    /// AllowanceBuckets of a project.
    Buckets,
    /// ServingLocations of the cell.
    ServingLocations,
    /// NetworkInterfaceClaims of the cell.
    InterfaceClaims,
    /// NetworkInterfaces of the cell.
    Interfaces,
    /// Locations of the cell.
    Locations,
    /// NetworkBindings of the cell.
    NetworkBindings,
    /// NetworkContexts of the cell.
    NetworkContexts,
    /// SubnetClaims of the cell.
    SubnetClaims,
    /// Subnets of the cell.
    Subnets,
    /// A kind of the network operator has been listed. The change has no object.
    NetworkKinds,
    /// Instances of a WorkloadDeployment that the cell does not have. The hub may still have copies of them.
    AbsentInstances,
}

/// A source of changes on a lower hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LowerHubSource {
    /// Clusters of the lower hub.
    Clusters,
    /// Clusters whose reachability has changed since their last event.
    Reachability,
    /// LowerHubs of the lower hub.
    LowerHubs,
}

/// Adds to `queue` the keys of every row of this source.
pub(crate) fn wake<S, L, K>(
    queue: &Queue<K>,
    rows: &[Trigger<S, L, K>],
    source: S,
    change: Change<'_>,
    lookups: &L,
) where
    S: Copy + Debug + PartialEq,
    L: ?Sized,
    K: Key,
{
    for row in rows.iter().filter(|row| row.source == source) {
        for key in (row.keys)(change, lookups) {
            trace!(
                ?source,
                reason = row.reason,
                ?key,
                "reconciliation requested"
            );
            queue.add(key);
        }
    }
}

/// A change without a watched object.
pub(crate) const NO_OBJECT: Change<'static> = Change {
    former: None,
    current: None,
};
