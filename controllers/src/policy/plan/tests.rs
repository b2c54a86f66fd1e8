mod under_lock;

use api::{WorkloadDeployment, annotations};
use kube::Resource;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, object, shared, terminating};

fn namespace() -> HubNamespace {
    HubNamespace::new("ns-1").unwrap()
}

fn cities(codes: &[&str]) -> BTreeSet<CityCode> {
    let codes = codes.iter().map(|code| CityCode::new(*code).unwrap());
    codes.collect()
}

fn plan_for(needed: &[&str], policies: &[Arc<PropagationPolicy>]) -> Plan {
    plan_with(needed, &[], &[], policies)
}

/// Plans for a hub namespace. `needed` are the cities that need a policy. A policy of a city in `kept` stays.
/// `claiming` are the names of the policies that have claimed objects.
fn plan_with(
    needed: &[&str],
    kept: &[&str],
    claiming: &[&str],
    policies: &[Arc<PropagationPolicy>],
) -> Plan {
    plan(&Observed {
        needed: cities(needed),
        kept: cities(kept),
        claiming: claiming.iter().map(|name| (*name).to_owned()).collect(),
        ..Observed::new(&namespace(), policies.to_vec(), Vec::new(), true)
    })
}

fn deleted(plan: &Plan) -> Vec<String> {
    let deleted = plan.delete.iter();
    deleted.map(|it| it.policy.name_any()).collect()
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

/// Returns a policy as the Go manager creates it: without labels, without a namespace in the selector, and without
/// dependencies.
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
    assert_eq!(
        (names(&plan), deleted(&plan)),
        (vec![], vec!["city-ord".to_owned()])
    );
}

/// I-18: a Secret that two cities need belongs to no policy. Karmada propagates it with each WorkloadDeployment.
#[test]
fn a_policy_selects_deployments_only_and_propagates_what_they_need() {
    let policy = executed(&plan_for(&["DFW"], &[]).apply[0]);
    let city = json!({"matchLabels": {labels::CITY_CODE: "DFW"}});
    assert_eq!(
        json!(policy.spec),
        json!({
            "placement": {
                "clusterAffinity": {"labelSelector": city},
                "clusterTolerations": [
                    {"key": "cluster.karmada.io/not-ready", "operator": "Exists"},
                    {"key": "cluster.karmada.io/unreachable", "operator": "Exists"},
                ],
            },
            "propagateDeps": true,
            "resourceSelectors": [{
                "apiVersion": "compute.datumapis.com/v1alpha",
                "kind": "WorkloadDeployment",
                "labelSelector": city,
                "namespace": namespace().as_str(),
            }],
        })
    );
}

