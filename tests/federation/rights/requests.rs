//! Checks the requests of a whole test run: compute-federation needs every right that it has, and no other right.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::ensure;
use api::rights::{Plane, ROLES, Role, Subject, Target, Verb};
use harness::audit::{OurRequest, our_requests};

/// An API server whose 403s a test provokes.
struct Provoked {
    /// The test.
    test: &'static str,
    /// Label of the federation or Milo, and name of the plane.
    server: [&'static str; 2],
    /// Why the answers are expected.
    reason: &'static str,
}

const RESTART: &str =
    "the API server is restarted, and refuses what RBAC allows until it has read the roles";

/// The API servers whose 403s are expected. Only refusals of rights that compute-federation has are expected.
const PROVOKED: &[Provoked] = &[
    Provoked {
        test: "admission::an_unreachable_project_causes_no_wrong_denial",
        server: ["admission", "unreachable"],
        reason: RESTART,
    },
    Provoked {
        test: "freshness::a_cell_that_dies",
        server: ["freshness", "ord1"],
        reason: RESTART,
    },
    Provoked {
        test: "levels::a_dead_cell_below",
        server: ["dead-cell-below", "dfw.a2"],
        reason: RESTART,
    },
    Provoked {
        test: "levels::three_levels",
        server: ["three-levels", "dfw.mid.a1"],
        reason: RESTART,
    },
    Provoked {
        test: "levels::three_levels",
        server: ["three-levels", "dfw.mid"],
        reason: RESTART,
    },
    Provoked {
        test: "summaries::cells_and_instances",
        server: ["summaries", "dfw2"],
        reason: RESTART,
    },
    Provoked {
        test: "orphans::nothing_is_deleted_without_an_answer_of_the_project",
        server: ["silent", "silent"],
        reason: RESTART,
    },
    Provoked {
        test: "restore::the_hub_follows_the_project_again",
        server: ["restore", "hub"],
        reason: RESTART,
    },
    Provoked {
        test: "admission::only_api_servers_with_a_certificate_are_accepted",
        server: ["admission", "with-certificate"],
        reason: RESTART,
    },
    Provoked {
        test: "faults::restarts",
        server: ["restarts", ""],
        reason: RESTART,
    },
];

/// A right that no test needs in every run.
struct Unused {
    /// The folder of the role below `deploy/`.
    folder: &'static str,
    resource: &'static str,
    verb: &'static str,
    /// Why a run may have no such request.
    reason: &'static str,
}

const fn right(
    folder: &'static str,
    resource: &'static str,
    verb: &'static str,
    reason: &'static str,
) -> Unused {
    Unused {
        folder,
        resource,
        verb,
        reason,
    }
}

const IN_PROJECT: &str = "components/controller_rbac/management";
const INTERNAL: &str = "components/controller_rbac/internal-discovery";
const IN_CELL: &str = "components/controller_rbac/cell";
const ON_HUB: &str = "base/downstream-rbac/management";
const CA_BUNDLE: &str = "base/downstream-rbac/ca-bundle";
const CELL_ON_HUB: &str = "base/downstream-rbac/cell";

const BY_PLUGIN: &str =
    "OwnerReferencesPermissionEnforcement checks it without a request; without it, creates fail";
const NO_INFRASTRUCTURE: &str =
    "no federation of the tests has an infrastructure cluster with ProjectControlPlanes";
const STALE: &str = "only a cache that lacks an object of the API server leads to this read";
const REPEATED: &str = "only an event that is repeated within minutes is patched";
const DIFFERENT: &str = "only a copy whose metadata or spec differ from the Instance is patched";

/// The rights that a test run may leave unused.
const UNUSED: &[Unused] = &[
    right(IN_PROJECT, "workloads/finalizers", "update", BY_PLUGIN),
    right(IN_PROJECT, "instances", "get", STALE),
    right(INTERNAL, "projectcontrolplanes", "list", NO_INFRASTRUCTURE),
    right(INTERNAL, "projectcontrolplanes", "watch", NO_INFRASTRUCTURE),
    right(
        IN_CELL,
        "workloaddeployments/finalizers",
        "update",
        BY_PLUGIN,
    ),
    right(IN_CELL, "instances", "get", STALE),
    right(IN_CELL, "events", "patch", REPEATED),
    right(ON_HUB, "events", "patch", REPEATED),
    right(
        CELL_ON_HUB,
        "workloaddeployments/finalizers",
        "update",
        BY_PLUGIN,
    ),
    right(CELL_ON_HUB, "instances", "patch", DIFFERENT),
];

/// Returns whether a role is used on API servers of this kind.
fn is_used_on(role: &Role, kind: &str) -> bool {
    match role.plane {
        Plane::Project | Plane::OwnCluster => kind == "project",
        Plane::Root | Plane::Infrastructure => kind == "root",
        Plane::Registrations => ["root", "project"].contains(&kind),
        // The process of a lower hub can serve the interpreter there.
        Plane::Hub => kind == "hub" || role.folder == CA_BUNDLE && kind == "lower-hub",
        Plane::LowerHub => kind == "lower-hub",
        Plane::Cell => kind == "cell",
    }
}

/// Checks the audit logs of all API servers that this process has started. `whole` tells whether all tests have run.
/// `tests` are the names of all tests.
///
/// # Errors
///
/// When an API server has refused a request that no test provokes. After a whole run also when no test has used a
/// right.
pub(crate) fn check_requests(target: &Path, whole: bool, tests: &[&str]) -> anyhow::Result<()> {
    for Provoked { test, reason, .. } in PROVOKED {
        ensure!(tests.contains(test), "there is no test {test} ({reason})");
    }
    for Unused {
        folder,
        resource,
        verb,
        reason,
    } in UNUSED
    {
        let exists = rights()
            .any(|(of, _, name, it)| (of.folder, name, it.name()) == (*folder, *resource, *verb));
        ensure!(
            exists,
            "{folder} has no right to {verb} {resource} ({reason})"
        );
    }
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut used: BTreeSet<OurRequest> = BTreeSet::new();
    our_requests(target, |request| {
        if request.code == 403 && !is_provoked(&request) {
            let OurRequest {
                label,
                plane,
                user,
                verb,
                resource,
                message,
                ..
            } = &request;
            let refusal = format!("{label}, {plane}: {user} {verb} {resource}: {message}");
            *refused.entry(refusal).or_default() += 1;
        }
        if request.code == 403 {
            return;
        }
        used.insert(OurRequest {
            label: String::new(),
            plane: String::new(),
            code: 0,
            message: String::new(),
            ..request
        });
    })?;
    let mut problems: Vec<_> = refused
        .into_iter()
        .map(|(refusal, count)| format!("refused {count} times: {refusal}"))
        .collect();
    if whole {
        problems.extend(unused(&used));
    }
    ensure!(
        problems.is_empty(),
        "the rights of compute-federation:\n{}",
        problems.join("\n")
    );
    Ok(())
}

fn is_provoked(request: &OurRequest) -> bool {
    // Not a matter of rights. A namespace may end at any time.
    if request.message.contains("because it is being terminated") {
        return true;
    }
    let is_granted = rights()
        .any(|(role, group, resource, verb)| is_right(request, role, group, resource, verb));
    let is_listed = |it: &Provoked| {
        let [label, plane] = it.server;
        request.label == label && (plane.is_empty() || request.plane == plane)
    };
    is_granted && PROVOKED.iter().any(is_listed)
}

/// Returns whether a request uses this right.
fn is_right(request: &OurRequest, role: &Role, group: &str, resource: &str, verb: Verb) -> bool {
    is_used_on(role, &request.kind)
        && request.user.starts_with("compute-cell-") == (role.subject == Subject::Cells)
        && request.verb == verb.name()
        && request.group == group
        && request.resource == resource
}

/// Returns all bound rights: role, API group, resource, verb.
fn rights() -> impl Iterator<Item = (&'static Role, &'static str, &'static str, Verb)> {
    let bound = ROLES.iter().filter(|role| role.subject != Subject::Unbound);
    let rules = bound.flat_map(|role| role.rules.iter().map(move |rule| (role, rule)));
    rules.flat_map(|(role, rule)| {
        rule.verbs.iter().filter_map(move |verb| match rule.target {
            Target::Resource {
                group, resource, ..
            } => Some((role, group, resource, *verb)),
            Target::Url(_) => None,
        })
    })
}

/// Returns the rights that no request has used and that are not listed.
fn unused(used: &BTreeSet<OurRequest>) -> Vec<String> {
    let mut unused = Vec::new();
    for (role, group, resource, verb) in rights() {
        let is_use = |request: &OurRequest| is_right(request, role, group, resource, verb);
        let is_listed =
            |it: &Unused| (it.folder, it.resource, it.verb) == (role.folder, resource, verb.name());
        if !used.iter().any(is_use) && !UNUSED.iter().any(is_listed) {
            let (verb, name, folder) = (verb.name(), role.name, role.folder);
            unused.push(format!(
                "no test uses {verb} {resource} of {name} ({folder})"
            ));
        }
    }
    unused
}
