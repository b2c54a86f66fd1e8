use kube::Resource;
use serde_json::json;

use super::*;
use crate::fixtures::{object, shared, terminating};

fn namespace() -> HubNamespace {
    HubNamespace::new("ns-1").unwrap()
}

fn plan_for(needed: &[&str], policies: &[Arc<PropagationPolicy>]) -> Plan {
    let needed = needed
        .iter()
        .map(|city| CityCode::new(*city).unwrap())
        .collect();
    plan(&Observed {
        namespace: &namespace(),
        needed: &needed,
        policies,
    })
}

fn executed(desired: &Desired) -> PropagationPolicy {
    let mut policy = PropagationPolicy::new(&desired.name, desired.spec.clone());
    policy.meta_mut().labels = Some(desired.labels.clone());
    policy
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.apply
        .iter()
        .map(|desired| desired.name.as_str())
        .collect()
}

/// A policy as the baseline left it: no labels, no namespace in the selector, no dependencies.
fn of_the_baseline(name: &str, city: &str) -> PropagationPolicy {
    let labels = json!({"matchLabels": {"topology.datum.net/city-code": city}});
    object(json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "labelSelector": labels}],
            "placement": {"clusterAffinity": {"labelSelector": labels}},
            "conflictResolution": "Abort",
        },
    }))
}

#[test]
fn a_policy_per_city_as_long_as_it_is_needed() {
    let plan = plan_for(&["DFW", "ORD"], &[]);
    assert_eq!(names(&plan), ["city-dfw", "city-ord"]);
    let policies = shared(plan.apply.iter().map(executed));
    assert_eq!(plan_for(&["DFW", "ORD"], &policies), Plan::default());
    let plan = plan_for(&["DFW"], &policies);
    let deleted: Vec<_> = plan.delete.iter().map(|policy| policy.name_any()).collect();
    assert_eq!(
        (names(&plan), deleted),
        (vec![], vec!["city-ord".to_owned()])
    );
}

#[test]
fn codes_that_differ_in_case_do_not_fight() {
    let plan = plan_for(&["DFW", "dfw"], &[]);
    let found = names(&plan);
    assert_eq!(found[0], "city-dfw");
    assert!(found[1].starts_with("city-dfw-"), "{found:?}");
    let policies = shared(plan.apply.iter().map(executed));
    assert_eq!(plan_for(&["DFW", "dfw"], &policies), Plan::default());
    // The one that stays keeps its name.
    assert_eq!(names(&plan_for(&["dfw"], &policies)), Vec::<&str>::new());
    // A name belongs to the code whose policy holds it, not to the first by order.
    let held = shared([of_the_baseline("city-dfw", "dfw")]);
    assert_eq!(plan_for(&["DFW", "dfw"], &held).apply.len(), 2);
    let plan = plan_for(&["DFW", "dfw"], &held);
    assert_eq!(
        plan.apply
            .iter()
            .find(|d| d.existing.is_some())
            .unwrap()
            .name,
        "city-dfw"
    );
}

#[test]
fn a_policy_of_the_baseline_is_taken_over_in_place() {
    let plan = plan_for(&["DFW"], &shared([of_the_baseline("city-dfw", "DFW")]));
    assert_eq!(names(&plan), ["city-dfw"]);
    assert!(
        plan.apply[0].existing.is_some()
            && plan.apply[0].spec.propagate_deps
            && plan.delete.is_empty()
    );
}

#[test]
fn drift_is_repaired_and_a_policy_that_is_going_is_waited_for() {
    let mut policy = executed(&plan_for(&["DFW"], &[]).apply[0]);
    policy.spec.propagate_deps = false;
    policy.spec.resource_selectors.clear();
    assert_eq!(
        names(&plan_for(&["DFW"], &shared([policy.clone()]))),
        ["city-dfw"]
    );
    assert_eq!(
        plan_for(&["DFW"], &shared([terminating(policy)])),
        Plan::default()
    );
}

#[test]
fn policies_of_others_are_left_alone() {
    let mut wider = of_the_baseline("city-dfw", "DFW");
    wider.spec.resource_selectors.push(ResourceSelector {
        kind: "ConfigMap".into(),
        ..ResourceSelector::default()
    });
    let mut elsewhere = of_the_baseline("mine", "DFW");
    elsewhere.spec.placement = Placement::default();
    let of_the_same_form = of_the_baseline("big", "DFW");
    let others = shared([wider.clone(), elsewhere, of_the_same_form]);
    assert_eq!(names(&plan_for(&["DFW"], &others)).len(), 1);
    let plan = plan_for(&[], &others);
    assert_eq!(plan, Plan::default());
    // Its name is not taken from it either.
    let plan = plan_for(&["DFW"], &shared([wider]));
    assert!(names(&plan)[0].starts_with("city-dfw-"), "{plan:?}");
}

#[test]
fn a_name_is_found_however_many_are_taken() {
    let mut others = Vec::new();
    for _ in 0..4 {
        let name = names(&plan_for(&["DFW"], &shared(others.clone())))[0].to_owned();
        assert!(
            others
                .iter()
                .all(|other: &PropagationPolicy| other.name_any() != name)
        );
        let mut other = of_the_baseline(&name, "DFW");
        other.spec.placement = Placement::default();
        others.push(other);
    }
}
