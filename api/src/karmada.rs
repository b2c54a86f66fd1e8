//! The parts of Karmada's API that are used (karmada.md 2, 8). Fields that are not listed are tolerated when they are read.

pub mod policy;

pub use policy::PropagationPolicy;
