//! Decides which claims in a project are left by Instances that are gone.

use api::{finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::names;
use crate::quota::claim::certain_instance_name;
use crate::runtime::keys::ObjectKey;

/// The state of the Instance of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// It exists. `quota` maintains its claim.
    Lives,
    /// It is terminating. `quota` may release it without proof that its claim is gone.
    Ends,
    /// The cell does not have it, or `quota` has released it. It can still wait for the hub.
    Gone,
    /// The cell gives no answer about it. Its claim stays.
    Unknown,
}

impl Holder {
    /// Returns what the metadata of an Instance say.
    pub(super) fn of(instance: &ObjectMeta) -> Self {
        let finalizers = instance.finalizers.as_deref().unwrap_or_default();
        let is_held = || finalizers.iter().any(|it| it == finalizers::QUOTA_CLAIM);
        match instance.deletion_timestamp {
            Some(_) if is_held() => Self::Ends,
            Some(_) => Self::Gone,
            None => Self::Lives,
        }
    }
}

/// A claim of this cell, and what is known of its Instance.
#[derive(Clone, Debug)]
pub(super) struct Claimed<C> {
    pub(super) claim: C,
    pub(super) holder: Holder,
}

/// The work in a project.
#[derive(Clone, Debug)]
pub(super) struct Sweep<C> {
    /// Claims whose Instances are gone.
    pub(super) delete: Vec<C>,
    /// Whether all claims belong to Instances that do not end.
    pub(super) is_clean: bool,
}

/// Returns the Instance that a claim is for. Returns `None` if no Instance can have this name.
pub(super) fn owner(claim: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = claim.labels.as_ref()?.get(labels::INSTANCE_NAMESPACE)?;
    let name = certain_instance_name(claim)?;
    let is_possible = names::is_object_name(namespace) && names::is_object_name(name);
    is_possible.then(|| ObjectKey {
        namespace: namespace.clone(),
        name: name.to_owned(),
    })
}

/// Plans for all claims of this cell in a project.
pub(super) fn sweep<C: Resource>(claimed: Vec<Claimed<C>>) -> Sweep<C> {
    let is_clean = claimed.iter().all(|it| it.holder == Holder::Lives);
    let delete = claimed
        .into_iter()
        .filter(|it| it.holder == Holder::Gone && it.claim.meta().deletion_timestamp.is_none());
    Sweep {
        delete: delete.map(|it| it.claim).collect(),
        is_clean,
    }
}

#[cfg(test)]
mod tests {
    use api::quota::ResourceClaim;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    const DELETED: &str = "2026-11-21T09:59:00Z";

    fn claim(name: &str, is_terminating: bool) -> ResourceClaim {
        let deleted = is_terminating.then_some(DELETED);
        object(json!({
            "metadata": {"name": name, "deletionTimestamp": deleted}, "spec": {"requests": []},
        }))
    }

    #[test]
    fn only_claims_of_instances_that_are_gone_are_deleted() {
        for (claims, delete, is_clean) in [
            (vec![], vec![], true),
            (vec![("a", false, Holder::Lives)], vec![], true),
            // A claim that is being deleted may stay for long.
            (vec![("a", true, Holder::Gone)], vec![], false),
            (vec![("a", false, Holder::Ends)], vec![], false),
            (vec![("a", false, Holder::Unknown)], vec![], false),
            (
                vec![
                    ("a", false, Holder::Lives),
                    ("b", false, Holder::Gone),
                    ("c", false, Holder::Gone),
                ],
                vec!["b", "c"],
                false,
            ),
        ] {
            let claimed = claims
                .iter()
                .map(|&(name, is_terminating, holder)| Claimed {
                    claim: claim(name, is_terminating),
                    holder,
                });
            let plan = sweep(claimed.collect());
            let names: Vec<_> = plan.delete.iter().map(ResourceExt::name_any).collect();
            assert_eq!(
                (names, plan.is_clean),
                (delete.iter().map(ToString::to_string).collect(), is_clean),
                "{claims:?}"
            );
        }
    }

    #[test]
    fn an_instance_without_the_finalizer_keeps_no_claim() {
        for (deleted, finalizer, expected) in [
            (None, None, Holder::Lives),
            (Some(DELETED), Some(finalizers::QUOTA_CLAIM), Holder::Ends),
            (
                Some(DELETED),
                Some(finalizers::INSTANCE_CONTROLLER),
                Holder::Gone,
            ),
        ] {
            let finalizers = Vec::from_iter(finalizer);
            let instance = json!({"deletionTimestamp": deleted, "finalizers": finalizers});
            assert_eq!(
                Holder::of(&object(instance.clone())),
                expected,
                "{instance}"
            );
        }
    }

    #[test]
    fn a_claim_names_its_instance() {
        let of = |metadata| owner(&object::<ObjectMeta>(metadata)).map(|it| format!("{it:?}"));
        let labels = json!({labels::SOURCE_CLUSTER: "dfw1", labels::INSTANCE_NAMESPACE: "ns-1"});
        let named = json!({api::annotations::INSTANCE_NAME: "web-0"});
        let own = json!({"name": "any", "labels": labels, "annotations": named});
        assert_eq!(of(own), Some("ns-1/web-0".to_owned()));
        let former = json!({"name": "instance-web-1", "labels": labels});
        assert_eq!(of(former), Some("ns-1/web-1".to_owned()));
        for other in [
            json!({"name": "any", "labels": labels}),
            json!({"name": "instance-web-1"}),
            json!({"name": "instance-dfw1-web-1", "labels": labels}),
            json!({"name": "any", "labels": labels, "annotations": {api::annotations::INSTANCE_NAME: "../web"}}),
            json!({"name": "instance-web-1", "labels": {
                labels::SOURCE_CLUSTER: "dfw1", labels::INSTANCE_NAMESPACE: "NS_1",
            }}),
        ] {
            assert_eq!(of(other), None);
        }
    }
}
