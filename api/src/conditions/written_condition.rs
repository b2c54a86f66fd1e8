//! The entries of the list of written conditions, and the names that they share.

use crate::condition::ConditionStatus;

/// An API server's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneKind {
    /// A customer's project.
    Project,
    /// The Karmada hub.
    Hub,
    /// A POP cell.
    Cell,
    /// The Milo root, which has the Projects.
    Root,
}

impl PlaneKind {
    /// The word for this plane.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Hub => "hub",
            Self::Cell => "cell",
            Self::Root => "root",
        }
    }
}

/// A condition that compute-federation writes, with one of its reasons.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCondition {
    /// Kind of the object, or the part of it that has the condition.
    pub kind: &'static str,
    /// Planes on which the condition occurs.
    pub planes: &'static [PlaneKind],
    /// Type of the condition.
    pub type_: &'static str,
    /// Status that goes with the reason.
    pub status: ConditionStatus,
    /// Reason of the condition.
    pub reason: &'static str,
    /// The meaning of the reason.
    pub meaning: &'static str,
    /// The remedy for an operator or a customer.
    pub remedy: &'static str,
}

pub(super) const NOTHING: &str = "Nothing.";

pub(super) const fn written(
    kind: &'static str,
    planes: &'static [PlaneKind],
    type_: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    texts: (&'static str, &'static str),
) -> WrittenCondition {
    let (meaning, remedy) = texts;
    WrittenCondition {
        kind,
        planes,
        type_,
        status,
        reason,
        meaning,
        remedy,
    }
}

pub(super) const WORKLOAD: &str = "Workload";
pub(super) const PLACEMENT: &str = "Workload, in `status.placements[]`";
pub(super) const DEPLOYMENT: &str = "WorkloadDeployment";
pub(super) const CELL_RULE: &str = "CellRule";
pub(super) const LOWER_HUB: &str = "LowerHub";
pub(super) const SUMMARY: &str = "WorkloadSummary";
pub(super) const INSTANCE: &str = "Instance";
pub(super) const INTERFACE: &str = "NetworkInterface";
pub(super) const INTERFACE_CLAIM: &str = "NetworkInterfaceClaim";
pub(super) const NETWORK_OPERATOR: &str = "network operator";
pub(super) const PROJECT: &[PlaneKind] = &[PlaneKind::Project];
pub(super) const HUB: &[PlaneKind] = &[PlaneKind::Hub];
pub(super) const HUB_AND_PROJECT: &[PlaneKind] = &[PlaneKind::Hub, PlaneKind::Project];
pub(super) const EVERYWHERE: &[PlaneKind] = &[PlaneKind::Cell, PlaneKind::Hub, PlaneKind::Project];
pub(super) const CELL: &[PlaneKind] = &[PlaneKind::Cell];
