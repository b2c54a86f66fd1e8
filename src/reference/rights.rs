//! `rights.md`: the Kubernetes RBAC rights that each role needs.

use super::page::{Page, Section};

/// A right of one role.
struct Right {
    role: &'static str,
    plane: &'static str,
    resource: &'static str,
    verbs: &'static str,
    note: &'static str,
}

const fn right(
    role: &'static str,
    plane: &'static str,
    resource: &'static str,
    verbs: &'static str,
    note: &'static str,
) -> Right {
    Right {
        role,
        plane,
        resource,
        verbs,
        note,
    }
}

const MANAGEMENT: &str = "Management controllers";
const ADMISSION: &str = "Admission";
const DISCOVERY: &str = "Management controllers and admission, to find projects";
const CA_BUNDLE: &str = "Webhook server, to maintain `caBundle`";
const CELL: &str = "Cell controllers";
const PROCESS: &str = "Every process";

const OWN: &str = "get, list, watch, create, patch, delete";

/// The kubeconfigs of a process, and the planes that each kubeconfig reaches.
const KUBECONFIGS: [[&str; 2]; 4] = [
    [
        "`--kubeconfig`",
        "Own cluster: the project with `mode: single`; for a process in a cell, the cell.",
    ],
    ["`--federation-kubeconfig`", "Hub."],
    [
        "`discovery.discoveryKubeconfigPath`",
        "Root with `mode: milo`; infrastructure cluster with `internalServiceDiscovery`.",
    ],
    [
        "`discovery.projectKubeconfigPath`",
        "Each project with `mode: milo`.",
    ],
];

