//! The kinds that an [`ApiServer`](crate::ApiServer) knows.

use kube::Resource;

/// A kind of object, and its path on an API server.
#[derive(Debug)]
pub struct Kind {
    /// API group. Empty for the core group.
    pub group: &'static str,
    /// Version of the group.
    pub version: &'static str,
    /// Plural name of the resource, as in paths.
    pub plural: &'static str,
    /// Name of the kind, as in objects.
    pub name: &'static str,
    /// Whether the objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether the kind has a status subresource. Such a kind also has generations.
    pub has_status: bool,
}

const CORE: (&str, &str) = ("", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const COMPUTE: (&str, &str) = ("compute.datumapis.com", "v1alpha");
const NETWORKING: (&str, &str) = ("networking.datumapis.com", "v1alpha");
const POLICY: (&str, &str) = ("policy.karmada.io", "v1alpha1");

const NAMESPACED: bool = true;
const CLUSTER_SCOPED: bool = false;

impl Kind {
    const fn new(
        (group, version): (&'static str, &'static str),
        plural: &'static str,
        name: &'static str,
        is_namespaced: bool,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            name,
            is_namespaced,
            has_status: false,
        }
    }

    const fn with_status(self) -> Self {
        Self {
            has_status: true,
            ..self
        }
    }
}

/// All kinds. An API server serves all of them, unless a test stops serving one.
pub(crate) static KINDS: [Kind; 37] = [
    Kind::new(CORE, "namespaces", "Namespace", CLUSTER_SCOPED),
    Kind::new(CORE, "configmaps", "ConfigMap", NAMESPACED),
    Kind::new(CORE, "secrets", "Secret", NAMESPACED),
    Kind::new(CORE, "serviceaccounts", "ServiceAccount", NAMESPACED),
    Kind::new(CORE, "events", "Event", NAMESPACED),
    Kind::new(("events.k8s.io", "v1"), "events", "Event", NAMESPACED),
    Kind::new(
        ("resourcemanager.miloapis.com", "v1alpha1"),
        "projects",
        "Project",
        CLUSTER_SCOPED,
    )
    .with_status(),
    Kind::new(
        ("quota.miloapis.com", "v1alpha1"),
        "resourceclaims",
        "ResourceClaim",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(
        ("quota.miloapis.com", "v1alpha1"),
        "allowancebuckets",
        "AllowanceBucket",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(
        ("autoscaling", "v2"),
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(COMPUTE, "workloads", "Workload", NAMESPACED).with_status(),
    Kind::new(
        COMPUTE,
        "workloaddeployments",
        "WorkloadDeployment",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(COMPUTE, "instances", "Instance", NAMESPACED).with_status(),
    Kind::new(COMPUTE, "workloadsummaries", "WorkloadSummary", NAMESPACED).with_status(),
    Kind::new(COMPUTE, "cellrules", "CellRule", CLUSTER_SCOPED).with_status(),
    Kind::new(COMPUTE, "lowerhubs", "LowerHub", CLUSTER_SCOPED).with_status(),
    Kind::new(NETWORKING, "networks", "Network", NAMESPACED).with_status(),
    Kind::new(
        NETWORKING,
        "locationbindings",
        "LocationBinding",
        CLUSTER_SCOPED,
    )
    .with_status(),
    Kind::new(NETWORKING, "locations", "Location", NAMESPACED).with_status(),
    Kind::new(
        NETWORKING,
        "servinglocations",
        "ServingLocation",
        CLUSTER_SCOPED,
    ),
    Kind::new(
        NETWORKING,
        "networkinterfaceclaims",
        "NetworkInterfaceClaim",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(
        NETWORKING,
        "networkinterfaces",
        "NetworkInterface",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(NETWORKING, "networkbindings", "NetworkBinding", NAMESPACED).with_status(),
    Kind::new(NETWORKING, "networkcontexts", "NetworkContext", NAMESPACED).with_status(),
    Kind::new(NETWORKING, "subnetclaims", "SubnetClaim", NAMESPACED).with_status(),
    Kind::new(NETWORKING, "subnets", "Subnet", NAMESPACED).with_status(),
    Kind::new(
        POLICY,
        "propagationpolicies",
        "PropagationPolicy",
        NAMESPACED,
    ),
    Kind::new(
        POLICY,
        "clusterpropagationpolicies",
        "ClusterPropagationPolicy",
        CLUSTER_SCOPED,
    ),
    Kind::new(POLICY, "overridepolicies", "OverridePolicy", NAMESPACED),
    Kind::new(
        POLICY,
        "clusteroverridepolicies",
        "ClusterOverridePolicy",
        CLUSTER_SCOPED,
    ),
    Kind::new(
        ("work.karmada.io", "v1alpha2"),
        "resourcebindings",
        "ResourceBinding",
        NAMESPACED,
    )
    .with_status(),
    Kind::new(
        ("cluster.karmada.io", "v1alpha1"),
        "clusters",
        "Cluster",
        CLUSTER_SCOPED,
    )
    .with_status(),
    Kind::new(
        ("config.karmada.io", "v1alpha1"),
        "resourceinterpretercustomizations",
        "ResourceInterpreterCustomization",
        CLUSTER_SCOPED,
    ),
    Kind::new(
        ("config.karmada.io", "v1alpha1"),
        "resourceinterpreterwebhookconfigurations",
        "ResourceInterpreterWebhookConfiguration",
        CLUSTER_SCOPED,
    ),
    Kind::new(
        ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        CLUSTER_SCOPED,
    ),
    Kind::new(
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        CLUSTER_SCOPED,
    ),
    Kind::new(("coordination.k8s.io", "v1"), "leases", "Lease", NAMESPACED),
];

/// The index of a kind in the list of known kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindId(usize);

impl KindId {
    /// Returns the kind of a Rust type.
    ///
    /// # Panics
    ///
    /// When the list of known kinds does not contain the kind.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        let (name, group) = (K::kind(&()), K::group(&()));
        // Two groups can have a kind of the same name, such as Event.
        let is_meant = |kind: &Kind| kind.name == name && kind.group == group;
        match KINDS.iter().position(is_meant) {
            Some(position) => Self(position),
            None => panic!("add kind {name} of group {group:?} to the kinds of the API server"),
        }
    }

    /// Returns the kind with this name.
    ///
    /// # Panics
    ///
    /// When the list of known kinds does not contain the kind.
    pub fn named(name: &str) -> Self {
        let position = KINDS.iter().position(|kind| kind.name == name);
        match position {
            Some(position) => Self(position),
            None => panic!("add kind {name} to the kinds of the API server"),
        }
    }

    /// Returns the kind with this path, if there is one.
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        let matches =
            |kind: &Kind| (kind.group, kind.version, kind.plural) == (group, version, plural);
        KINDS.iter().position(matches).map(Self)
    }

    /// Returns all kinds.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..KINDS.len()).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }

    /// Returns the properties of the kind.
    pub fn kind(self) -> &'static Kind {
        // The index is always valid, so the default is never used.
        KINDS.get(self.0).unwrap_or(&KINDS[0])
    }
}

impl Kind {
    /// Returns `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}
