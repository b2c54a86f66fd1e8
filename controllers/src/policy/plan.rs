//! Decides which PropagationPolicies a hub namespace needs. Each city needs one policy until the last
//! WorkloadDeployment of the city is gone.

pub(crate) mod kinds;
mod observed;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::karmada::policy::{
    ClusterAffinity, ClusterToleration, LabelSelector, Placement, PropagationPolicySpec,
    ResourceSelector,
};
use api::karmada::{PropagationPolicy, TAINTS_OF_ABSENCE};
use api::{CityCode, HubNamespace, UnknownFields, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::names;
use crate::objects::{MANAGED_BY, StringMap, covers, is_managed, is_terminating};
pub(crate) use observed::{Observed, claimed_for, of_copy, of_upstream};

/// How many derived names of a city are recognized as ours. A new policy takes the first free name, so in practice it
/// takes one of these names.
const NAMES: usize = 8;

/// The policies to write and to delete.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) apply: Vec<Desired>,
    pub(crate) delete: Vec<Unneeded>,
    /// True if a policy would be deleted but an object may still use the policy.
    pub(crate) holds: bool,
}

/// The desired policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    /// The current policy, if it exists.
    pub(crate) existing: Option<Arc<PropagationPolicy>>,
    pub(crate) city: CityCode,
    pub(crate) name: String,
    pub(crate) labels: StringMap,
    pub(crate) spec: PropagationPolicySpec,
}

/// A policy that may be deleted according to caches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unneeded {
    pub(crate) policy: Arc<PropagationPolicy>,
    pub(crate) city: CityCode,
    /// True if another of our policies is for the same city and binds the objects of the city.
    pub(crate) is_surplus: bool,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let Observed {
        policies,
        unreadable,
        ..
    } = observed;
    let metadata = policies.iter().map(|policy| policy.meta());
    let names = metadata.chain(unreadable).filter_map(|it| it.name.clone());
    let mut taken: BTreeSet<String> = names.collect();
    let mut plan = Plan::default();
    for city in &observed.needed {
        // The API server accepts an apply to a terminating policy and then deletes the policy, so the controller waits
        // for the deletion. An undecodable policy must first be repaired or deleted by an administrator.
        let is_waited_for = policies.iter().any(|policy| is_of(policy, city))
            || unreadable
                .iter()
                .any(|metadata| is_labelled(metadata, city));
        let staying = staying(observed, city);
        if staying.is_empty() && !is_waited_for {
            let name = new_name(city, &taken);
            taken.insert(name.clone());
            plan.apply.push(desired(&observed.namespace, city, name));
        }
        let drifted = staying.into_iter().filter_map(|existing| {
            let desired = Desired {
                existing: Some(Arc::clone(existing)),
                ..desired(&observed.namespace, city, existing.name_any())
            };
            let is_as_desired =
                existing.spec == desired.spec && covers(existing.labels(), &desired.labels);
            (!is_as_desired).then_some(desired)
        });
        plan.apply.extend(drifted);
    }
    let unneeded = policies
        .iter()
        .filter_map(|policy| unneeded(observed, policy));
    if observed.is_complete {
        plan.delete = unneeded.collect();
    } else {
        plan.holds = unneeded.count() > 0;
    }
    plan
}

/// Returns whether a policy that was unneeded in the plan is still unneeded. Call it under the lock of the city. The
/// observations must have been made under the lock too.
pub(crate) fn is_still_unneeded(observed: &Observed, planned: &Unneeded) -> bool {
    let mut policies = observed.policies.iter();
    observed.is_complete
        && policies.any(|policy| unneeded(observed, policy).as_ref() == Some(planned))
}

/// Returns our policies of a city that are kept. They are the first policy by name, because Karmada prefers it for
/// unclaimed objects, and every policy that has claimed an object.
fn staying<'a>(observed: &'a Observed, city: &CityCode) -> Vec<&'a Arc<PropagationPolicy>> {
    let live = observed
        .policies
        .iter()
        .filter(|policy| !is_terminating(policy.as_ref()) && is_of(policy, city));
    let mut live: Vec<_> = live.collect();
    live.sort_by_key(|policy| policy.name_any());
    let mut is_first = true;
    live.retain(|policy| {
        std::mem::take(&mut is_first) || observed.claiming.contains(&policy.name_any())
    });
    live
}

fn unneeded(observed: &Observed, policy: &Arc<PropagationPolicy>) -> Option<Unneeded> {
    let city = city_of(policy)?;
    if is_terminating(policy.as_ref()) || observed.claiming.contains(&policy.name_any()) {
        return None;
    }
    let is_surplus = !staying(observed, &city)
        .iter()
        .any(|staying| staying.name_any() == policy.name_any());
    let is_needed = observed.needed.contains(&city) || observed.kept.contains(&city);
    (is_surplus || !is_needed).then(|| Unneeded {
        policy: Arc::clone(policy),
        city,
        is_surplus,
    })
}

