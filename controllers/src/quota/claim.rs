//! The ResourceClaim of an Instance: its names, its owner and its content.

use api::quota::{ResourceClaim, ResourceRequest, UnversionedReference};
use api::{CellName, annotations, labels, milo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::{Value, json};

use crate::cell::CellCaches;
use crate::hub::upstream::Upstream;
use crate::names;
use crate::objects::StringMap;
use crate::runtime::keys::ObjectKey;

/// How the names of claims begin. Claims of other kinds are in the same namespace.
const PREFIX: &str = "instance-";
/// How many names a claim can have.
const NAMES: usize = 4;
/// How many of them are usual. The others are used if claims of others have these.
const USUAL: usize = 2;

/// An Instance of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimant<'a> {
    pub(super) cell: &'a CellName,
    /// The names that the cell had before.
    pub(super) former_cells: &'a [CellName],
    /// The namespace in the cell.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Claimant<'_> {
    /// Returns the names that a new claim can have: the readable one, and others with a hash. A hash is used if another
    /// Instance has taken the readable name. This happens if `<cell>-<instance>` is equal for two cells, and if the
    /// project's namespace was deleted and created again, because the Instances of both namespaces can exist together.
    pub(super) fn names(&self) -> Vec<String> {
        let readable = format!("{PREFIX}{}-{}", self.cell, self.name);
        let parts = [self.cell.as_str(), self.namespace, self.name];
        names::derived(&readable, &parts).take(NAMES).collect()
    }

    /// Returns the name that the Go manager gave to the claim. It does not contain the cell.
    pub(super) fn former_name(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// Returns the names that the claim has if nobody else takes them, also those of the former cells, and the one of the
    /// Go manager.
    pub(super) fn usual_names(&self) -> Vec<String> {
        let mut names = self.names();
        names.truncate(USUAL);
        names.push(self.former_name());
        names.extend(self.names_of_former_cells(|names| names.truncate(USUAL)));
        names
    }

    /// Returns the other names that the claim can have.
    pub(super) fn further_names(&self) -> Vec<String> {
        let mut names = self.names().split_off(USUAL);
        names.extend(self.names_of_former_cells(|names| drop(names.drain(..USUAL))));
        names
    }

    /// Returns these names of the claim for each former name of the cell.
    fn names_of_former_cells(&self, select: impl Fn(&mut Vec<String>)) -> Vec<String> {
        let names = self.former_cells.iter().flat_map(|cell| {
            let mut names = Claimant { cell, ..*self }.names();
            select(&mut names);
            names
        });
        names.collect()
    }

    /// Returns whether a claim with this metadata is for this Instance. A claim of another cell, and a claim of a
    /// namespace with the same origin, never is.
    pub(super) fn owns(&self, claim: &ObjectMeta) -> bool {
        let label = |key: &str| claim.labels.as_ref()?.get(key).map(String::as_str);
        let mut cells = std::iter::once(self.cell).chain(self.former_cells);
        cells.any(|cell| label(labels::SOURCE_CLUSTER) == Some(cell.as_str()))
            && label(labels::INSTANCE_NAMESPACE) == Some(self.namespace)
            && instance_name(claim) == Some(self.name)
    }
}

/// Returns the name of the Instance that a claim is for, if nothing else can be meant. `instance-<cell>-<instance>` may
/// be a claim of this cell that has lost its annotations: then the Instance of the Go manager that it seems to be for
/// does not exist, and no conclusion may follow from this.
pub(super) fn certain_instance_name(claim: &ObjectMeta) -> Option<&str> {
    let name = instance_name(claim)?;
    let has_annotation = |it: &StringMap| it.contains_key(annotations::INSTANCE_NAME);
    let cell = claim.labels.as_ref()?.get(labels::SOURCE_CLUSTER)?;
    let rest = name.strip_prefix(cell.as_str());
    let names_cell = rest.is_some_and(|rest| rest.starts_with('-'));
    let is_certain = claim.annotations.as_ref().is_some_and(has_annotation) || !names_cell;
    is_certain.then_some(name)
}

/// Returns the name of the Instance that a claim is for. A claim of the Go manager has it only in its own name.
pub(super) fn instance_name(claim: &ObjectMeta) -> Option<&str> {
    let annotations = claim.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(annotations::INSTANCE_NAME))
        .map(String::as_str)
        .or_else(|| claim.name.as_deref()?.strip_prefix(PREFIX))
}

