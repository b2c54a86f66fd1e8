//! Values that a field of a Workload may have. Admission and the CRD of Workload use the same constants, so a rule has
//! one source (docs/reference/admission.md).

use std::ops::RangeInclusive;

/// Largest `minReplicas`: the limit of the Go manager. Cells refuse a deployment with more instances, because a typing
/// error must not start millions of machines.
pub const REPLICAS_MAX: i32 = 1000;

/// Replicas of a deployment, in each city. Zero is not allowed, because a Workload without instances does nothing.
pub const REPLICAS: RangeInclusive<i32> = 1..=REPLICAS_MAX;

/// The instance types.
pub const INSTANCE_TYPES: [&str; 1] = ["datumcloud/d1-standard-2"];

/// The types of a disk.
pub const DISK_TYPES: [&str; 1] = ["pd-standard"];

/// The operating system images that populate a disk.
pub const IMAGES: [&str; 1] = ["datumcloud/ubuntu-2204-lts"];

/// The file systems that populate a disk.
pub const FILESYSTEMS: [&str; 1] = ["ext4"];

/// Permission bits of a file.
pub const FILE_MODES: RangeInclusive<i32> = 0..=0o777;

/// Port numbers.
pub const PORTS: RangeInclusive<i32> = 1..=65_535;

/// Longest DNS label, in characters (RFC 1123).
pub const DNS_LABEL_MAX: usize = 63;

/// Longest DNS subdomain, in characters (RFC 1123).
pub const DNS_SUBDOMAIN_MAX: usize = 253;

/// The characters of a DNS label. The length is [`DNS_LABEL_MAX`].
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Longest name of a port, in characters: an IANA service name (RFC 6335, section 5.1).
pub const PORT_NAME_MAX: usize = 15;

/// The characters of an IANA service name: at least one letter, no hyphen at an end, and no two hyphens in a row. The
/// part before the first letter has digits, each group of them with at most one hyphen behind it.
pub const PORT_NAME: &str = "^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$";
