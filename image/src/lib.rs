//! The container image and the bundle of manifests, as OCI content.
//!
//! Everything is computed in this process, so no container engine is needed. This crate starts no programs except
//! `chroot` or `unshare` in [`trial`]. `cargo xtask image` and `cargo xtask bundle` build the binary, ask Cargo and Git
//! for facts, and write the files.
//!
//! Equal input gives equal bytes: entries of archives are sorted, all times are an argument, and users are numbers.

mod architecture;
pub mod archive;
pub mod bundle;
pub mod container;
#[cfg(test)]
mod dockerfile;
mod elf;
mod error;
pub mod libraries;
pub mod oci;
mod reference;
pub mod rootfs;
pub mod sbom;
pub mod trial;

pub use architecture::Architecture;
pub use error::Error;
pub use reference::Reference;
