//! The used parts of Karmada's API. Unknown fields are tolerated. See docs/concepts/karmada-behaviour.md.

pub mod binding;
pub mod cluster;
pub mod customization;
pub mod policy;

/// The field managers of Karmada's programs in a cell begin with this: `karmada-controller-manager`, and `karmada-agent`
/// in pull mode.
pub const FIELD_MANAGER_PREFIX: &str = "karmada";

pub use binding::ResourceBinding;
pub use cluster::Cluster;
pub use customization::ResourceInterpreterCustomization;
pub use policy::PropagationPolicy;
