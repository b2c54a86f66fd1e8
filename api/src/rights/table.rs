//! The roles and their rights.

use super::role::Verb::{Create, Delete, Get, List, Patch, Update, Watch};
use super::role::{Plane, Role, Rule, Subject, Target, Verb};

const COMPUTE: &str = crate::GROUP;
const CORE: &str = "";
const EVENTS: &str = "events.k8s.io";
const NETWORKING: &str = "networking.datumapis.com";
const REGISTRATION: &str = "admissionregistration.k8s.io";
const INTERPRETERS: &str = "config.karmada.io";

const FOLLOW: &[Verb] = &[List, Watch];
const READ: &[Verb] = &[Get, List, Watch];
const OWN: &[Verb] = &[Get, List, Watch, Create, Patch, Delete];

const fn named(
    group: &'static str,
    resource: &'static str,
    names: &'static [&'static str],
    verbs: &'static [Verb],
    why: &'static str,
) -> Rule {
    let target = Target::Resource {
        group,
        resource,
        names,
    };
    Rule {
        target,
        verbs,
        why,
        without: None,
    }
}

const fn rule(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [Verb],
    why: &'static str,
) -> Rule {
    named(group, resource, &[], verbs, why)
}

impl Rule {
    const fn without(self, without: &'static str) -> Self {
        let without = Some(without);
        Self { without, ..self }
    }
}

const BLOCKS: &str = "Children block the deletion of their owner. The admission plugin `OwnerReferencesPermissionEnforcement` checks this right.";
const NO_PLUGIN: &str = "Nothing, if the API server does not run the plugin.";
const NO_EVENTS: &str = "No events. The conditions contain the same information.";
const NO_HOLDER: &str = "The network operator is not told whether an Instance is available.";
const NO_CELL_RULES: &str = "CellRules have no effect.";
const NO_CELLS_BELOW: &str = "Projects get no `CellUnreachable` for cells below lower hubs.";
const NO_SILENCE_BELOW: &str = "Nothing shows that the process of a further lower hub is silent.";
const NO_SILENCE: &str = "Nothing shows that the process of a lower hub is silent.";
const NO_DATA: &str =
    "Workloads whose template uses one do not start. `ReferencedDataReady` says so.";
const NO_SUMMARIES: &str = "WorkloadSummaries get no status.";
const NO_REMOVAL: &str = "Empty hub namespaces stay.";

