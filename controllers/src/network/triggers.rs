//! The triggers of the network controller.

use api::{Instance, WorkloadDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::{Change, NamespacedName};

use crate::objects::controller_name;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::triggers::{CellSource, Trigger};

type CellTrigger = Trigger<CellSource, dyn CellLookups, ObjectKey>;

pub(crate) const ON_CELL: &[CellTrigger] = &[
    Trigger {
        source: CellSource::Instances,
        reason: "the Instance changed",
        keys: |change, _| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::Deployments,
        reason: "the spec of the Instance's WorkloadDeployment changed",
        keys: |change, cell| {
            let generation = |it: Option<&ObjectMeta>| it.and_then(|it| it.generation);
            match (change.former, change.current) {
                (former, Some(current)) if generation(former) != current.generation => {
                    of_deployment(cell, current, current.name.as_deref())
                }
                _ => Vec::new(),
            }
        },
    },
    Trigger {
        source: CellSource::InterfaceClaims,
        reason: "the NetworkInterfaceClaim of the Instance changed",
        keys: |change, _| change.versions().filter_map(of_claim).collect(),
    },
    Trigger {
        source: CellSource::Interfaces,
        reason: "the NetworkInterface of the Instance changed",
        keys: |change, cell| {
            let interfaces = change.versions();
            let instances = interfaces.flat_map(|interface| cell.instances_on(interface));
            instances.map(key).collect()
        },
    },
    everywhere(
        CellSource::ServingLocations,
        "the cell serves another location",
    ),
    everywhere(CellSource::Locations, "a Location changed"),
    everywhere(
        CellSource::NetworkKinds,
        "a kind of the network operator was listed",
    ),
    Trigger {
        source: CellSource::NetworkBindings,
        reason: "a NetworkBinding of the Instance's WorkloadDeployment changed",
        keys: |change, cell| {
            let bindings = change.versions();
            let keys = bindings.flat_map(|binding| {
                of_deployment(
                    cell,
                    binding,
                    controller_name::<WorkloadDeployment>(binding),
                )
            });
            keys.collect()
        },
    },
    in_namespace(
        CellSource::NetworkContexts,
        "a NetworkContext of the Instance's namespace changed",
    ),
    in_namespace(
        CellSource::SubnetClaims,
        "a SubnetClaim of the Instance's namespace changed",
    ),
    in_namespace(
        CellSource::Subnets,
        "a Subnet of the Instance's namespace changed",
    ),
];

/// Every Instance of the cell.
const fn everywhere(source: CellSource, reason: &'static str) -> CellTrigger {
    Trigger {
        source,
        reason,
        keys: |_, cell| cell.instances().into_iter().map(key).collect(),
    }
}

/// The Instances in the namespace of the object.
const fn in_namespace(source: CellSource, reason: &'static str) -> CellTrigger {
    Trigger {
        source,
        reason,
        keys: |change: Change<'_>, cell| {
            let object = change.current.or(change.former);
            let namespace = object.and_then(|object| object.namespace.as_deref());
            let instances = namespace.map_or_else(Vec::new, |it| cell.instances_in(it));
            instances.iter().map(ObjectKey::of).collect()
        },
    }
}

fn key((namespace, name): NamespacedName) -> ObjectKey {
    ObjectKey { namespace, name }
}

/// Returns the Instances of a WorkloadDeployment in the namespace of the object.
fn of_deployment(
    cell: &dyn CellLookups,
    object: &ObjectMeta,
    deployment: Option<&str>,
) -> Vec<ObjectKey> {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let instances = cell.instances_in(namespace);
    let own = instances.iter().filter(|instance| {
        deployment.is_some() && controller_name::<WorkloadDeployment>(instance) == deployment
    });
    own.map(ObjectKey::of).collect()
}

/// Returns the Instance of a claim. The end of a claim of a former Instance frees its name for the next one, which has
/// the same name.
fn of_claim(claim: &ObjectMeta) -> Option<ObjectKey> {
    let name = controller_name::<Instance>(claim)?.to_owned();
    let key = ObjectKey::of(claim);
    Some(ObjectKey { name, ..key })
}

#[cfg(test)]
mod tests {
    use api::ProjectName;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{metadata, named};
    use CellSource::{
        Deployments, Instances, InterfaceClaims, Interfaces, Locations, NetworkBindings,
        NetworkContexts, NetworkKinds, ServingLocations, SubnetClaims, Subnets,
    };

