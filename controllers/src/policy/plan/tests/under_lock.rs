//! Tests of the second decision about a policy. The plan has decided that the policy is unneeded. The controller then
//! decides again while it holds the lock.

use super::*;

/// A change of the observed objects between the plan and the lock.
type ObservedChange<'a> = Box<dyn Fn(&mut Observed) + 'a>;

fn observed(policies: &[Arc<PropagationPolicy>]) -> Observed {
    Observed::new(&namespace(), policies.to_vec(), Vec::new(), true)
}

fn of(city: &str) -> ObjectMeta {
    object(json!({"namespace": "ns-1", "name": "web", "labels": {labels::CITY_CODE: city}}))
}

fn claimed_by(policy: &str) -> ObjectMeta {
    let annotations = json!({annotations::POLICY_NAME: policy});
    object(json!({"namespace": "ns-1", "name": "web", "annotations": annotations}))
}

fn recorded(city: &str, hub_namespace: Option<&str>) -> WorkloadDeployment {
    let mut deployment = deployment("default", "web", city, 1);
    let recorded = hub_namespace.map(|it| (annotations::FEDERATION_NAMESPACE.into(), it.into()));
    deployment.meta_mut().annotations = Some(recorded.into_iter().collect());
    deployment
}

#[test]
fn an_unneeded_policy_is_deleted_only_if_it_is_unneeded_under_the_lock_too() {
    let [dfw, ord] = ["DFW", "ORD"].map(|city| {
        let plan = plan_for(&[city], &[]);
        Arc::new(executed(&plan.apply[0]))
    });
    let policies = [Arc::clone(&dfw), Arc::clone(&ord)];
    let planned = plan(&observed(&policies)).delete;
    assert_eq!(planned.len(), 2);
    let planned = planned.iter().find(|it| it.city.as_str() == "DFW").unwrap();

    let mut changed = dfw.as_ref().clone();
    changed.meta_mut().resource_version = Some("2".into());
    let changed = Arc::new(changed);
    let ending = Arc::new(terminating(dfw.as_ref().clone()));
    let cases: [(&str, ObservedChange<'_>, bool); 14] = [
        ("no change", Box::new(|_| {}), true),
        (
            "a copy of the city",
            Box::new(|it| it.add_copy(&of("DFW"))),
            false,
        ),
        (
            "a copy of another city",
            Box::new(|it| it.add_copy(&of("ORD"))),
            true,
        ),
        (
            "a copy claimed for the policy",
            Box::new(|it| it.add_copy(&claimed_by("city-dfw"))),
            false,
        ),
        (
            "a binding claimed for the policy",
            Box::new(|it| it.add_claim(&claimed_by("city-dfw"))),
            false,
        ),
        (
            "a binding claimed for another one",
            Box::new(|it| it.add_claim(&claimed_by("city-ord"))),
            true,
        ),
        (
            "a recorded deployment",
            Box::new(|it| it.add_upstream(&recorded("DFW", Some("ns-1")))),
            false,
        ),
        (
            "a deployment without a record",
            Box::new(|it| it.add_upstream(&recorded("DFW", None))),
            false,
        ),
        (
            "a terminating deployment",
            Box::new(|it| it.add_upstream(&terminating(recorded("DFW", Some("ns-1"))))),
            false,
        ),
        (
            "a deployment of another namespace",
            Box::new(|it| it.add_upstream(&recorded("DFW", Some("ns-2")))),
            true,
        ),
        (
            "an incomplete observation",
            Box::new(|it| it.is_complete = false),
            false,
        ),
        (
            "the policy is gone",
            Box::new(|it| it.policies.retain(|it| it.name_any() != "city-dfw")),
            false,
        ),
        (
            "the policy was changed",
            Box::new(|it| it.policies[0] = Arc::clone(&changed)),
            false,
        ),
        (
            "the policy is terminating",
            Box::new(|it| it.policies[0] = Arc::clone(&ending)),
            false,
        ),
    ];
    for (name, change, expected) in cases {
        let mut observed = observed(&policies);
        change(&mut observed);
        assert_eq!(is_still_unneeded(&observed, planned), expected, "{name}");
    }
}

#[test]
fn a_surplus_policy_is_not_deleted_once_it_is_the_only_one_of_its_city() {
    let [first, second] = ["a", "city-dfw"].map(|name| {
        let desired = &plan_for(&["DFW"], &[]).apply[0];
        Arc::new(executed(&Desired {
            name: name.to_owned(),
            ..desired.clone()
        }))
    });
    let observed = |policies: &[&Arc<PropagationPolicy>]| Observed {
        needed: cities(&["DFW"]),
        ..Observed::new(
            &namespace(),
            policies.iter().copied().cloned().collect(),
            Vec::new(),
            true,
        )
    };
    let planned = plan(&observed(&[&first, &second])).delete;
    let [surplus] = planned.as_slice() else {
        panic!("{planned:?}");
    };
    assert!(surplus.is_surplus);
    assert!(is_still_unneeded(&observed(&[&first, &second]), surplus));
    assert!(!is_still_unneeded(&observed(&[&second]), surplus));
}
