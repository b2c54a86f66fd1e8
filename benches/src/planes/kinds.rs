//! The kinds that every API server here serves.

/// A kind, and how it is addressed.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    pub(super) is_namespaced: bool,
    /// Whether it has a generation, and a status that is written apart.
    pub(super) has_status: bool,
}

pub(super) const COMPUTE: &str = "compute.datumapis.com";
const NETWORKING: &str = "networking.datumapis.com";

const fn kind(
    (group, version): (&'static str, &'static str),
    plural: &'static str,
    name: &'static str,
    is_namespaced: bool,
    has_status: bool,
) -> Kind {
    Kind {
        group,
        version,
        plural,
        name,
        is_namespaced,
        has_status,
    }
}

/// Of all planes: none is refused where another plane has it.
pub(super) static KINDS: [Kind; 13] = [
    kind(("", "v1"), "namespaces", "Namespace", false, false),
    kind(("events.k8s.io", "v1"), "events", "Event", true, false),
    kind(
        ("resourcemanager.miloapis.com", "v1alpha1"),
        "projects",
        "Project",
        false,
        true,
    ),
    kind((COMPUTE, "v1alpha"), "workloads", "Workload", true, true),
    kind(
        (COMPUTE, "v1alpha"),
        "workloaddeployments",
        "WorkloadDeployment",
        true,
        true,
    ),
    kind((COMPUTE, "v1alpha"), "instances", "Instance", true, true),
    kind((NETWORKING, "v1alpha"), "networks", "Network", true, true),
    kind(
        (NETWORKING, "v1alpha"),
        "locationbindings",
        "LocationBinding",
        false,
        true,
    ),
    kind(
        ("policy.karmada.io", "v1alpha1"),
        "propagationpolicies",
        "PropagationPolicy",
        true,
        false,
    ),
    kind(
        ("work.karmada.io", "v1alpha2"),
        "resourcebindings",
        "ResourceBinding",
        true,
        true,
    ),
    kind(
        ("cluster.karmada.io", "v1alpha1"),
        "clusters",
        "Cluster",
        false,
        true,
    ),
    kind(
        ("config.karmada.io", "v1alpha1"),
        "resourceinterpretercustomizations",
        "ResourceInterpreterCustomization",
        false,
        false,
    ),
    kind(
        ("coordination.k8s.io", "v1"),
        "leases",
        "Lease",
        true,
        false,
    ),
];

/// The number of a kind in [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindId(usize);

impl KindId {
    /// The kind that is addressed like this.
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        let is_asked_for =
            |kind: &Kind| (kind.group, kind.version, kind.plural) == (group, version, plural);
        KINDS.iter().position(is_asked_for).map(Self)
    }

    /// The kind of this name, which is one of [`KINDS`].
    pub(super) fn named(name: &str) -> Self {
        let position = KINDS.iter().position(|kind| kind.name == name);
        Self(position.unwrap_or_default())
    }

    pub(super) fn index(self) -> usize {
        self.0
    }

    pub(super) fn kind(self) -> &'static Kind {
        // One that is not there cannot be made.
        KINDS.get(self.0).unwrap_or(&KINDS[0])
    }
}

impl Kind {
    /// `group/version`, or the version alone.
    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}
