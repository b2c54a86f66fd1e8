//! Tests of large Workloads: the memory and the time of a plan, and the limits.

use allocation_counter::{AllocationInfo, measure};

use super::*;

/// Returns a Workload with one placement in this number of cities. Its template has about this number of bytes.
fn large(cities: usize, template: usize) -> (Workload, ProjectFixture) {
    large_with_replicas(cities, template, 2)
}

fn large_with_replicas(
    cities: usize,
    template: usize,
    replicas: i32,
) -> (Workload, ProjectFixture) {
    let codes: Vec<_> = (0..cities).map(|city| format!("C{city}")).collect();
    let mut workload = workload(&[("us", &codes.iter().map(String::as_str).collect::<Vec<_>>())]);
    let mut spec = json!(workload.spec);
    spec["template"]["metadata"] = json!({"annotations": {"large": "a".repeat(template)}});
    spec["placements"][0]["scaleSettings"]["minReplicas"] = json!(replicas);
    workload.spec = object(spec);
    let codes = codes.into_iter().map(|code| &*code.leak());
    let world = ProjectFixture {
        cities: Ok(codes.collect()),
        ..ProjectFixture::default()
    };
    (workload, world)
}

fn planning(
    world: &ProjectFixture,
    workload: &Workload,
    own: &[Arc<WorkloadDeployment>],
) -> AllocationInfo {
    measure(|| drop(world.plan(workload, own)))
}

#[test]
fn a_plan_copies_no_template() {
    let (workload, world) = large(500, 30_000);
    let plan = world.plan(&workload, &[]);
    assert_eq!(plan.apply.len(), 500);
    let own = executed(&workload, &plan);
    for own in [&[][..], &own[..250], &own] {
        let allocated = planning(&world, &workload, own);
        // Some of the template's size is for the check of the limits.
        assert!(allocated.bytes_max < 2_000_000, "{allocated:?}");
    }
}

#[test]
fn twice_the_cities_need_about_twice_the_work() {
    let allocations = |cities: usize| {
        let (workload, world) = large(cities, 10);
        let own = executed(&workload, &world.plan(&workload, &[]));
        let half = own.len() / 2;
        let plans = [&[][..], &own[..half], &own];
        plans.map(|own| planning(&world, &workload, own).count_total)
    };
    let (once, twice) = (allocations(400), allocations(800));
    for (once, twice) in once.into_iter().zip(twice) {
        assert!(twice < once * 5 / 2, "{once} and {twice} allocations");
    }
}

#[test]
fn a_workload_beyond_the_limits_is_held_and_says_so() {
    let too_large = [
        (
            1001,
            10,
            2,
            "spec.placements: 1 placements with 1001 cities",
        ),
        (600, 30_000, 2, "spec.template: the template has 30"),
        // One deployment with too many replicas has as many Instances as the maximum.
        (30, 10_000, 1000, "spec.template: the template has 10"),
        (30, 10_000, i32::MAX, "spec.template: the template has 10"),
    ];
    for (cities, template, replicas, message) in too_large {
        let (mut workload, world) = large_with_replicas(cities, template, replicas);
        let (small, _) = large(3, 10);
        let mut own = executed(&small, &world.plan(&small, &[]));
        own = shared(own.iter().map(|it| ready(it, true)));
        let plan = world.plan(&workload, &own);
        assert_eq!((plan.apply.len(), plan.delete.len()), (0, 0));
        let status = plan.status.unwrap();
        assert_eq!((status.deployments, status.ready_replicas), (3, 6));
        assert_eq!(status.placements.len(), 1);
        let available = &status.conditions[0];
        assert_eq!(
            (available.status, available.reason.as_str()),
            (ConditionStatus::False, "WorkloadTooLarge")
        );
        assert!(available.message.starts_with(message), "{available:?}");
        assert_eq!(available.observed_generation, Some(3));
        workload.status = Some(status);
        assert_eq!(world.plan(&workload, &own), Plan::default());
        // Its deletion needs no plan for the cities.
        let plan = world.plan(&terminating(workload), &own);
        assert_eq!(plan.delete.len(), 3);
    }
    let (at_the_limit, world) = large(1000, 10);
    assert_eq!(world.plan(&at_the_limit, &[]).apply.len(), 1000);
    let (at_the_limit, world) = large_with_replicas(20, 10_000, i32::MAX);
    assert_eq!(world.plan(&at_the_limit, &[]).apply.len(), 20);

    // An autoscaler may create as many Instances as its maximum. Without a metric, there is none.
    let (mut scaled, world) = large_with_replicas(30, 10_000, 1);
    let metric = api::workload::MetricSpec::default();
    for (metrics, expected) in [(vec![], 30), (vec![metric], 0)] {
        let settings = &mut scaled.spec.placements[0].scale_settings;
        settings.max_replicas = Some(1000);
        settings.metrics = metrics;
        assert_eq!(world.plan(&scaled, &[]).apply.len(), expected);
    }
}