const RIGHTS: [Right; 44] = [
    right(
        MANAGEMENT,
        "project",
        "`workloads.compute.datumapis.com`",
        "list, watch, patch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`workloads/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`workloaddeployments.compute.datumapis.com`",
        OWN,
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`workloaddeployments/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`instances.compute.datumapis.com`",
        OWN,
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`instances/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`namespaces`",
        "get, list, watch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`events.events.k8s.io`",
        "create",
        "Without it, no events are published. The conditions contain the same information.",
    ),
    right(
        MANAGEMENT,
        "project",
        "`locationbindings.networking.datumapis.com`",
        "list, watch",
        "",
    ),
    right(
        MANAGEMENT,
        "project",
        "`networks.networking.datumapis.com`",
        "list, watch",
        "",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`namespaces`",
        "list, watch, create, patch, delete",
        "",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`workloaddeployments.compute.datumapis.com`",
        OWN,
        "",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`propagationpolicies.policy.karmada.io`",
        "list, watch, create, patch, delete",
        "",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`resourcebindings.work.karmada.io`",
        "list, watch",
        "Without it, no policy and no hub namespace is deleted, and projects get no `CellUnreachable` or `NoMatchingCell`.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`clusters.cluster.karmada.io`",
        "list, watch",
        "Without it, projects get no `CellUnreachable` or `NoMatchingCell`. The process logs this once.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`instances.compute.datumapis.com`",
        "get, list, watch, patch",
        "`patch` marks Instances that cannot be projected.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`events.events.k8s.io`",
        "create, patch",
        "",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`configmaps`",
        "list",
        "Needed to check whether a hub namespace is empty. Without it, hub namespaces stay.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`secrets`",
        "list",
        "As for `configmaps`. The process requests only the metadata of one object, but the right allows it to read all Secrets of the hub.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`serviceaccounts`",
        "list",
        "As for `configmaps`.",
    ),
    right(
        MANAGEMENT,
        "hub",
        "`resourceinterpretercustomizations.config.karmada.io`",
        "list, watch",
        "Without it, customizations that shadow the webhook are not reported.",
    ),
    right(
        ADMISSION,
        "each project",
        "`locationbindings.networking.datumapis.com`",
        "list, watch",
        "",
    ),
    right(
        ADMISSION,
        "each project",
        "`subjectaccessreviews.authorization.k8s.io`",
        "create",
        "",
    ),
    right(
        DISCOVERY,
        "root, `mode: milo`",
        "`projects.resourcemanager.miloapis.com`",
        "list, watch",
        "",
    ),
    right(
        DISCOVERY,
        "root, `mode: milo`",
        "`projects.resourcemanager.miloapis.com`",
        "get",
        "Management only, to prove that a project is gone.",
    ),
    right(
        DISCOVERY,
        "root, `mode: milo`",
        "`namespaces` named `default`",
        "get",
        "Management only, to prove that a project is gone.",
    ),
    right(
        DISCOVERY,
        "infrastructure cluster, `internalServiceDiscovery`",
        "`projectcontrolplanes.infrastructure.miloapis.com`",
        "list, watch",
        "Instead of the rights at the root.",
    ),
    right(
        CA_BUNDLE,
        "root or own cluster",
        "`mutatingwebhookconfigurations.admissionregistration.k8s.io` named `compute-mutating`",
        "get, patch",
        "Where the webhooks are registered.",
    ),
    right(
        CA_BUNDLE,
        "root or own cluster",
        "`validatingwebhookconfigurations.admissionregistration.k8s.io` named `compute-validating`",
        "get, patch",
        "Where the webhooks are registered.",
    ),
    right(
        CA_BUNDLE,
        "hub",
        "`resourceinterpreterwebhookconfigurations.config.karmada.io` named `compute-federation`",
        "get, patch",
        "Used with `--federation-kubeconfig` and without cell controllers.",
    ),
    right(
        CELL,
        "cell",
        "`workloaddeployments.compute.datumapis.com`",
        "list, watch, patch",
        "",
    ),
    right(
        CELL,
        "cell",
        "`workloaddeployments/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(CELL, "cell", "`instances.compute.datumapis.com`", OWN, ""),
    right(
        CELL,
        "cell",
        "`instances/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(CELL, "cell", "`events.events.k8s.io`", "create, patch", ""),
    right(
        CELL,
        "cell",
        "`namespaces`",
        "get",
        "Without it, the cell does not notice that `--federation-kubeconfig` leads to another hub.",
    ),
    right(CELL, "hub", "`namespaces`", "get", ""),
    right(
        CELL,
        "hub",
        "`workloaddeployments.compute.datumapis.com`",
        "get",
        "",
    ),
    right(
        CELL,
        "hub",
        "`instances.compute.datumapis.com`",
        "get, create, patch, delete",
        "",
    ),
    right(
        CELL,
        "hub",
        "`instances/status.compute.datumapis.com`",
        "patch",
        "",
    ),
    right(
        PROCESS,
        "own cluster",
        "`leases.coordination.k8s.io` in the namespace of the lease",
        "get, create, update",
        "With `--leader-elect`.",
    ),
    right(
        PROCESS,
        "own cluster",
        "`tokenreviews.authentication.k8s.io`",
        "create",
        "With `metricsServer.secureServing`.",
    ),
    right(
        PROCESS,
        "own cluster",
        "`subjectaccessreviews.authorization.k8s.io`",
        "create",
        "With `metricsServer.secureServing`.",
    ),
    right(
        PROCESS,
        "each plane with the admission plugin `OwnerReferencesPermissionEnforcement`",
        "`workloads/finalizers` (project), `workloaddeployments/finalizers` (hub, cells)",
        "update",
        "Needed by every controller that creates children.",
    ),
];

pub(super) fn page() -> Page {
    let kubeconfigs = KUBECONFIGS.map(|cells| cells.map(str::to_owned).to_vec());
    let mut sections = vec![
        Section::text([
            "The identities in the kubeconfigs of the process need these rights.",
            "A webhook server without any kubeconfig, and outside a pod, answers Karmada and serves no admission. It needs no rights.",
        ]),
        Section::named(
            "Kubeconfigs",
            ["The planes of the tables below are reached with these kubeconfigs. With `mode: milo`, a path that is not set means `--kubeconfig`."],
        )
        .table(["kubeconfig", "plane"], kubeconfigs),
    ];
    let mut roles = Vec::new();
    for right in &RIGHTS {
        if !roles.contains(&right.role) {
            roles.push(right.role);
        }
    }
    for role in roles {
        let rights = RIGHTS.iter().filter(|right| right.role == role);
        let rows = rights.map(|right| {
            let cells = [right.plane, right.resource, right.verbs, right.note];
            cells.map(str::to_owned).to_vec()
        });
        sections.push(
            Section::named(role, [""; 0]).table(["plane", "resource", "verbs", "note"], rows),
        );
    }
    Page {
        file: "rights.md",
        title: "Rights",
        sections,
    }
}