fn desired(namespace: &HubNamespace, city: &CityCode, name: String) -> Desired {
    Desired {
        existing: None,
        city: city.clone(),
        name,
        labels: StringMap::from([
            (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned()),
            (labels::CITY_CODE.to_owned(), city.as_str().to_owned()),
        ]),
        spec: spec(namespace, city),
    }
}

fn is_labelled(policy: &ObjectMeta, city: &CityCode) -> bool {
    is_managed(policy) && labelled_city(policy).as_ref() == Some(city)
}

fn labelled_city(policy: &ObjectMeta) -> Option<CityCode> {
    let label = policy.labels.as_ref()?.get(labels::CITY_CODE)?;
    CityCode::new(label.as_str()).ok()
}

fn is_of(policy: &PropagationPolicy, city: &CityCode) -> bool {
    city_of(policy).as_ref() == Some(city)
}

/// Returns the city of one of our policies. Labels and spec may have been edited, but the name cannot be edited.
/// Returns `None` for policies of other writers. The controller never changes those.
fn city_of(policy: &PropagationPolicy) -> Option<CityCode> {
    let labelled = labelled_city(policy.meta());
    let selected = selected_city(policy).and_then(|city| CityCode::new(city).ok());
    let is_named_after = |city: &CityCode| {
        let (readable, parts) = (readable_name(city), [city.as_str()]);
        let mut names = names::derived(&readable, &parts).take(NAMES);
        names.any(|name| name == policy.name_any())
    };
    if !is_managed(policy.meta()) {
        // Policies of the Go manager have no labels. Their name and spec identify them.
        return selected.filter(is_named_after);
    }
    let cities = || [&labelled, &selected].into_iter().flatten();
    let named = cities().find(|city| is_named_after(city));
    named.or_else(|| cities().next()).cloned()
}

/// Returns whether the policy is ours, is not terminating, and selects this city. Such a policy binds a copy that is
/// created now.
pub(crate) fn serves(policy: &PropagationPolicy, city: &CityCode) -> bool {
    is_of(policy, city) && !is_terminating(policy) && selected_city(policy) == Some(city.as_str())
}

/// Returns the city code if the policy selects exactly the WorkloadDeployments of the city and places them in exactly
/// the cells of the city.
pub(crate) fn selected_city(policy: &PropagationPolicy) -> Option<&str> {
    let [selector] = policy.spec.resource_selectors.as_slice() else {
        return None;
    };
    let city = only_city(selector.label_selector.as_ref()?)?;
    let affinity = policy.spec.placement.cluster_affinity.as_ref()?;
    let is_ours = selector.api_version == api::API_VERSION
        && selector.kind == "WorkloadDeployment"
        && selector.name.is_none()
        && selector.others.is_empty()
        && affinity.others.is_empty()
        && only_city(affinity.label_selector.as_ref()?) == Some(city);
    is_ours.then_some(city)
}

fn only_city(selector: &LabelSelector) -> Option<&str> {
    let city = selector.match_labels.get(labels::CITY_CODE)?;
    (selector.match_labels.len() == 1 && selector.others.is_empty()).then_some(city)
}

/// Returns `city-<code>` in lower case (docs/concepts/identity.md). If another city has this name, a hash is appended.
/// For example, `DFW` and `dfw` are different cities.
fn new_name(city: &CityCode, taken: &BTreeSet<String>) -> String {
    names::first_free(&readable_name(city), &[city.as_str()], |name| {
        taken.contains(name)
    })
}

fn readable_name(city: &CityCode) -> String {
    format!("city-{}", city.name_part())
}

fn spec(namespace: &HubNamespace, city: &CityCode) -> PropagationPolicySpec {
    let has_city = || LabelSelector {
        match_labels: StringMap::from([(labels::CITY_CODE.to_owned(), city.as_str().to_owned())]),
        others: UnknownFields::default(),
    };
    PropagationPolicySpec {
        placement: Placement {
            cluster_affinity: Some(ClusterAffinity {
                label_selector: Some(has_city()),
                others: UnknownFields::default(),
            }),
            // A cell without a connection gets new objects when it returns, and keeps those that it has.
            cluster_tolerations: TAINTS_OF_ABSENCE.map(ClusterToleration::of).to_vec(),
            others: UnknownFields::default(),
        },
        propagate_deps: true,
        resource_selectors: vec![ResourceSelector {
            api_version: api::API_VERSION.to_owned(),
            kind: "WorkloadDeployment".to_owned(),
            label_selector: Some(has_city()),
            name: None,
            namespace: Some(namespace.as_str().to_owned()),
            others: UnknownFields::default(),
        }],
    }
}

#[cfg(test)]
mod tests;
