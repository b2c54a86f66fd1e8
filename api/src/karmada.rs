//! The used parts of Karmada's API. Unknown fields are tolerated. See docs/concepts/karmada-behaviour.md.

pub mod binding;
pub mod cluster;
pub mod customization;
pub mod policy;

pub use binding::ResourceBinding;
pub use cluster::Cluster;
pub use customization::ResourceInterpreterCustomization;
pub use policy::PropagationPolicy;
