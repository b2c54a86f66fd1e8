//! The used parts of Karmada's API. Unknown fields are tolerated. See docs/concepts/karmada-behaviour.md.

pub mod binding;
pub mod cluster;
pub mod customization;
pub mod events;
pub mod policy;

/// The field managers of Karmada's programs in a cell begin with this: `karmada-controller-manager`, and `karmada-agent`
/// in pull mode.
pub const FIELD_MANAGER_PREFIX: &str = "karmada";

/// Keys of the taints that Karmada gives a cell whose API server does not answer, and a cell that says nothing.
pub const TAINTS_OF_ABSENCE: [&str; 2] = [
    "cluster.karmada.io/not-ready",
    "cluster.karmada.io/unreachable",
];

pub use binding::ResourceBinding;
pub use cluster::Cluster;
pub use customization::ResourceInterpreterCustomization;
pub use policy::{ClusterOverridePolicy, PropagationPolicy};