/// Returns the Instance that a claim is for.
pub(super) fn instance_of(claim: &ObjectMeta) -> Option<ObjectKey> {
    Some(ObjectKey {
        namespace: instance_namespace(claim)?.clone(),
        name: instance_name(claim)?.to_owned(),
    })
}

/// Returns the namespace in the cell of the Instance that a claim is for.
fn instance_namespace(claim: &ObjectMeta) -> Option<&String> {
    claim.labels.as_ref()?.get(labels::INSTANCE_NAMESPACE)
}

/// Returns whether the cell does not have the Namespace of the Instance of a claim.
pub(crate) fn is_stray(cell: &CellCaches, claim: &ObjectMeta) -> bool {
    let namespace = instance_namespace(claim);
    namespace.is_some_and(|name| cell.namespaces.metadata_of("", name).is_none())
}

/// Returns whether a claim says that it is for this Instance. A claim of the Go manager does not say for which one it is.
pub(super) fn is_of(claim: &ObjectMeta, instance: &ObjectMeta) -> bool {
    instance_uid(claim).is_some_and(|uid| Some(uid) == instance.uid.as_ref())
}

/// Returns the UID of the Instance that a claim says it is for.
fn instance_uid(claim: &ObjectMeta) -> Option<&String> {
    claim.annotations.as_ref()?.get(annotations::INSTANCE_UID)
}

/// Returns whether a claim names another cell than this one.
pub(super) fn names_another_cell(claim: &ObjectMeta, cell: &CellName) -> bool {
    let labels = claim.labels.as_ref();
    let named = labels.and_then(|it| it.get(labels::SOURCE_CLUSTER));
    named.is_some_and(|named| named != cell.as_str())
}

