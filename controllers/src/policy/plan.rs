//! Which PropagationPolicies a hub namespace needs: one per city, as long as a WorkloadDeployment needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::karmada::PropagationPolicy;
use api::karmada::policy::{
    ClusterAffinity, LabelSelector, Placement, PropagationPolicySpec, ResourceSelector,
};
use api::{CityCode, HubNamespace, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::names;
use crate::objects::{Keys, covers, is_terminating};

/// Label and value by which our policies are known, whatever has become of their spec.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "compute-federation");

/// What the controller sees of one hub namespace.
pub(super) struct Observed<'a> {
    pub(super) namespace: &'a HubNamespace,
    /// The cities of every deployment that is on the hub, or that a project wants there.
    pub(super) needed: &'a BTreeSet<CityCode>,
    /// All policies in the namespace, whosoever's they are.
    pub(super) policies: &'a [Arc<PropagationPolicy>],
}

/// What must be done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) apply: Vec<Desired>,
    pub(super) delete: Vec<Arc<PropagationPolicy>>,
}

/// A policy as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    /// The policy as it is, if there is one.
    pub(super) existing: Option<Arc<PropagationPolicy>>,
    pub(super) name: String,
    pub(super) labels: Keys,
    pub(super) spec: PropagationPolicySpec,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        namespace,
        needed,
        policies,
    } = *observed;
    let mut taken: BTreeSet<String> = policies.iter().map(|policy| policy.name_any()).collect();
    let mut plan = Plan::default();
    for city in needed {
        let existing = policies
            .iter()
            .find(|policy| city_of(policy).as_deref() == Some(city.as_str()));
        let name = existing.map_or_else(|| new_name(city, &taken), |existing| existing.name_any());
        taken.insert(name.clone());
        let desired = Desired {
            existing: existing.cloned(),
            name,
            labels: Keys::from([
                (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned()),
                (labels::CITY_CODE.to_owned(), city.as_str().to_owned()),
            ]),
            spec: spec(namespace, city),
        };
        // An apply on a policy that is terminating succeeds and is lost: its end is waited for.
        let settled = existing.is_some_and(|existing| {
            is_terminating(existing.as_ref())
                || (existing.spec == desired.spec && covers(existing.labels(), &desired.labels))
        });
        if !settled {
            plan.apply.push(desired);
        }
    }
    plan.delete = policies
        .iter()
        .filter(|policy| !is_terminating(policy.as_ref()))
        .filter(|policy| {
            let city = city_of(policy);
            city.is_some_and(|city| needed.iter().all(|needed| needed.as_str() != city))
        })
        .cloned()
        .collect();
    plan
}

/// Whether a policy with this metadata is one of ours. Those of the baseline do not say so.
pub(crate) fn is_managed(policy: &ObjectMeta) -> bool {
    let labels = policy.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(MANAGED_BY.0));
    manager.is_some_and(|manager| manager == MANAGED_BY.1)
}

/// The city that one of our policies is for. `None` for policies of others, which are never touched.
fn city_of(policy: &PropagationPolicy) -> Option<String> {
    if is_managed(policy.meta()) {
        return policy.labels().get(labels::CITY_CODE).cloned();
    }
    // The baseline's policies have no labels: they are known by their name and their form.
    let city = CityCode::new(selected_city(policy)?).ok()?;
    (policy.name_any() == readable_name(&city)).then(|| city.as_str().to_owned())
}

/// The city code, if the policy carries what has it to the cells that have it, and nothing else.
pub(super) fn selected_city(policy: &PropagationPolicy) -> Option<&str> {
    let [selector] = policy.spec.resource_selectors.as_slice() else {
        return None;
    };
    let city = only_city(selector.label_selector.as_ref()?)?;
    let affinity = policy.spec.placement.cluster_affinity.as_ref()?;
    let is_ours = selector.api_version == api::API_VERSION
        && selector.kind == "WorkloadDeployment"
        && selector.name.is_none()
        && only_city(affinity.label_selector.as_ref()?) == Some(city);
    is_ours.then_some(city)
}

fn only_city(selector: &LabelSelector) -> Option<&str> {
    let city = selector.match_labels.get(labels::CITY_CODE)?;
    (selector.match_labels.len() == 1).then_some(city)
}

/// `city-<code>` in lower case (compute.md 2.2), unless another code has that name: labels tell `DFW` and `dfw` apart.
fn new_name(city: &CityCode, taken: &BTreeSet<String>) -> String {
    names::first_free(&readable_name(city), &[city.as_str()], taken)
}

fn readable_name(city: &CityCode) -> String {
    format!("city-{}", city.name_part())
}

fn spec(namespace: &HubNamespace, city: &CityCode) -> PropagationPolicySpec {
    let has_city = || LabelSelector {
        match_labels: Keys::from([(labels::CITY_CODE.to_owned(), city.as_str().to_owned())]),
    };
    PropagationPolicySpec {
        placement: Placement {
            cluster_affinity: Some(ClusterAffinity {
                label_selector: Some(has_city()),
            }),
        },
        propagate_deps: true,
        resource_selectors: vec![ResourceSelector {
            api_version: api::API_VERSION.to_owned(),
            kind: "WorkloadDeployment".to_owned(),
            label_selector: Some(has_city()),
            name: None,
            namespace: Some(namespace.as_str().to_owned()),
        }],
    }
}

#[cfg(test)]
mod tests;
