//! Tests of Workloads in a project with missing cities or Networks.

use api::condition::Condition;

use super::*;

fn offering(cities: &[&'static str]) -> ProjectFixture {
    ProjectFixture {
        cities: Ok(cities.to_vec()),
        ..ProjectFixture::default()
    }
}

fn with_networks(networks: &[&'static str]) -> ProjectFixture {
    ProjectFixture {
        networks: Ok(networks.to_vec()),
        ..ProjectFixture::default()
    }
}

/// Returns two projects. The cities of one project are unknown, and the Networks of the other. Each has the reason.
fn unknown() -> [ProjectFixture; 2] {
    let cities = ProjectFixture {
        cities: Err("bindings are not known"),
        ..ProjectFixture::default()
    };
    let networks = ProjectFixture {
        networks: Err("networks are not known"),
        ..ProjectFixture::default()
    };
    [cities, networks]
}

fn placement(plan: &Plan, index: usize) -> Condition {
    plan.status.as_ref().unwrap().placements[index].conditions[0].clone()
}

/// Returns a Workload and its WorkloadDeployments. The WorkloadDeployments are available and need no change.
fn settled(placements: &[(&str, &[&str])]) -> (Workload, Vec<Arc<WorkloadDeployment>>) {
    let mut workload = workload(placements);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let deployments = shared(deployments.iter().map(|it| ready(it, true)));
    workload.status = plan_for(&workload, &deployments).status;
    assert_eq!(plan_for(&workload, &deployments), Plan::default());
    (workload, deployments)
}

#[test]
fn a_missing_city_is_named_and_used_once_offered() {
    let mut workload = workload(&[("us", &["DFW", "AMS", "SIN"]), ("eu", &["LHR"])]);
    let world = offering(&["DFW"]);
    let plan = world.plan(&workload, &[]);
    assert_eq!(names(&plan), ["web-us-dfw"]);
    let deployments = executed(&workload, &plan);
    let deployments = shared([ready(&deployments[0], true)]);
    let plan = world.plan(&workload, &deployments);
    assert_eq!(
        placement(&plan, 0).message,
        "web-us-dfw is available; no deployment in AMS, SIN: the project has no usable LocationBinding there"
    );
    let eu = placement(&plan, 1);
    assert_eq!(
        (eu.reason.as_str(), eu.message.as_str()),
        (
            "NoAvailableDeployments",
            "no deployment in LHR: the project has no usable LocationBinding there"
        )
    );
    // The generation is observed, because the plan contains all possible actions.
    assert_eq!(eu.observed_generation, Some(3));
    workload.status = plan.status;
    assert_eq!(world.plan(&workload, &deployments), Plan::default());

    let plan = offering(&["DFW", "SIN", "LHR"]).plan(&workload, &deployments);
    assert_eq!(names(&plan), ["web-us-sin", "web-eu-lhr"]);
    assert_eq!(plan.delete, []);
}

#[test]
fn lost_or_unknown_needs_do_not_touch_running_deployments() {
    let (mut workload, deployments) = settled(&[("us", &["DFW", "ORD"])]);
    for world in unknown().into_iter().chain([offering(&[])]) {
        assert_eq!(world.plan(&workload, &deployments), Plan::default());
    }
    // Changes of the Workload still reach the WorkloadDeployment.
    workload.spec.placements[0].scale_settings.min_replicas = 5;
    workload.spec.placements[0].city_codes.pop();
    for world in unknown().into_iter().chain([offering(&[])]) {
        let plan = world.plan(&workload, &deployments);
        assert_eq!((names(&plan), plan.delete.len()), (vec!["web-us-dfw"], 1));
    }
    // The plan does not create a deleted WorkloadDeployment again.
    let gone = shared([terminating(deployments[0].as_ref().clone())]);
    for deployments in [gone.as_slice(), &[]] {
        assert_eq!(names(&offering(&[]).plan(&workload, deployments)), [""; 0]);
    }
}

#[test]
fn unknown_needs_hold_new_placements_and_are_reported() {
    let workload = workload(&[("us", &["DFW", "ORD"])]);
    let existing = executed(&workload, &plan_for(&workload, &[])).remove(0);
    let existing = shared([ready(&existing, false)]);
    for (world, why) in unknown()
        .into_iter()
        .zip(["bindings are not known", "networks are not known"])
    {
        let plan = world.plan(&workload, &existing);
        assert_eq!((names(&plan), plan.delete.len()), (vec![], 0));
        let us = placement(&plan, 0);
        assert_eq!(
            us.message,
            format!("web-us-dfw: Because: m; no deployment in ORD: {why}")
        );
        // The change is not applied yet, so the generation is not observed.
        assert_eq!(us.observed_generation, None);
        let plan = world.plan(&workload, &[]);
        assert_eq!(
            plan.status.unwrap().conditions[0].message,
            format!("placement us: no deployment in DFW, ORD: {why}")
        );
    }
}

#[test]
fn networks_that_do_not_exist_are_listed_in_order_and_hold_everything() {
    let (mut workload, mut deployments) = settled(&[("us", &["DFW", "ORD"])]);
    let interface = workload.spec.template.spec.network_interfaces[0].clone();
    let on = |name: &str| {
        let mut interface = interface.clone();
        interface.network.name = name.to_owned();
        interface.network.namespace = Some("elsewhere".to_owned());
        interface
    };
    let interfaces = ["zeta", "default", "alpha", "zeta"];
    workload.spec.template.spec.network_interfaces = interfaces.map(on).to_vec();
    workload.spec.placements[0].city_codes = vec!["ORD".into(), "LHR".into()];
    workload.meta_mut().generation = Some(4);
    for (networks, message) in [
        (
            vec!["default", "alpha"],
            "Network default/zeta does not exist",
        ),
        (
            vec!["default"],
            "Networks default/zeta, default/alpha do not exist",
        ),
    ] {
        let world = with_networks(&networks);
        let plan = world.plan(&workload, &deployments);
        assert_eq!((plan.apply.len(), plan.delete.len()), (0, 0));
        let status = plan.status.clone().unwrap();
        assert_eq!(status.ready_replicas, 4);
        let available = &status.conditions[0];
        assert_eq!(
            (available.status, available.reason.as_str()),
            (ConditionStatus::False, "NetworkNotFound")
        );
        assert_eq!(available.message, message);
        assert_eq!(available.observed_generation, Some(4));
        let us = placement(&plan, 0);
        assert!(us.is_true(), "{us:?}");
        assert!(
            us.message
                .ends_with(&format!("no deployment in LHR: {message}"))
        );
        assert_eq!(us.observed_generation, Some(3));

        // While the Networks are unknown, the plan keeps the former condition.
        workload.status = Some(status);
        assert_eq!(world.plan(&workload, &deployments), Plan::default());
        let [_, not_known] = unknown();
        let plan = not_known.plan(&workload, &deployments);
        assert_eq!((plan.apply.len(), plan.delete.len()), (0, 0));
        let conditions = plan.status.unwrap().conditions;
        assert_eq!(conditions, workload.status.as_ref().unwrap().conditions);
    }
    let world = with_networks(&["alpha", "default", "zeta"]);
    let plan = world.plan(&workload, &deployments);
    assert_eq!(names(&plan), ["web-us-ord", "web-us-lhr"]);
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(
        plan.status.unwrap().conditions[0].reason,
        "AvailablePlacementFound"
    );

    // A terminating Workload needs no Networks.
    let workload = terminating(workload);
    let plan = with_networks(&[]).plan(&workload, &deployments);
    assert_eq!(plan.delete.len(), 2);
    deployments.clear();
    let plan = with_networks(&[]).plan(&workload, &deployments);
    assert!(plan.remove_finalizer);
}

#[test]
fn known_obstacles_come_before_unknown_ones() {
    let workload = workload(&[("us", &["DFW", "ORD"])]);
    let [no_cities, no_networks] = unknown();
    let (not_offered, missing) = (
        "the project has no usable LocationBinding there",
        "Network default/default does not exist",
    );
    for (cities, networks, dfw, ord) in [
        (Ok(vec!["DFW"]), Ok(vec![]), missing, not_offered),
        (
            Ok(vec!["DFW"]),
            no_networks.networks,
            "networks are not known",
            not_offered,
        ),
        (no_cities.cities.clone(), Ok(vec![]), missing, missing),
        (
            no_cities.cities,
            Err("n"),
            "bindings are not known",
            "bindings are not known",
        ),
    ] {
        let world = ProjectFixture {
            cities,
            networks,
            ..ProjectFixture::default()
        };
        let message = placement(&world.plan(&workload, &[]), 0).message;
        let expected = match dfw == ord {
            true => format!("no deployment in DFW, ORD: {dfw}"),
            false => format!("no deployment in DFW: {dfw}; no deployment in ORD: {ord}"),
        };
        assert_eq!(message, expected);
    }
}

#[test]
fn many_missing_cities_are_counted() {
    let cities: Vec<_> = (0..40).map(|city| format!("C{city}")).collect();
    let cities: Vec<_> = cities.iter().map(String::as_str).collect();
    let message = placement(&offering(&[]).plan(&workload(&[("us", &cities)]), &[]), 0).message;
    assert!(
        message.starts_with("no deployment in C0, C1, "),
        "{message}"
    );
    assert!(message.contains("C15 and 24 more: "), "{message}");
}
