//! The rights of the agent of a pull cell.

use std::collections::BTreeSet;

use anyhow::ensure;
use harness::Federation;
use harness::rights::PlaneUser;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::FAR;
use crate::fixture::{DFW, dynamic};
use crate::rights::{Right, client, forbidden, given};

const CLUSTERS: &str = "cluster.karmada.io";
const CONFIG: &str = "config.karmada.io";
const WORKS: &str = "work.karmada.io";
/// The namespace of the Leases of all cells.
const OF_LEASES: &str = "karmada-cluster";

/// Verbs, API group, resource, and the name of the only object.
type Allowed = (
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static str,
);

/// What the agent may do outside its namespaces: everything that `docs/operate/pull-cell.md` says, and nothing else.
const EVERYWHERE: [Allowed; 7] = [
    (&["get"], CLUSTERS, "clusters", FAR),
    (&["list", "watch"], CLUSTERS, "clusters", ""),
    (&["update"], CLUSTERS, "clusters/status", FAR),
    (READ, CONFIG, "resourceinterpretercustomizations", ""),
    (READ, CONFIG, "resourceinterpreterwebhookconfigurations", ""),
    (&["get"], "", "namespaces", OF_LEASES),
    (&["list", "watch"], "", "services", ""),
];
const READ: &[&str] = &["get", "list", "watch"];
/// The same in the namespace of the Leases.
const BESIDE_LEASES: [Allowed; 1] = [(
    &["get", "update", "delete"],
    "coordination.k8s.io",
    "leases",
    FAR,
)];
/// The same in the namespace of its own Works.
const BESIDE_WORKS: [Allowed; 3] = [
    (&["get", "list", "watch", "update"], WORKS, "works", ""),
    (&["update", "patch"], WORKS, "works/status", ""),
    (&["create", "patch", "update"], "", "events", ""),
];

/// The agent of a cell can neither read nor write anything of another cell. The hub gives it the rights that are listed
/// here, and no others, in any namespace.
pub(super) async fn the_agent_has_only_its_own(federation: &Federation) -> anyhow::Result<()> {
    let hub = federation.hub();
    let agent = client(&hub.kubeconfig_of(&PlaneUser::agent(FAR))?).await?;
    let (own, other) = (works_of(FAR), works_of(DFW));
    let namespaces: Api<Namespace> = Api::all(hub.client());
    let namespaces = namespaces.list(&ListParams::default()).await?;
    let namespaces: BTreeSet<_> = namespaces.iter().map(ResourceExt::name_any).collect();
    for expected in [OF_LEASES, &own, &other, "default"] {
        ensure!(namespaces.contains(expected), "{expected}: {namespaces:?}");
    }
    for namespace in &namespaces {
        let only_here = match namespace.as_str() {
            OF_LEASES => &BESIDE_LEASES[..],
            namespace if namespace == own => &BESIDE_WORKS,
            _ => &[],
        };
        let listed = rights(EVERYWHERE.iter().chain(only_here));
        let given = given(&agent, namespace).await?;
        let more: Vec<_> = given.difference(&listed).collect();
        let less: Vec<_> = listed.difference(&given).collect();
        ensure!(
            more.is_empty() && less.is_empty(),
            "in {namespace}: more {more:?}, less {less:?}"
        );
    }

    // Real requests are answered accordingly.
    let works = |namespace: &str| -> Api<DynamicObject> {
        dynamic(agent.clone(), namespace, WORKS, "v1alpha1", "Work")
    };
    let all = ListParams::default();
    let found = works(&own).list(&all).await?.items;
    ensure!(!found.is_empty(), "the cell has no Works");
    forbidden(works(&other).list(&all).await)?;
    let secrets: Api<Secret> = Api::namespaced(agent.clone(), OF_LEASES);
    forbidden(secrets.list(&all).await)
}

/// Returns the namespace of the Works of a cell.
fn works_of(cell: &str) -> String {
    format!("karmada-es-{cell}")
}

fn rights<'a>(allowed: impl Iterator<Item = &'a Allowed>) -> BTreeSet<Right> {
    let each = allowed.flat_map(|(verbs, group, resource, name)| {
        let right = move |verb: &&str| [*verb, group, resource, name].map(str::to_owned).into();
        verbs.iter().map(right)
    });
    each.collect()
}
