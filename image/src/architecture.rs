//! The architectures for which there is an image.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;

use object::elf::{EM_AARCH64, EM_X86_64};

use crate::Error;

/// An architecture for which there is an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the architecture of this machine, or `None` if there is no image for it.
    pub fn of_host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Returns the name in OCI manifests and in Docker's `TARGETARCH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns Rust's name of the target.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the name of Debian's directories for libraries. GCC's cross compilers use it as a prefix.
    pub const fn triplet(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Returns the number of the machine in ELF headers.
    pub(crate) const fn machine(self) -> u16 {
        match self {
            Self::Amd64 => EM_X86_64,
            Self::Arm64 => EM_AARCH64,
        }
    }

    /// Returns the path of glibc's loader. The ABI of the architecture defines it.
    pub const fn loader(self) -> &'static str {
        match self {
            Self::Amd64 => "/lib64/ld-linux-x86-64.so.2",
            Self::Arm64 => "/lib/ld-linux-aarch64.so.1",
        }
    }

    /// Returns the directories in which the build host may have the libraries: Debian's directories, those of Debian's
    /// packages for cross compilers, and those of Fedora and others, in this order.
    pub(crate) fn host_directories(self) -> Vec<PathBuf> {
        let triplet = self.triplet();
        [
            format!("/lib/{triplet}"),
            format!("/usr/lib/{triplet}"),
            format!("/usr/{triplet}/lib"),
            "/lib64".to_owned(),
            "/usr/lib64".to_owned(),
            "/lib".to_owned(),
            "/usr/lib".to_owned(),
        ]
        .map(PathBuf::from)
        .to_vec()
    }
}

impl Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let named = Self::ALL.into_iter().find(|it| it.name() == name);
        named.ok_or_else(|| Error::Invalid(format!("architecture {name:?}: use amd64 or arm64")))
    }
}
