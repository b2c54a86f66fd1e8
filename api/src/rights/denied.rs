//! Examples of what no role may allow.

/// An identity of compute-federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// The management process, with the webhook server or without it.
    Management,
    /// A webhook server without management controllers.
    WebhookServer,
    /// The process in a cell.
    Cell,
    /// The process of a lower hub.
    LowerHub,
    /// A customer with all roles for users.
    Customer,
}

impl Identity {
    /// Returns the name in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Management => "management process",
            Self::WebhookServer => "webhook server",
            Self::Cell => "process in a cell",
            Self::LowerHub => "process of a lower hub",
            Self::Customer => "customer",
        }
    }
}

/// Something that an identity may not do on a plane.
#[derive(Clone, Copy, Debug)]
pub struct Denied {
    /// The identity.
    pub identity: Identity,
    /// `project`, `root`, `hub` or `cell`.
    pub plane: &'static str,
    /// API group. The core group is empty.
    pub group: &'static str,
    /// Plural name, with the subresource.
    pub resource: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// What the identity could do with the right.
    pub why: &'static str,
}

const COMPUTE: &str = crate::GROUP;
const CORE: &str = "";
const RBAC: &str = "rbac.authorization.k8s.io";
const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const EXCEPT_GET: &[&str] = &[
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
const ALL: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

const fn denied(
    identity: Identity,
    plane: &'static str,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Denied {
    Denied {
        identity,
        plane,
        group,
        resource,
        verbs,
        why,
    }
}

use Identity::{Cell, Customer, LowerHub, Management, WebhookServer};

const SECRETS: &str = "Read or change the credentials of others.";
const ESCALATE: &str = "Give rights to itself.";
const SELF: &str = "Act as another identity.";

/// The requests that API servers must refuse to our identities. Federation tests try each row.
pub const DENIED: &[Denied] = &[
    denied(
        Management,
        "project",
        COMPUTE,
        "workloads",
        &["create", "update", "delete", "deletecollection"],
        "Create or delete what belongs to a customer.",
    ),
    denied(
        Management,
        "project",
        CORE,
        "secrets",
        WRITE,
        "Change the credentials of a customer.",
    ),
    denied(
        Management,
        "project",
        CORE,
        "configmaps",
        WRITE,
        "Change the data of a customer.",
    ),
    denied(
        Management,
        "project",
        CORE,
        "namespaces",
        WRITE,
        "Delete the objects of a customer.",
    ),
    denied(
        Management,
        "project",
        COMPUTE,
        "instances",
        &["deletecollection"],
        "Delete objects without their UIDs.",
    ),
    denied(
        Management,
        "project",
        "networking.datumapis.com",
        "networks",
        WRITE,
        "Change the networks of a customer.",
    ),
    denied(
        Management,
        "project",
        RBAC,
        "clusterrolebindings",
        WRITE,
        ESCALATE,
    ),
    denied(Management, "project", CORE, "users", &["impersonate"], SELF),
    denied(
        Management,
        "project",
        CORE,
        "serviceaccounts/token",
        &["create"],
        SELF,
    ),
    denied(
        Management,
        "root",
        "resourcemanager.miloapis.com",
        "projects",
        WRITE,
        "Delete a project.",
    ),
    denied(Management, "root", CORE, "secrets", ALL, SECRETS),
    denied(
        Management,
        "hub",
        CORE,
        "secrets",
        &["watch", "update", "deletecollection"],
        SECRETS,
    ),
    denied(
        Management,
        "hub",
        COMPUTE,
        "workloaddeployments/status",
        WRITE,
        "Overwrite what Karmada aggregates from the cells.",
    ),
    denied(
        Management,
        "hub",
        COMPUTE,
        "instances",
        &["create", "delete", "deletecollection"],
        "Overwrite what the cells report.",
    ),
    denied(
        Management,
        "hub",
        COMPUTE,
        "instances/status",
        WRITE,
        "Overwrite what the cells report.",
    ),
    denied(
        Management,
        "hub",
        "policy.karmada.io",
        "clusterpropagationpolicies",
        ALL,
        "Place the objects of other services.",
    ),
    denied(
        Management,
        "hub",
        "cluster.karmada.io",
        "clusters",
        WRITE,
        "Add or remove cells.",
    ),
    denied(
        Management,
        "hub",
        "cluster.karmada.io",
        "clusters/proxy",
        ALL,
        "Reach the API servers of the cells with the rights of Karmada.",
    ),
    denied(
        Management,
        "hub",
        "work.karmada.io",
        "works",
        ALL,
        "Write into cells behind Karmada's back.",
    ),
    denied(
        Management,
        "hub",
        "work.karmada.io",
        "resourcebindings",
        WRITE,
        "Move objects to other cells behind Karmada's back.",
    ),
    denied(
        Management,
        "hub",
        "config.karmada.io",
        "resourceinterpreterwebhookconfigurations",
        &["create", "delete"],
        "Replace an interpreter.",
    ),
    denied(
        Management,
        "hub",
        RBAC,
        "clusterrolebindings",
        WRITE,
        ESCALATE,
    ),
    denied(
        WebhookServer,
        "project",
        COMPUTE,
        "workloads",
        ALL,
        "Read or change Workloads that it is not asked about.",
    ),
    denied(
        WebhookServer,
        "project",
        COMPUTE,
        "workloaddeployments",
        ALL,
        "Run something for a customer.",
    ),
    denied(
        WebhookServer,
        "project",
        COMPUTE,
        "instances",
        ALL,
        "Run something for a customer.",
    ),
    denied(WebhookServer, "project", CORE, "secrets", ALL, SECRETS),
    denied(
        WebhookServer,
        "project",
        "networking.datumapis.com",
        "networks",
        ALL,
        "Read the networks of a customer.",
    ),
    denied(
        WebhookServer,
        "root",
        "resourcemanager.miloapis.com",
        "projects",
        WRITE,
        "Delete a project.",
    ),
    denied(
        WebhookServer,
        "root",
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        &["create", "list", "delete"],
        "Replace or remove the webhook of another service.",
    ),
    denied(
        Cell,
        "cell",
        COMPUTE,
        "workloaddeployments",
        &["create", "delete", "deletecollection"],
        "Run something that no customer has asked for.",
    ),
    denied(
        Cell,
        "cell",
        CORE,
        "secrets",
        EXCEPT_GET,
        "Find credentials, or change them.",
    ),
    denied(
        Cell,
        "cell",
        CORE,
        "configmaps",
        EXCEPT_GET,
        "Find the data of the cell, or change them.",
    ),
    denied(Cell, "cell", CORE, "pods", ALL, "Run programs in the cell."),
    denied(
        Cell,
        "cell",
        CORE,
        "nodes",
        ALL,
        "Change the machines of the cell.",
    ),
    denied(Cell, "cell", RBAC, "clusterrolebindings", WRITE, ESCALATE),
    denied(
        Cell,
        "hub",
        COMPUTE,
        "workloaddeployments",
        &[
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ],
        "Place something in another cell, or read what other cells run.",
    ),
    denied(
        Cell,
        "hub",
        COMPUTE,
        "workloaddeployments/status",
        WRITE,
        "Report for another cell.",
    ),
    denied(
        Cell,
        "hub",
        COMPUTE,
        "instances",
        &["list", "watch", "deletecollection"],
        "Read what other cells run.",
    ),
    denied(
        Cell,
        "hub",
        CORE,
        "namespaces",
        &["list", "watch", "create", "update", "patch", "delete"],
        "Delete the objects of a project.",
    ),
    denied(
        Cell,
        "hub",
        CORE,
        "secrets",
        ALL,
        "Read the credentials of the other cells.",
    ),
    denied(
        Cell,
        "hub",
        "policy.karmada.io",
        "propagationpolicies",
        ALL,
        "Place something in another cell.",
    ),
    denied(
        Cell,
        "hub",
        "work.karmada.io",
        "works",
        ALL,
        "Write into another cell.",
    ),
    denied(
        Cell,
        "hub",
        "cluster.karmada.io",
        "clusters",
        ALL,
        "Add or remove cells.",
    ),
    denied(
        Cell,
        "hub",
        "cluster.karmada.io",
        "clusters/proxy",
        ALL,
        "Reach the API server of another cell.",
    ),
    denied(Cell, "hub", RBAC, "clusterrolebindings", WRITE, ESCALATE),
    denied(
        Cell,
        "hub",
        COMPUTE,
        "lowerhubs",
        ALL,
        "Read or change which cells below lower hubs count as dead.",
    ),
    denied(
        Cell,
        "hub",
        COMPUTE,
        "lowerhubs/status",
        ALL,
        "Report that the cells of others are dead or alive.",
    ),
    denied(
        Cell,
        "hub",
        "coordination.k8s.io",
        "leases",
        ALL,
        "Make the process of a lower hub look alive.",
    ),
    denied(
        Management,
        "hub",
        "coordination.k8s.io",
        "leases",
        WRITE,
        "Make the process of a lower hub look alive.",
    ),
    denied(
        LowerHub,
        "hub",
        "coordination.k8s.io",
        "leases",
        ALL,
        "Make the process of another lower hub look alive.",
    ),
    denied(
        Management,
        "hub",
        COMPUTE,
        "lowerhubs",
        WRITE,
        "Change what a lower hub reports.",
    ),
    denied(
        LowerHub,
        "hub",
        COMPUTE,
        "lowerhubs",
        ALL,
        "Read or remove the LowerHub of another lower hub.",
    ),
    denied(
        LowerHub,
        "hub",
        COMPUTE,
        "lowerhubs/status",
        ALL,
        "Report the cells of another lower hub.",
    ),
    denied(
        LowerHub,
        "hub",
        COMPUTE,
        "workloaddeployments",
        ALL,
        "Read what customers run elsewhere, or change it.",
    ),
    denied(
        LowerHub,
        "hub",
        COMPUTE,
        "instances",
        ALL,
        "Read what customers run elsewhere, or change it.",
    ),
    denied(
        LowerHub,
        "hub",
        "cluster.karmada.io",
        "clusters",
        ALL,
        "Read or change other members of the federation.",
    ),
    denied(LowerHub, "hub", CORE, "secrets", ALL, SECRETS),
    denied(
        LowerHub,
        "hub",
        RBAC,
        "clusterrolebindings",
        WRITE,
        ESCALATE,
    ),
    denied(
        Customer,
        "project",
        COMPUTE,
        "workloads/status",
        WRITE,
        "Forge a status.",
    ),
    denied(
        Customer,
        "project",
        COMPUTE,
        "workloadsummaries/status",
        WRITE,
        "Forge a result.",
    ),
    denied(
        Customer,
        "project",
        COMPUTE,
        "workloaddeployments",
        WRITE,
        "Run something that admission has not checked.",
    ),
    denied(
        Customer,
        "project",
        COMPUTE,
        "instances",
        WRITE,
        "Forge what a cell reports.",
    ),
    denied(
        Customer,
        "project",
        COMPUTE,
        "instances/status",
        WRITE,
        "Forge what a cell reports.",
    ),
];
