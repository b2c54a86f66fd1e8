//! Which PropagationPolicies a hub namespace needs: one per city, until the last WorkloadDeployment of the city is gone.

pub(crate) mod kinds;
mod observed;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::karmada::PropagationPolicy;
use api::karmada::policy::{
    ClusterAffinity, LabelSelector, Others, Placement, PropagationPolicySpec, ResourceSelector,
};
use api::{CityCode, HubNamespace, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::names;
use crate::objects::{MANAGED_BY, StringMap, covers, is_managed, is_terminating};
pub(crate) use observed::{Observed, claimed_for, of_copy, of_upstream};

/// How many of a city's derived names are known as ours. More are never taken.
const NAMES: usize = 8;

/// What must be done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) apply: Vec<Desired>,
    pub(crate) delete: Vec<Unneeded>,
    /// Something would have to be deleted, were it known that nothing goes by it.
    pub(crate) holds: bool,
}

/// A policy as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    /// The policy as it is, if there is one.
    pub(crate) existing: Option<Arc<PropagationPolicy>>,
    pub(crate) name: String,
    pub(crate) labels: StringMap,
    pub(crate) spec: PropagationPolicySpec,
}

/// A policy that may go, as far as is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unneeded {
    pub(crate) policy: Arc<PropagationPolicy>,
    pub(crate) city: CityCode,
    /// Another policy of ours is for the same city, and what is there of that city is the other's.
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
        // An apply on a policy that is terminating succeeds and is lost: its end is waited for. So is that someone mends one
        // that cannot be read.
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

/// Whether a policy that was found unneeded is so still. Called under the lock of its city, with fresh observations.
pub(crate) fn is_still_unneeded(observed: &Observed, planned: &Unneeded) -> bool {
    let mut policies = observed.policies.iter();
    observed.is_complete
        && policies.any(|policy| unneeded(observed, policy).as_ref() == Some(planned))
}

/// Those of our policies of a city that stay: the first by name, which Karmada prefers for what no policy has claimed yet,
/// and each that has claimed something.
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

/// The city that one of our policies is for, also where someone has edited its labels or its spec: the name cannot be
/// edited. `None` for policies of others, which are never touched.
fn city_of(policy: &PropagationPolicy) -> Option<CityCode> {
    let labelled = labelled_city(policy.meta());
    let selected = selected_city(policy).and_then(|city| CityCode::new(city).ok());
    let is_named_after = |city: &CityCode| {
        let (readable, parts) = (readable_name(city), [city.as_str()]);
        let mut names = names::derived(&readable, &parts).take(NAMES);
        names.any(|name| name == policy.name_any())
    };
    if !is_managed(policy.meta()) {
        // The baseline's policies have no labels: they are known by their name and their form.
        return selected.filter(is_named_after);
    }
    let said = || [&labelled, &selected].into_iter().flatten();
    let named = said().find(|city| is_named_after(city));
    named.or_else(|| said().next()).cloned()
}

/// Whether the policy is ours and live, and carries what is of this city: a copy that is made now finds it.
pub(crate) fn serves(policy: &PropagationPolicy, city: &CityCode) -> bool {
    is_of(policy, city) && !is_terminating(policy) && selected_city(policy) == Some(city.as_str())
}

/// The city code, if the policy carries what has it to the cells that have it, and nothing else.
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

/// `city-<code>` in lower case (compute.md 2.2), unless another code has that name: labels tell `DFW` and `dfw` apart.
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
        others: Others::new(),
    };
    PropagationPolicySpec {
        placement: Placement {
            cluster_affinity: Some(ClusterAffinity {
                label_selector: Some(has_city()),
                others: Others::new(),
            }),
            others: Others::new(),
        },
        propagate_deps: true,
        resource_selectors: vec![ResourceSelector {
            api_version: api::API_VERSION.to_owned(),
            kind: "WorkloadDeployment".to_owned(),
            label_selector: Some(has_city()),
            name: None,
            namespace: Some(namespace.as_str().to_owned()),
            others: Others::new(),
        }],
    }
}

#[cfg(test)]
mod tests;