/// All roles, in the order of the documentation.
pub const ROLES: &[Role] = &[
    Role {
        name: "compute",
        folder: "components/controller_rbac/management",
        namespaced: false,
        used_by: "Management controllers",
        plane: Plane::Project,
        subject: Subject::Manager,
        rules: &[
            rule(COMPUTE, "workloads", &[List, Watch, Patch], "Read Workloads; write their finalizer."),
            rule(COMPUTE, "workloads/status", &[Patch], "Write the status."),
            rule(COMPUTE, "workloads/finalizers", &[Update], BLOCKS).without(NO_PLUGIN),
            rule(COMPUTE, "workloaddeployments", OWN, "Create and maintain the WorkloadDeployments of Workloads. `get` proves that one is gone."),
            rule(COMPUTE, "workloaddeployments/status", &[Patch], "Write the status."),
            rule(COMPUTE, "instances", OWN, "Create and maintain the projections of Instances. `get` proves that one is gone."),
            rule(COMPUTE, "instances/status", &[Patch], "Write the status."),
            rule(COMPUTE, "workloadsummaries", FOLLOW, "Read the queries of [summaries](../operate/summaries.md).").without(NO_SUMMARIES),
            rule(COMPUTE, "workloadsummaries/status", &[Patch], "Write their results.").without(NO_SUMMARIES),
            rule(CORE, "namespaces", READ, "The UID of a namespace identifies its objects. `get` proves that one is gone."),
            rule(EVENTS, "events", &[Create], "Publish transitions of conditions.").without(NO_EVENTS),
            rule(NETWORKING, "locationbindings", FOLLOW, "Report cities that the project does not offer."),
            rule(NETWORKING, "networks", FOLLOW, "Report missing Networks."),
            rule(CORE, "configmaps", READ, "Copy the ConfigMaps that templates use to the hub.").without(NO_DATA),
            rule(CORE, "secrets", READ, "As for `configmaps`. Only metadata are listed and watched. A Secret is read when it is copied.").without(NO_DATA),
        ],
    },
    Role {
        name: "compute-webhook",
        folder: "components/controller_rbac/webhook",
        namespaced: false,
        used_by: "Admission",
        plane: Plane::Project,
        subject: Subject::Manager,
        rules: &[
            rule(NETWORKING, "locationbindings", FOLLOW, "Know the cities that the project offers."),
            rule("authorization.k8s.io", "subjectaccessreviews", &[Create], "Ask whether the requester may use a Network, or read a ConfigMap or a Secret."),
        ],
    },
    Role {
        name: "compute-discovery",
        folder: "components/controller_rbac/discovery",
        namespaced: false,
        used_by: "Management controllers and admission, to find projects",
        plane: Plane::Root,
        subject: Subject::Manager,
        rules: &[rule("resourcemanager.miloapis.com", "projects", FOLLOW, "Find the projects.")],
    },
    Role {
        name: "compute-project-proofs",
        folder: "components/controller_rbac/project-proofs",
        namespaced: false,
        used_by: "Management controllers, to prove that a project is gone",
        plane: Plane::Root,
        subject: Subject::Manager,
        rules: &[
            rule("resourcemanager.miloapis.com", "projects", &[Get], "Prove that a Project is gone."),
            named(CORE, "namespaces", &[crate::DEFAULT_NAMESPACE], &[Get], "Prove that the root is still the same."),
        ],
    },
    Role {
        name: "compute-internal-discovery",
        folder: "components/controller_rbac/internal-discovery",
        namespaced: false,
        used_by: "Management controllers and admission, to find projects inside the infrastructure cluster",
        plane: Plane::Infrastructure,
        subject: Subject::Manager,
        rules: &[rule("infrastructure.miloapis.com", "projectcontrolplanes", FOLLOW, "Find the projects. Replaces the rights at the root.")],
    },
    Role {
        name: "compute-ca-bundle",
        folder: "components/controller_rbac/ca-bundle",
        namespaced: false,
        used_by: "Webhook server, to maintain the `caBundle` of admission",
        plane: Plane::Registrations,
        subject: Subject::Manager,
        rules: &[
            named(REGISTRATION, "mutatingwebhookconfigurations", &["compute-mutating"], &[Get, Patch], "Maintain `caBundle`.").without("Another program must maintain `caBundle`."),
            named(REGISTRATION, "validatingwebhookconfigurations", &["compute-validating"], &[Get, Patch], "Maintain `caBundle`.").without("Another program must maintain `caBundle`."),
        ],
    },
    Role {
        name: "compute-cell",
        folder: "components/controller_rbac/cell",
        namespaced: false,
        used_by: "Cell controllers, in the cell",
        plane: Plane::Cell,
        subject: Subject::Manager,
        rules: &[
            rule(COMPUTE, "workloaddeployments", &[List, Watch, Patch], "Read the WorkloadDeployments that Karmada writes; write their finalizer, and the record of outdated copies."),
            rule(COMPUTE, "workloaddeployments/status", &[Patch], "Write the status."),
            rule(COMPUTE, "workloaddeployments/finalizers", &[Update], BLOCKS).without(NO_PLUGIN),
            rule(COMPUTE, "instances", OWN, "Create and maintain Instances. `get` proves that one is gone."),
            rule(COMPUTE, "instances/status", &[Patch], "Write the status."),
            rule(CORE, "namespaces", READ, "Compare the identity of the hub (`get`). Find the project of an Instance, whose quota it uses (`list`, `watch`).").without("Without `get`, the cell does not notice that `--federation-kubeconfig` leads to another hub. Without the other verbs, a cell that enforces quota writes nothing."),
            named(CORE, "namespaces", &[crate::DEFAULT_NAMESPACE], &[Patch], "Record the projects in which claims of quota may be left.").without("A claim that an Instance leaves stays if the process ends before the project's API server answers."),
            rule("autoscaling", "horizontalpodautoscalers", &[List, Watch, Create, Patch, Delete], "Create and maintain the autoscalers of WorkloadDeployments.").without("No deployment is scaled automatically. `AutoscalingReady` says so."),
            rule(EVENTS, "events", &[Create, Patch], "Publish transitions of conditions.").without(NO_EVENTS),
        ],
    },
    Role {
        name: "compute-lower-hub",
        folder: "components/controller_rbac/lower-hub",
        namespaced: false,
        used_by: "The controller of a lower hub, on the lower hub",
        plane: Plane::LowerHub,
        subject: Subject::Manager,
        rules: &[
            rule("cluster.karmada.io", "clusters", FOLLOW, "Know the state of the cells."),
            rule(COMPUTE, "lowerhubs", FOLLOW, "Know the state of the cells below further lower hubs.").without("Cells below further lower hubs are not reported."),
            rule(COMPUTE, "lowerhubs/status", &[Patch], "Write the condition `Reporting` of further lower hubs.").without(NO_SILENCE_BELOW),
            rule("coordination.k8s.io", "leases", FOLLOW, "Know the heartbeats of the processes of further lower hubs. Only Leases with the label `compute.datumapis.com/lower-hub` are read.").without(NO_SILENCE_BELOW),
            named(CORE, "namespaces", &[crate::DEFAULT_NAMESPACE], &[Get, Patch], "Identify the lower hub, and record the upper hub.").without("Nothing notices that the process reads another lower hub, or reports to another upper hub."),
        ],
    },
    Role {
        name: "compute-cell-referenced-data",
        folder: "components/controller_rbac/referenced-data",
        namespaced: false,
        used_by: "Cell controllers with `featureFlags.enableReferencedDataGate`, in the cell",
        plane: Plane::Cell,
        subject: Subject::Manager,
        rules: &[
            rule(CORE, "configmaps", &[Get], "Know whether the ConfigMaps of an Instance are in the cell. Only metadata are read, by name."),
            rule(CORE, "secrets", &[Get], "As for `configmaps`. None is listed or watched."),
        ],
    },
    Role {
        name: "compute-cell-interface-claims",
        folder: "components/controller_rbac/interface-claims",
        namespaced: false,
        used_by: "Cell controllers with `networking.strategy: InterfaceClaims`, in the cell",
        plane: Plane::Cell,
        subject: Subject::Manager,
        rules: &[
            rule(NETWORKING, "servinglocations", FOLLOW, "Know the location of the cell."),
            rule(NETWORKING, "networkinterfaceclaims", &[List, Watch, Create], "Ask for the interfaces of Instances. The garbage collector deletes the claims with their Instances."),
            rule(NETWORKING, "networkinterfaces", FOLLOW, "Find the interfaces that Instances hold.").without(NO_HOLDER),
            rule(NETWORKING, "networkinterfaces/status", &[Patch], "Report whether the holder of an interface is available.").without(NO_HOLDER),
        ],
    },
    Role {
        name: "compute-cell-network-bindings",
        folder: "components/controller_rbac/network-bindings",
        namespaced: false,
        used_by: "Cell controllers with `networking.strategy: Bindings`, in the cell",
        plane: Plane::Cell,
        subject: Subject::Manager,
        rules: &[
            rule(NETWORKING, "locations", FOLLOW, "Find the Location of a city."),
            rule(NETWORKING, "networkbindings", &[List, Watch, Create, Delete], "Ask for networks. A binding that nobody uses any more is deleted."),
            rule(NETWORKING, "networkcontexts", FOLLOW, "Know whether a network is ready."),
            rule(NETWORKING, "subnetclaims", &[List, Watch, Create, Patch, Delete], "Ask for Subnets. `patch` changes the WorkloadDeployments among the owners. A claim without an owner is deleted."),
            rule(NETWORKING, "subnets", FOLLOW, "Know whether a Subnet is ready."),
        ],
    },
    Role {
        name: "compute-cell-quota",
        folder: "components/controller_rbac/quota",
        namespaced: false,
        used_by: "Cell controllers that enforce quota, with the credentials of `discovery.quotaKubeconfigPath`",
        plane: Plane::Project,
        subject: Subject::Unbound,
        rules: &[
            rule("quota.miloapis.com", "resourceclaims", &[Get, Create, Delete], "Claim quota for Instances, and return it. `get` proves that a claim is gone."),
            rule("quota.miloapis.com", "resourceclaims", &[Patch], "Pass a claim to the next Instance of the same name.").without("The claim is deleted and made anew. Another Instance can get its quota in between."),
            rule("quota.miloapis.com", "resourceclaims", FOLLOW, "See grants at once, and find claims that were left behind.").without("Grants are seen by polling. Claims that were left behind stay."),
            rule("quota.miloapis.com", "allowancebuckets", FOLLOW, "Claim again at once when the project has quota left.").without("A denied claim is made anew at intervals."),
        ],
    },
    Role {
        name: "compute-metrics-auth",
        folder: "components/controller_rbac/metrics",
        namespaced: false,
        used_by: "Every process with `metricsServer.secureServing`",
        plane: Plane::OwnCluster,
        subject: Subject::Manager,
        rules: &[
            rule("authentication.k8s.io", "tokenreviews", &[Create], "Authenticate scrapers."),
            rule("authorization.k8s.io", "subjectaccessreviews", &[Create], "Ask whether the scraper may read `/metrics`."),
        ],
    },
    Role {
        name: "compute-leader-election",
        folder: "components/leader_election",
        namespaced: true,
        used_by: "Every process with `--leader-elect`",
        plane: Plane::OwnCluster,
        subject: Subject::Manager,
        rules: &[
            rule("coordination.k8s.io", "leases", &[Get, Create, Update], "Acquire, renew and release the Lease."),
            rule("coordination.k8s.io", "leases", &[List, Watch], "See at once that the Lease is released or renewed.")
                .without("Another replica takes over up to 2 s later."),
        ],
    },
    Role {
        name: "compute-manager",
        folder: "base/downstream-rbac/management",
        namespaced: false,
        used_by: "Management controllers",
        plane: Plane::Hub,
        subject: Subject::ManagerUser,
        rules: &[
            rule(CORE, "namespaces", &[List, Watch, Create, Patch], "Create and maintain hub namespaces."),
            rule(COMPUTE, "workloaddeployments", OWN, "Create and maintain the copies. `get` proves that one is gone."),
            rule("policy.karmada.io", "propagationpolicies", &[List, Watch, Create, Patch, Delete], "Create and maintain the policies."),
            rule(COMPUTE, "cellrules", FOLLOW, "Know the rules of cells.").without(NO_CELL_RULES),
            rule(COMPUTE, "cellrules/status", &[Patch], "Report which rules count.").without("CellRules have no condition `Accepted`."),
            rule("policy.karmada.io", "clusteroverridepolicies", &[List, Watch, Create, Patch, Delete], "Give the cells their rules. RBAC cannot say that the policy changes nothing but our annotation.").without(NO_CELL_RULES),
            rule("work.karmada.io", "resourcebindings", FOLLOW, "Know the cells of a copy.").without("No policy and no hub namespace is deleted. Projects get no `CellUnreachable` and no `NoMatchingCell`."),
            rule("cluster.karmada.io", "clusters", FOLLOW, "Know the state and the labels of the cells.").without("Projects get no `CellUnreachable` and no `NoMatchingCell`, and CellRules have no effect. The process logs this once."),
            rule(COMPUTE, "lowerhubs", FOLLOW, "Know the state of the cells below [lower hubs](../concepts/freshness.md#cells-below-lower-hubs).").without(NO_CELLS_BELOW),
            rule(COMPUTE, "lowerhubs/status", &[Patch], "Write the condition `Reporting`.").without(NO_SILENCE),
            rule("coordination.k8s.io", "leases", FOLLOW, "Know the heartbeats of the processes of lower hubs. Only Leases with the label `compute.datumapis.com/lower-hub` are read.").without(NO_SILENCE),
            rule(COMPUTE, "instances", &[Get, List, Watch, Patch], "Project Instances. `patch` marks Instances that cannot be projected."),
            rule(CORE, "events", &[List], "Say which override of Karmada fails for a cell.").without("`RulesApplied` does not say that an override fails."),
            rule(EVENTS, "events", &[Create, Patch], "Publish transitions of conditions.").without(NO_EVENTS),
            rule(CORE, "configmaps", &[Get, Create, Patch, Delete], "Copy the ConfigMaps that templates use, by name.").without(NO_DATA),
            rule(CORE, "secrets", &[Get, Create, Patch, Delete], "As for `configmaps`. None is listed or watched.").without(NO_DATA),
            rule(INTERPRETERS, "resourceinterpretercustomizations", FOLLOW, "Find customizations that shadow the webhook.").without("Such customizations are not reported."),
        ],
    },
    Role {
        name: "compute-namespace-contents",
        folder: "base/downstream-rbac/namespace-contents",
        namespaced: false,
        used_by: "Management controllers, to delete empty hub namespaces",
        plane: Plane::Hub,
        subject: Subject::ManagerUser,
        rules: &[
            rule(CORE, "namespaces", &[Delete], "Delete empty hub namespaces. RBAC does not know which ones are empty, so the right allows the process to delete every namespace of the hub.").without(NO_REMOVAL),
            rule(CORE, "configmaps", &[List], "Check that a namespace is empty.").without(NO_REMOVAL),
            rule(CORE, "secrets", &[List], "As for `configmaps`. The process requests only the metadata of one object, but the right allows it to read all Secrets of the hub.").without(NO_REMOVAL),
            rule(CORE, "serviceaccounts", &[List], "As for `configmaps`.").without(NO_REMOVAL),
        ],
    },
    Role {
        name: "compute-ca-bundle",
        folder: "base/downstream-rbac/ca-bundle",
        namespaced: false,
        used_by: "Webhook server with `--federation-kubeconfig` and without cell controllers. That of the process of a lower hub needs it on the lower hub instead",
        plane: Plane::Hub,
        subject: Subject::ManagerUser,
        rules: &[named(INTERPRETERS, "resourceinterpreterwebhookconfigurations", &["compute-federation", "compute-federation-customizations"], &[Get, Patch], "Maintain `caBundle`, and the rules for the kinds of customizations.").without("Another program must maintain both.")],
    },
    Role {
        name: "compute-cell",
        folder: "base/downstream-rbac/cell",
        namespaced: false,
        used_by: "Cell controllers, on the hub",
        plane: Plane::Hub,
        subject: Subject::Cells,
        rules: &[
            rule(CORE, "namespaces", &[Get], "Prove that a hub namespace is gone."),
            rule(COMPUTE, "workloaddeployments", &[Get], "Find the owner of a copy."),
            rule(COMPUTE, "workloaddeployments/finalizers", &[Update], BLOCKS).without(NO_PLUGIN),
            rule(COMPUTE, "instances", &[Get, Create, Patch, Delete], "Copy Instances to the hub."),
            rule(COMPUTE, "instances/status", &[Patch], "Write the status of the copies."),
        ],
    },
    Role {
        name: "compute-metrics-reader",
        folder: "components/controller_rbac/metrics",
        namespaced: false,
        used_by: "Programs that scrape metrics",
        plane: Plane::OwnCluster,
        subject: Subject::Unbound,
        rules: &[Rule {
            target: Target::Url("/metrics"),
            verbs: &[Get],
            why: "Read metrics.",
            without: None,
        }],
    },
    Role {
        name: "compute-workload-editor",
        folder: "components/controller_rbac/users",
        namespaced: false,
        used_by: "Users who run Workloads",
        plane: Plane::Project,
        subject: Subject::Unbound,
        rules: &[rule(COMPUTE, "workloads", &[Get, List, Watch, Create, Update, Patch, Delete], "Run Workloads.")],
    },
    Role {
        name: "compute-workload-viewer",
        folder: "components/controller_rbac/users",
        namespaced: false,
        used_by: "Users who look at Workloads",
        plane: Plane::Project,
        subject: Subject::Unbound,
        rules: &[rule(COMPUTE, "workloads", READ, "Look at Workloads.")],
    },
    Role {
        name: "compute-workloaddeployment-viewer",
        folder: "components/controller_rbac/users",
        namespaced: false,
        used_by: "Users who look at what their Workloads run",
        plane: Plane::Project,
        subject: Subject::Unbound,
        rules: &[
            rule(COMPUTE, "workloaddeployments", READ, "Look at the cities of a Workload."),
            rule(COMPUTE, "instances", READ, "Look at the Instances of a Workload."),
            rule(COMPUTE, "workloadsummaries", READ, "Look at [summaries](../operate/summaries.md)."),
        ],
    },
    Role {
        name: "compute-workloadsummary-editor",
        folder: "components/controller_rbac/users",
        namespaced: false,
        used_by: "Users who write summaries",
        plane: Plane::Project,
        subject: Subject::Unbound,
        rules: &[
            rule(COMPUTE, "workloadsummaries", &[Get, List, Watch, Create, Update, Patch, Delete], "Write [summaries](../operate/summaries.md)."),
            rule(COMPUTE, "workloaddeployments", READ, "A summary shows them."),
            rule(COMPUTE, "instances", READ, "A summary shows them."),
        ],
    },
];
