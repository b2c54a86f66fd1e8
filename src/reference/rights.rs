//! `rights.md`: the Kubernetes RBAC rights that each role needs.

use api::rights::{self, DENIED, Plane, ROLES, Role, Rule, Subject, Target};

use super::page::{Page, Section, code};

/// The kubeconfigs of a process, and the planes that each kubeconfig reaches.
const KUBECONFIGS: [[&str; 2]; 5] = [
    [
        "`--kubeconfig`",
        "Own cluster: the project with `mode: single`; for a process in a cell, the cell; for the process of a lower hub, the lower hub.",
    ],
    [
        "`--federation-kubeconfig`",
        "Hub; for the process of a lower hub, the upper hub.",
    ],
    [
        "`discovery.discoveryKubeconfigPath`",
        "Root with `mode: milo`; infrastructure cluster with `internalServiceDiscovery`.",
    ],
    [
        "`discovery.projectKubeconfigPath`",
        "Each project with `mode: milo`.",
    ],
    [
        "The files in `discovery.projectKubeconfigDirectory`",
        "Each project with `mode: kubeconfigs`.",
    ],
];

pub(super) fn page() -> Page {
    let kubeconfigs = KUBECONFIGS.map(|cells| cells.map(str::to_owned).to_vec());
    let mut sections = vec![
        Section::text([
            "The identities in the kubeconfigs of the process need these rights. `deploy/` contains them as roles. `cargo xtask crds` generates the roles and this page from one table, `api/src/rights/table.rs`. All federation tests run with these roles.",
            "A webhook server without any kubeconfig, and outside a pod, answers Karmada and serves no admission. It needs no rights.",
        ]),
        Section::named(
            "Kubeconfigs",
            ["The planes of the tables below are reached with these kubeconfigs. With `mode: milo`, a path that is not set means `--kubeconfig`."],
        )
        .table(["kubeconfig", "plane"], kubeconfigs),
        parts(),
    ];
    sections.extend(ROLES.iter().map(role));
    sections.push(denied());
    Page {
        file: "rights.md",
        title: "Rights",
        sections,
    }
}

/// Returns the table of the roles. Each role is in a kustomization of its own.
fn parts() -> Section {
    let rows = ROLES.iter().map(|role| {
        vec![
            code(role.name),
            format!("`deploy/{}`", role.folder),
            role.plane.name().to_owned(),
            subject(role.subject),
        ]
    });
    Section::named(
        "Roles",
        [
            "Apply only the folders of the parts that the process has. The parent folders `deploy/components/controller_rbac` and `deploy/base/downstream-rbac` apply all of their folders at once.".to_owned(),
            format!(
                "The bindings name the ServiceAccount `{}` in `{}`. On an API server that identifies the process by another name, patch the subject.",
                rights::SERVICE_ACCOUNT,
                rights::NAMESPACE
            ),
            "On the upper hub, the process of a lower hub may only read its own LowerHub, write the status of this object, and renew one Lease. `deploy/lower-hub/upper-hub.yaml` has these rights for one lower hub."
                .to_owned(),
        ],
    )
    .table(["role", "folder", "apply to", "bound to"], rows)
}

fn subject(subject: Subject) -> String {
    match subject {
        Subject::Manager => format!("ServiceAccount `{}`", rights::SERVICE_ACCOUNT),
        Subject::ManagerUser => format!("user `{}`", rights::MANAGER_USER),
        Subject::Cells => format!("group `{}`: the identity of each cell", rights::CELLS_GROUP),
        Subject::Unbound => "none: bind it yourself".to_owned(),
    }
}

fn role(role: &Role) -> Section {
    let heading = match role.plane {
        Plane::Hub => format!("`{}` on the hub", role.name),
        _ => code(role.name),
    };
    let rows = role.rules.iter().map(|rule| {
        vec![
            target(rule),
            verbs(rule),
            rule.why.to_owned(),
            rule.without.unwrap_or_default().to_owned(),
        ]
    });
    let used = format!("{}. Apply to: {}.", role.used_by, role.plane.name());
    Section::named(&heading, [used])
        .table(["resource", "verbs", "for", "optional: without it"], rows)
}

fn target(rule: &Rule) -> String {
    match rule.target {
        Target::Url(url) => code(url),
        Target::Resource {
            group,
            resource,
            names,
        } => {
            let names: Vec<_> = names
                .iter()
                .map(|name| format!(" named `{name}`"))
                .collect();
            format!("`{}`{}", qualified(group, resource), names.concat())
        }
    }
}

fn qualified(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

fn verbs(rule: &Rule) -> String {
    let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.name()).collect();
    verbs.join(", ")
}

/// Returns the table of what the identities may not do.
fn denied() -> Section {
    let rows = DENIED.iter().map(|row| {
        vec![
            row.identity.name().to_owned(),
            row.plane.to_owned(),
            code(&qualified(row.group, row.resource)),
            row.verbs.join(", "),
            row.why.to_owned(),
        ]
    });
    Section::named(
        "What the identities may not do",
        ["The rows of the webhook server hold if it runs as a process of its own, with its own identity. In the overlays `management-plane` and `single-cluster`, the management process serves the webhooks and has the rights of both. The federation tests `rights::` try each row."],
    )
    .table(["identity", "on", "resource", "verbs", "could otherwise"], rows)
}
