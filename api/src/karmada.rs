//! The parts of Karmada's API that are used (karmada.md 2, 8). Fields that are not listed are tolerated when they are read.

pub mod binding;
pub mod cluster;
pub mod customization;
pub mod policy;

pub use binding::ResourceBinding;
pub use cluster::Cluster;
pub use customization::ResourceInterpreterCustomization;
pub use policy::PropagationPolicy;