    fn controlled_by(name: &str, kind: &str, owner: &str) -> ObjectMeta {
        let controller = json!({
            "apiVersion": api::API_VERSION, "kind": kind, "name": owner, "uid": "u", "controller": true,
        });
        metadata(json!({"namespace": "ns-1", "name": name, "ownerReferences": [controller]}))
    }

    /// A cell with two Instances of `web` and one of `api` in `ns-1`, and one in `ns-2`. `web-1` holds `nic-1`.
    struct FakeCell;

    impl CellLookups for FakeCell {
        fn namespaces_of(&self, _: &str) -> Vec<String> {
            Vec::new()
        }

        fn project_of(&self, _: &str) -> Option<ProjectName> {
            None
        }

        fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta> {
            let instance = |name, owner| controlled_by(name, "WorkloadDeployment", owner);
            match namespace {
                "ns-1" => vec![
                    instance("web-0", "web"),
                    instance("web-1", "web"),
                    instance("api-0", "api"),
                ],
                "ns-2" => vec![named("ns-2", "far-0")],
                _ => Vec::new(),
            }
        }

        fn instances(&self) -> Vec<NamespacedName> {
            let all = ["ns-1", "ns-2"].map(|it| self.instances_in(it)).concat();
            let all = all.into_iter();
            all.map(|it| (it.namespace.unwrap(), it.name.unwrap()))
                .collect()
        }

        fn instances_on(&self, interface: &ObjectMeta) -> Vec<NamespacedName> {
            match interface.name.as_deref() {
                Some("nic-1") => vec![("ns-1".to_owned(), "web-1".to_owned())],
                _ => Vec::new(),
            }
        }
    }

    fn keys(names: &[&str]) -> Vec<ObjectKey> {
        let key = |name: &&str| match *name {
            "far-0" => ObjectKey::of(&named("ns-2", name)),
            name => ObjectKey::of(&named("ns-1", name)),
        };
        names.iter().map(key).collect()
    }

    #[test]
    fn changes_of_networks_wake_the_instances_on_them() {
        let of_generation = |generation: Value| {
            metadata(json!({"namespace": "ns-1", "name": "web", "generation": generation}))
        };
        let (first, second) = (of_generation(json!(1)), of_generation(json!(2)));
        let instance = named("ns-1", "web-0");
        let claim = controlled_by("web-0-eth0", "Instance", "web-0");
        let foreign = named("ns-1", "foreign");
        let (held, free) = (named("ns-1", "nic-1"), named("ns-1", "nic-2"));
        let binding = controlled_by("web-net-0", "WorkloadDeployment", "web");
        let location = named("", "dfw");
        let shared = named("ns-1", "default-default-dfw");
        let case = |name, source, former, current, names: &[&str]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys(names),
        };
        let all = ["web-0", "web-1", "api-0", "far-0"];
        let (of_web, in_ns_1) = (&all[..2], &all[..3]);
        #[rustfmt::skip]
        let cases = [
            case("Instance", Instances, None, Some(&instance), &["web-0"]),
            case("deployment", Deployments, None, Some(&first), of_web),
            case("its spec", Deployments, Some(&first), Some(&second), of_web),
            case("its status", Deployments, Some(&second), Some(&second), &[]),
            case("its end", Deployments, Some(&second), None, &[]),
            case("claim", InterfaceClaims, None, Some(&claim), &["web-0"]),
            case("its end", InterfaceClaims, Some(&claim), None, &["web-0"]),
            case("foreign claim", InterfaceClaims, None, Some(&foreign), &[]),
            case("interface", Interfaces, None, Some(&held), &["web-1"]),
            case("free interface", Interfaces, None, Some(&free), &[]),
            case("serving location", ServingLocations, None, Some(&location), &all),
            case("location", Locations, Some(&location), None, &all),
            case("kind", NetworkKinds, None, None, &all),
            case("binding", NetworkBindings, None, Some(&binding), of_web),
            case("its end", NetworkBindings, Some(&binding), None, of_web),
            case("foreign binding", NetworkBindings, None, Some(&foreign), &[]),
            case("context", NetworkContexts, None, Some(&shared), in_ns_1),
            case("subnet claim", SubnetClaims, None, Some(&shared), in_ns_1),
            case("subnet", Subnets, Some(&shared), None, in_ns_1),
            case("quota", CellSource::Claims, None, Some(&claim), &[]),
        ];
        assert_cases(ON_CELL, &cases, &FakeCell as &dyn CellLookups);
    }
}