/// Returns the metadata by which a claim is that of the Instance with this UID.
pub(super) fn ownership((claimant, uid): (&Claimant<'_>, &str)) -> Value {
    json!({
        "labels": {
            labels::SOURCE_CLUSTER: claimant.cell.as_str(),
            labels::INSTANCE_NAMESPACE: claimant.namespace,
        },
        "annotations": {
            annotations::INSTANCE_NAME: claimant.name,
            annotations::INSTANCE_UID: uid,
        },
    })
}

/// Returns a new claim of this name, for the Instance with this UID.
pub(super) fn body(
    name: &str,
    owner: (&Claimant<'_>, &str),
    upstream: &Upstream,
    requests: &[ResourceRequest],
) -> Value {
    // The Instance is not in the project's control plane when the claim is made, so the claim is for the project.
    let project = UnversionedReference {
        api_group: milo::RESOURCE_MANAGER_GROUP.to_owned(),
        kind: milo::Project::kind(&()).into_owned(),
        name: upstream.project.to_string(),
        namespace: String::new(),
    };
    let owner = ownership(owner);
    json!({
        "apiVersion": ResourceClaim::api_version(&()),
        "kind": ResourceClaim::kind(&()),
        "metadata": {
            "name": name,
            "namespace": upstream.namespace,
            "labels": owner.get("labels"),
            "annotations": owner.get("annotations"),
        },
        "spec": {
            "consumerRef": project,
            "requests": requests,
            "resourceRef": project,
        },
    })
}

#[cfg(test)]
mod tests {
    use api::ProjectName;

    use super::*;
    use crate::fixtures::object;

    fn cell(name: &str) -> CellName {
        CellName::new(name).unwrap()
    }

    fn claimant<'a>(cell: &'a CellName, namespace: &'a str, name: &'a str) -> Claimant<'a> {
        Claimant {
            cell,
            former_cells: &[],
            namespace,
            name,
        }
    }

    fn upstream() -> Upstream {
        Upstream {
            project: ProjectName::new("p").unwrap(),
            namespace: "default".to_owned(),
        }
    }

    /// I-27: names of claims contain the cell. A second name exists where the readable ones are equal.
    #[test]
    fn claims_of_different_instances_have_different_names() {
        let (dfw, dfw1, long) = (cell("dfw"), cell("dfw-1"), "x".repeat(80));
        let one = claimant(&dfw1, "ns-1", "web-0").names();
        assert_eq!(one[0], "instance-dfw-1-web-0");
        // Names on API servers have this form.
        assert_eq!(one[1], "instance-dfw-1-web-0-6tc4khp5ft");
        let same = claimant(&dfw, "ns-1", "1-web-0").names();
        assert_eq!(same[0], one[0]);
        assert_ne!(same[1], one[1]);
        let again = claimant(&dfw1, "ns-2", "web-0").names();
        assert_eq!(again[0], one[0]);
        assert_ne!(again[1], one[1]);
        for name in [long.as_str(), "Web_0"] {
            let names = claimant(&dfw, "ns-1", name).names();
            assert!(names.iter().all(|name| names::is_name_and_label(name)));
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(different.len(), NAMES);
        }
    }

    #[test]
    fn a_claim_belongs_to_the_instance_in_its_labels() {
        let (dfw1, dfw2) = (cell("dfw1"), cell("dfw2"));
        let own = claimant(&dfw1, "ns-1", "web-0");
        let claim: ResourceClaim = object(body("any", (&own, "uid-1"), &upstream(), &[]));
        assert!(own.owns(&claim.metadata));
        for other in [
            claimant(&dfw2, "ns-1", "web-0"),
            claimant(&dfw1, "ns-2", "web-0"),
            claimant(&dfw1, "ns-1", "web-1"),
        ] {
            assert!(!other.owns(&claim.metadata), "{other:?}");
        }
        // The claim of the Go manager has no annotation.
        let mut former = claim.metadata.clone();
        former.annotations = None;
        assert!(!own.owns(&former));
        former.name = Some(own.former_name());
        assert!(own.owns(&former));
        assert!(!claimant(&dfw2, "ns-1", "web-0").owns(&former));
        former.labels = None;
        assert!(!own.owns(&former));
    }

    /// Nobody may delete the claim of an Instance that lives because its annotations are lost.
    #[test]
    fn a_claim_without_annotations_that_may_be_of_this_cell_names_no_instance() {
        let named = |name: &str, annotations: Value| {
            let metadata: ObjectMeta = object(json!({
                "name": name, "labels": {labels::SOURCE_CLUSTER: "dfw1"}, "annotations": annotations,
            }));
            certain_instance_name(&metadata).map(str::to_owned)
        };
        for (name, expected) in [
            ("instance-web-0", Some("web-0")),
            ("instance-dfw1-web-0", None),
            ("instance-dfw12-web-0", Some("dfw12-web-0")),
            ("other-web-0", None),
        ] {
            assert_eq!(named(name, json!({})).as_deref(), expected, "{name}");
        }
        let annotations = json!({annotations::INSTANCE_NAME: "dfw1-web-0"});
        let own = named("instance-dfw1-dfw1-web-0", annotations);
        assert_eq!(own.as_deref(), Some("dfw1-web-0"));
    }

    #[test]
    fn a_claim_is_made_for_the_project() {
        let cell = cell("dfw1");
        let claimant = claimant(&cell, "ns-1", "web-0");
        let requests = [ResourceRequest {
            resource_type: "compute.datumapis.com/instances".to_owned(),
            amount: 1,
        }];
        let project =
            json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "p"});
        let expected = json!({
            "apiVersion": "quota.miloapis.com/v1alpha1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": "instance-dfw1-web-0",
                "namespace": "default",
                "labels": {
                    "compute.datumapis.com/source-cluster": "dfw1",
                    "compute.datumapis.com/instance-namespace": "ns-1",
                },
                "annotations": {
                    "compute.datumapis.com/instance-name": "web-0",
                    "compute.datumapis.com/instance-uid": "uid-1",
                },
            },
            "spec": {
                "consumerRef": project,
                "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}],
                "resourceRef": project,
            },
        });
        let name = &claimant.names()[0];
        let body = body(name, (&claimant, "uid-1"), &upstream(), &requests);
        assert_eq!(body, expected);
    }
}