#[test]
fn city_codes_that_differ_in_case_have_separate_policies() {
    let plan = plan_for(&["DFW", "dfw"], &[]);
    let found = names(&plan);
    assert_eq!(found[0], "city-dfw");
    assert!(found[1].starts_with("city-dfw-"), "{found:?}");
    let policies = shared(plan.apply.iter().map(executed));
    assert_eq!(plan_for(&["DFW", "dfw"], &policies), Plan::default());
    // One city is gone. The remaining policy keeps its name.
    assert_eq!(names(&plan_for(&["dfw"], &policies)), Vec::<&str>::new());
    // If a policy already has a name, the name belongs to the city of this policy, not to the first city in order.
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
fn a_policy_of_the_go_manager_is_adopted_in_place() {
    let plan = plan_for(&["DFW"], &shared([of_the_baseline("city-dfw", "DFW")]));
    assert_eq!(names(&plan), ["city-dfw"]);
    assert!(
        plan.apply[0].existing.is_some()
            && plan.apply[0].spec.propagate_deps
            && plan.delete.is_empty()
    );
}

#[test]
fn drift_is_repaired_and_a_terminating_policy_awaited() {
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
fn policies_of_other_writers_are_not_touched() {
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
    // A policy of another writer keeps its name, so our policy gets another name.
    let plan = plan_for(&["DFW"], &shared([wider]));
    assert!(names(&plan)[0].starts_with("city-dfw-"), "{plan:?}");
}

#[test]
fn a_free_name_is_found_when_many_are_taken() {
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

/// I-17: a policy stays while Karmada has an object of it.
#[test]
fn a_policy_stays_until_the_last_deployment_is_gone() {
    let policies = shared(plan_for(&["DFW"], &[]).apply.iter().map(executed));
    assert_eq!(deleted(&plan_for(&[], &policies)), ["city-dfw"]);
    // The policy stays while the project still has a WorkloadDeployment, or while the policy has claimed an object.
    assert_eq!(plan_with(&[], &["DFW"], &[], &policies), Plan::default());
    assert_eq!(
        plan_with(&[], &[], &["city-dfw"], &policies),
        Plan::default()
    );
    // These two reasons keep a policy, but they do not create a policy.
    assert_eq!(
        plan_with(&[], &["DFW"], &["city-dfw"], &[]),
        Plan::default()
    );
}

/// Returns two of our policies for the same city.
fn twins() -> Vec<Arc<PropagationPolicy>> {
    let first = executed(&plan_for(&["DFW"], &[]).apply[0]);
    let mut second = first.clone();
    second.meta_mut().name = Some(names::derived("city-dfw", &["DFW"]).nth(1).unwrap());
    shared([second, first])
}

#[test]
fn the_policy_that_karmada_prefers_stays() {
    let twins = twins();
    let second = twins[0].name_any();
    for kept in [vec!["DFW"], vec![]] {
        let plan = plan_with(&kept, &kept, &["city-dfw"], &twins);
        assert_eq!((deleted(&plan), plan.apply), (vec![second.clone()], vec![]));
        assert!(plan.delete[0].is_surplus);
    }
    assert_eq!(
        plan_with(&["DFW"], &[], &[&second], &twins),
        Plan::default()
    );
    // The plan keeps and repairs a policy with claimed objects.
    let mut drifted = twins[0].as_ref().clone();
    drifted.spec.propagate_deps = false;
    let drifted = [Arc::new(drifted), Arc::clone(&twins[1])];
    let plan = plan_with(&["DFW"], &[], &[&second], &drifted);
    assert_eq!((names(&plan), deleted(&plan)), (vec![&*second], vec![]));
    // A terminating policy does not keep another policy, and does not cause a new one.
    let going = [
        Arc::new(terminating(twins[1].as_ref().clone())),
        Arc::clone(&twins[0]),
    ];
    assert_eq!(plan_for(&["DFW"], &going), Plan::default());
}

#[test]
fn additions_that_change_placement_are_drift_and_karmadas_defaults_are_not() {
    let as_made = executed(&plan_for(&["DFW"], &[]).apply[0]);
    let edited = |path: &str, value: Value| {
        let mut edited = json!(as_made);
        let (parent, field) = path.rsplit_once('/').unwrap();
        edited.pointer_mut(parent).unwrap()[field] = value;
        plan_for(&["DFW"], &shared([object(edited)]))
    };
    let selector = "/spec/resourceSelectors/0";
    for (path, value) in [
        ("/spec/propagateDeps", json!(false)),
        (
            "/spec/placement/spreadConstraints",
            json!([{"maxGroups": 1}]),
        ),
        (
            "/spec/placement/replicaScheduling",
            json!({"replicaSchedulingType": "Divided"}),
        ),
        ("/spec/placement/clusterTolerations", json!([])),
        (
            "/spec/placement/clusterTolerations/0/tolerationSeconds",
            json!(300),
        ),
        (
            "/spec/placement/clusterAffinity/clusterNames",
            json!(["dfw1"]),
        ),
        (
            "/spec/placement/clusterAffinity/labelSelector/matchExpressions",
            json!([]),
        ),
        (
            &format!("{selector}/labelSelector/matchExpressions"),
            json!([]),
        ),
        (
            &format!("{selector}/labelSelector/matchLabels"),
            json!({labels::CITY_CODE: "ORD"}),
        ),
        (&format!("{selector}/name"), json!("web")),
        (&format!("{selector}/namespace"), json!("ns-2")),
        (
            "/metadata/labels",
            json!({MANAGED_BY.0: MANAGED_BY.1, labels::CITY_CODE: "ORD"}),
        ),
        ("/metadata/labels", json!({})),
    ] {
        let plan = edited(path, value.clone());
        assert_eq!(
            (names(&plan), deleted(&plan)),
            (vec!["city-dfw"], vec![]),
            "{path} {value}"
        );
        assert!(plan.apply[0].existing.is_some());
    }
    for (field, value) in [
        ("conflictResolution", json!("Abort")),
        ("preemption", json!("Never")),
        ("priority", json!(0)),
        ("schedulerName", json!("default-scheduler")),
        ("suspension", json!({"dispatching": true})),
    ] {
        assert_eq!(
            edited(&format!("/spec/{field}"), value),
            Plan::default(),
            "{field}"
        );
    }
}

#[test]
fn an_undecodable_policy_blocks_only_its_city() {
    let as_made = executed(&plan_for(&["DFW"], &[]).apply[0]);
    let unreadable = vec![as_made.meta().clone()];
    let plan = plan(&Observed {
        needed: cities(&["DFW", "ORD", "dfw"]),
        ..Observed::new(&namespace(), Vec::new(), unreadable, true)
    });
    let found = names(&plan);
    assert_eq!(found[0], "city-ord");
    assert!(
        found[1].starts_with("city-dfw-") && found.len() == 2,
        "{found:?}"
    );
}

#[test]
fn a_policy_serves_a_city_only_if_it_is_ours_live_and_selects_it() {
    let city = CityCode::new("DFW").unwrap();
    let as_made = executed(&plan_for(&["DFW"], &[]).apply[0]);
    assert!(serves(&as_made, &city) && serves(&of_the_baseline("city-dfw", "DFW"), &city));
    let mut drifted = as_made.clone();
    drifted.spec.resource_selectors.clear();
    for other in [
        drifted,
        terminating(as_made.clone()),
        of_the_baseline("big", "DFW"),
    ] {
        assert!(!serves(&other, &city), "{other:?}");
    }
    assert!(!serves(&as_made, &CityCode::new("dfw").unwrap()));
}

#[test]
fn nothing_is_deleted_on_incomplete_observations() {
    let policies = shared(plan_for(&["DFW"], &[]).apply.iter().map(executed));
    let with = |needed: &[&str], is_complete| {
        plan(&Observed {
            needed: cities(needed),
            ..Observed::new(&namespace(), policies.clone(), Vec::new(), is_complete)
        })
    };
    assert_eq!(deleted(&with(&[], true)), ["city-dfw"]);
    let plan = with(&["ORD"], false);
    assert_eq!(
        (names(&plan), deleted(&plan), plan.holds),
        (vec!["city-ord"], vec![], true)
    );
    assert!(!with(&["DFW"], false).holds);
}

#[test]
fn a_deployment_keeps_its_policy_until_it_is_gone_and_needs_it_once_it_is_recorded() {
    let seen = |deployment: &WorkloadDeployment| {
        let mut observed = Observed::new(&namespace(), Vec::new(), Vec::new(), true);
        observed.add_upstream(deployment);
        (observed.needed.len(), observed.kept.len())
    };
    let record = |namespace: &str| {
        let mut recorded = deployment("default", "web-us-dfw", "DFW", 1);
        recorded
            .annotations_mut()
            .insert(annotations::FEDERATION_NAMESPACE.into(), namespace.into());
        recorded
    };
    assert_eq!(seen(&deployment("default", "web-us-dfw", "DFW", 1)), (0, 1));
    assert_eq!(seen(&record("ns-1")), (1, 1));
    assert_eq!(seen(&terminating(record("ns-1"))), (0, 1));
    assert_eq!(seen(&record("ns-2")), (0, 0));
    assert_eq!(seen(&deployment("default", "web", "New York", 1)), (0, 0));
}

#[test]
fn a_labelled_or_claimed_copy_keeps_the_policy() {
    let seen = |metadata: Value| {
        let mut observed = Observed::new(&namespace(), Vec::new(), Vec::new(), true);
        observed.add_copy(&object(metadata));
        (observed.needed.len(), observed.claiming.into_iter().next())
    };
    assert_eq!(
        seen(json!({"labels": {labels::CITY_CODE: "DFW"}})),
        (1, None)
    );
    assert_eq!(seen(json!({"labels": {labels::CITY_CODE: ""}})), (0, None));
    let claimed = json!({"annotations": {annotations::POLICY_NAME: "city-dfw"}});
    assert_eq!(seen(claimed), (0, Some("city-dfw".to_owned())));
}
