//! The types of the table.

/// The namespace of the manager in its own cluster.
pub const NAMESPACE: &str = "compute-system";
/// The ServiceAccount of the manager in [`NAMESPACE`].
pub const SERVICE_ACCOUNT: &str = "compute-manager";
/// The user name of [`SERVICE_ACCOUNT`]. The hub identifies the management process by this name.
pub const MANAGER_USER: &str = "system:serviceaccount:compute-system:compute-manager";
/// The group of the cells' identities on the hub.
pub const CELLS_GROUP: &str = "compute-cells";

/// The folders of `deploy/` that contain only generated files.
pub const FOLDERS: [&str; 3] = [
    "base/downstream-rbac",
    "components/controller_rbac",
    "components/leader_election",
];

/// An API server on which a role is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plane {
    /// A project. With `mode: single`, this is the own cluster.
    Project,
    /// The Milo root.
    Root,
    /// The cluster with the ProjectControlPlanes, with `internalServiceDiscovery`.
    Infrastructure,
    /// The API server on which the admission webhooks are registered: the root or the own cluster.
    Registrations,
    /// The cluster in which the process runs.
    OwnCluster,
    /// Karmada's API server.
    Hub,
    /// The API server of a Karmada that is a Cluster of the hub.
    LowerHub,
    /// A cell.
    Cell,
}

impl Plane {
    /// Returns the name of the plane in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Root => "root (`mode: milo`)",
            Self::Infrastructure => "infrastructure cluster (`internalServiceDiscovery`)",
            Self::Registrations => "root or own cluster, where the webhooks are registered",
            Self::OwnCluster => "own cluster",
            Self::Hub => "hub",
            Self::LowerHub => "lower hub",
            Self::Cell => "cell",
        }
    }
}

/// The identity that a binding in `deploy/` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The ServiceAccount of the manager. RBAC also accepts a user with the name [`MANAGER_USER`].
    Manager,
    /// The user with the name [`MANAGER_USER`]. The hub accepts tokens of the management cluster.
    ManagerUser,
    /// The group [`CELLS_GROUP`].
    Cells,
    /// There is no binding. The deployer binds the role to users or scrapers.
    Unbound,
}

/// A verb of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the verbs of Kubernetes")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    /// Returns the verb as in a role.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// The object of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A resource of the API.
    Resource {
        /// API group. The core group is empty.
        group: &'static str,
        /// Plural name, with the subresource.
        resource: &'static str,
        /// Names of the only objects that the right covers. Empty: all objects.
        names: &'static [&'static str],
    },
    /// A path that is no resource.
    Url(&'static str),
}

/// One right of a role.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The object of the right.
    pub target: Target,
    /// The allowed verbs.
    pub verbs: &'static [Verb],
    /// The use of the right.
    pub why: &'static str,
    /// What is lost without the right. `None`: the process does not work without it.
    pub without: Option<&'static str>,
}

/// A ClusterRole, or a Role in [`NAMESPACE`], with its binding.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Name of the role and of its binding.
    pub name: &'static str,
    /// The folder of the role below `deploy/`.
    pub folder: &'static str,
    /// Whether the role is a Role instead of a ClusterRole.
    pub namespaced: bool,
    /// The part of the process that needs the role.
    pub used_by: &'static str,
    /// The API server on which the role is applied.
    pub plane: Plane,
    /// The bound identity.
    pub subject: Subject,
    /// The rights.
    pub rules: &'static [Rule],
}
