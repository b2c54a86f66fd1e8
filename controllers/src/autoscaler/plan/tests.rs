use api::annotations::{ASSIGNED_REPLICAS, CELL_RULES, CLEARED_REPLICAS};
use api::quantity::Quantity;
use api::workload::{MetricSpec, MetricTarget, ResourceMetricSource};
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerStatus,
};

use super::*;
use crate::fixtures::{self, terminating};

const CELL: ReplicasFrom = ReplicasFrom::Cell;
const HUB: ReplicasFrom = ReplicasFrom::Hub;

fn cpu(target: MetricTarget) -> MetricSpec {
    let resource = ResourceMetricSource {
        name: "cpu".to_owned(),
        target,
        ..ResourceMetricSource::default()
    };
    MetricSpec {
        resource: Some(resource),
        ..MetricSpec::default()
    }
}

fn utilization(percent: i32) -> MetricTarget {
    MetricTarget {
        average_utilization: Some(percent),
        ..MetricTarget::default()
    }
}

/// Returns a deployment that is scaled between these numbers.
fn scaled(min: i32, max: i32) -> WorkloadDeployment {
    let mut deployment = fixtures::deployment("ns-1", "web", "DFW", min);
    let settings = &mut deployment.spec.scale_settings;
    settings.max_replicas = Some(max);
    settings.metrics = vec![cpu(utilization(80))];
    deployment
}

fn with_replicas(deployment: &WorkloadDeployment, replicas: i32) -> WorkloadDeployment {
    let mut deployment = deployment.clone();
    deployment.spec.replicas = Some(replicas);
    deployment
}

/// Returns the deployment with a number in the cell. The hub's object has no number.
fn with_number_of_cell(deployment: &WorkloadDeployment, replicas: i32) -> WorkloadDeployment {
    let mut deployment = with_replicas(deployment, replicas);
    let value = r#"{"field":"spec.scaleSettings.minReplicas","generation":7,"share":2,"total":4}"#;
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.insert(ASSIGNED_REPLICAS.to_owned(), value.to_owned());
    deployment
}

/// Returns a deployment without autoscaling settings.
fn unscaled(deployment: &WorkloadDeployment) -> WorkloadDeployment {
    let mut deployment = deployment.clone();
    deployment.spec.scale_settings.metrics.clear();
    deployment
}

fn spec(deployment: &WorkloadDeployment) -> HorizontalPodAutoscalerSpec {
    match settings(deployment) {
        Settings::On(spec) => *spec,
        other => panic!("{other:?}"),
    }
}

/// Returns the autoscaler of the deployment, which wants this number.
fn autoscaler(deployment: &WorkloadDeployment, desired: i32) -> HorizontalPodAutoscaler {
    let mut autoscaler: HorizontalPodAutoscaler =
        serde_json::from_value(body(deployment, &spec(deployment))).unwrap();
    autoscaler.status = Some(HorizontalPodAutoscalerStatus {
        desired_replicas: desired,
        ..HorizontalPodAutoscalerStatus::default()
    });
    autoscaler
}

fn step(
    deployment: &WorkloadDeployment,
    autoscaler: Option<&HorizontalPodAutoscaler>,
    replicas_from: Option<ReplicasFrom>,
) -> Option<AutoscalerStep> {
    plan(&Observed {
        deployment,
        autoscaler,
        has_other_autoscaler: false,
        replicas_from,
    })
}

#[test]
fn the_autoscaler_comes_before_the_number_and_the_number_goes_before_the_autoscaler() {
    let new = scaled(2, 5);
    let ensure = Some(AutoscalerStep::Ensure(Box::new(spec(&new))));
    assert_eq!(step(&new, None, None), ensure);
    let made = autoscaler(&new, 0);
    let set = Some(AutoscalerStep::SetReplicas(2));
    assert_eq!(step(&new, Some(&made), None), set);
    let running = with_replicas(&new, 4);
    assert_eq!(step(&running, Some(&autoscaler(&new, 4)), None), None);

    // The settings are removed.
    let (off, made) = (unscaled(&running), autoscaler(&new, 4));
    let ask = Some(AutoscalerStep::AskWhoSetReplicas);
    assert_eq!(step(&off, Some(&made), None), ask);
    let clear = Some(AutoscalerStep::ClearReplicas);
    assert_eq!(step(&off, Some(&made), Some(CELL)), clear);
    let delete = Some(AutoscalerStep::Delete);
    assert_eq!(step(&unscaled(&new), Some(&made), None), delete);
    assert_eq!(step(&unscaled(&new), None, None), None);
}

/// A number that Karmada assigned is never changed, and has no autoscaler beside it.
#[test]
fn an_assigned_number_has_no_autoscaler() {
    let ask = Some(AutoscalerStep::AskWhoSetReplicas);
    let delete = Some(AutoscalerStep::Delete);
    let assigned = with_replicas(&scaled(2, 5), 3);
    let made = autoscaler(&assigned, 4);
    assert_eq!(step(&assigned, None, None), ask);
    assert_eq!(step(&assigned, None, Some(HUB)), None);
    assert_eq!(step(&assigned, Some(&made), None), ask);
    assert_eq!(step(&assigned, Some(&made), Some(HUB)), delete);
    assert_eq!(step(&unscaled(&assigned), Some(&made), Some(HUB)), delete);
    assert_eq!(step(&unscaled(&assigned), None, None), None);

    // Another program has set the number: a user through `scale`, or an autoscaler that was deleted.
    let ensure = Some(AutoscalerStep::Ensure(Box::new(spec(&assigned))));
    assert_eq!(step(&assigned, None, Some(CELL)), ensure);
    assert_eq!(step(&assigned, Some(&made), Some(CELL)), None);
}

/// Karmada wrote a number back that the cell had removed.
#[test]
fn a_retained_number_is_removed_once_more() {
    let retained = with_number_of_cell(&scaled(2, 5), 4);
    let off = unscaled(&retained);
    let made = autoscaler(&scaled(2, 5), 3);
    let from = Some(ReplicasFrom::Retained);
    let ask = Some(AutoscalerStep::AskWhoSetReplicas);
    assert_eq!(step(&off, None, None), ask);
    assert_eq!(step(&off, Some(&made), from), Some(AutoscalerStep::Delete));
    let clear = Some(AutoscalerStep::ClearRetained(4));
    assert_eq!(step(&off, None, from), clear);
    // The number of another autoscaler, or of a user, stays.
    assert_eq!(step(&off, None, Some(CELL)), None);
    let other = plan(&Observed {
        deployment: &off,
        autoscaler: None,
        has_other_autoscaler: true,
        replicas_from: from,
    });
    assert_eq!(other, None);
    // With settings, the number counts as assigned.
    assert_eq!(step(&retained, None, from), None);

    // If it comes back, an OverridePolicy has set it.
    let again = |cleared: &str| {
        let mut off = off.clone();
        let annotations = off.metadata.annotations.get_or_insert_default();
        annotations.insert(CLEARED_REPLICAS.to_owned(), cleared.to_owned());
        step(&off, None, None)
    };
    assert_eq!(again("4"), None);
    assert_eq!(again("3"), ask);
}

#[test]
fn another_autoscaler_is_known_by_its_target() {
    let web = scaled(2, 5);
    let own = autoscaler(&web, 2);
    assert!(!scales(&web, &own));
    let mut other = own;
    other.metadata.name = Some("keda-hpa-web".to_owned());
    assert!(scales(&web, &other));
    other.spec.scale_target_ref.kind = "Deployment".to_owned();
    assert!(!scales(&web, &other));
}

#[test]
fn a_foreign_autoscaler_is_not_touched() {
    let mut other = scaled(1, 2);
    other.metadata.uid = Some("other".to_owned());
    let by_other = autoscaler(&other, 1);
    let mut by_nobody = by_other.clone();
    by_nobody.metadata.owner_references = None;
    for foreign in [&by_other, &by_nobody] {
        for deployment in [
            scaled(2, 5),
            with_replicas(&scaled(2, 5), 3),
            unscaled(&scaled(2, 5)),
        ] {
            assert_eq!(step(&deployment, Some(foreign), None), None);
        }
    }
}

#[test]
fn a_changed_setting_changes_the_autoscaler() {
    let former = with_replicas(&scaled(2, 5), 4);
    let made = autoscaler(&former, 4);
    let changed = with_replicas(&scaled(3, 9), 4);
    let expected = Some(AutoscalerStep::Ensure(Box::new(spec(&changed))));
    assert_eq!(step(&changed, Some(&made), None), expected);
    // What the API server or an operator adds stays.
    let mut extended = made.clone();
    extended.spec.behavior = Some(HorizontalPodAutoscalerBehavior::default());
    assert_eq!(step(&former, Some(&extended), None), None);
    // Nothing happens at the end of either object.
    assert_eq!(step(&terminating(changed.clone()), Some(&made), None), None);
    assert_eq!(step(&changed, Some(&terminating(made)), None), None);
}

#[test]
fn the_bounds_are_those_that_kubernetes_allows() {
    for (min, max, expected) in [
        (2, 5, (2, 5)),
        (0, 5, (1, 5)),
        (4, 2, (4, 4)),
        (2, 5000, (2, 1000)),
    ] {
        let spec = spec(&scaled(min, max));
        let bounds = (spec.min_replicas.unwrap(), spec.max_replicas);
        assert_eq!(bounds, expected, "{min} {max}");
    }
}

#[test]
fn the_limits_of_the_cell_count() {
    let mut deployment = scaled(2, 8);
    let limits = |deployment: &WorkloadDeployment| {
        let spec = spec(deployment);
        (spec.min_replicas, spec.max_replicas)
    };
    assert_eq!(limits(&deployment), (Some(2), 8));
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    let rules = r#"{"replicas":{"min":3,"max":5}}"#;
    annotations.insert(CELL_RULES.to_owned(), rules.to_owned());
    assert_eq!(limits(&deployment), (Some(3), 5));
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.insert(CELL_RULES.to_owned(), "cannot be read".to_owned());
    assert_eq!(limits(&deployment), (Some(2), 8));
}

#[test]
fn a_metric_that_no_autoscaler_has_is_named_and_changes_nothing() {
    let with = |metric: MetricSpec| {
        let mut deployment = scaled(2, 5);
        deployment.spec.scale_settings.metrics.push(metric);
        deployment
    };
    let value = |value: &str| Some(Quantity::from(value));
    let none = MetricTarget::default();
    let both = MetricTarget {
        average_value: value("1"),
        ..utilization(80)
    };
    let total = MetricTarget {
        value: value("1"),
        ..none.clone()
    };
    let wrong = MetricTarget {
        average_value: value("much"),
        ..none.clone()
    };
    for (metric, path) in [
        (MetricSpec::default(), "metrics[1].resource:"),
        (cpu(none.clone()), "metrics[1].resource.target:"),
        (cpu(both), "metrics[1].resource.target:"),
        (cpu(total), "metrics[1].resource.target.value:"),
        (cpu(wrong), "metrics[1].resource.target.averageValue:"),
    ] {
        let deployment = with(metric);
        let Settings::Invalid(problem) = settings(&deployment) else {
            panic!("{path}");
        };
        assert!(problem.contains(path), "{problem}");
        assert!(deployment.spec.scale_settings.is_autoscaled());
        let made = autoscaler(&scaled(2, 5), 2);
        let running = with_replicas(&deployment, 2);
        assert_eq!(step(&running, Some(&made), None), None);
        // The number that Karmada assigns has no autoscaler beside it, whatever the settings are.
        let assigned = with_replicas(&deployment, 3);
        assert_eq!(step(&assigned, None, None), None);
        let ask = Some(AutoscalerStep::AskWhoSetReplicas);
        assert_eq!(step(&assigned, Some(&made), None), ask);
        assert_eq!(step(&assigned, Some(&made), Some(CELL)), None);
        let delete = Some(AutoscalerStep::Delete);
        assert_eq!(step(&assigned, Some(&made), Some(HUB)), delete);
    }
    // A quantity is written as the API server stores it.
    let mut deployment = scaled(2, 5);
    let average = MetricTarget {
        average_value: value("1500m"),
        ..none
    };
    deployment.spec.scale_settings.metrics = vec![cpu(average)];
    let stored = |text: &str| {
        let mut deployment = deployment.clone();
        let metrics = &mut deployment.spec.scale_settings.metrics;
        let target = &mut metrics[0].resource.as_mut().unwrap().target;
        target.average_value = value(text);
        let metric = spec(&deployment).metrics.unwrap().remove(0);
        metric.resource.unwrap().target.average_value.unwrap().0
    };
    assert_eq!(stored("1500m"), "1500m");
    assert_eq!(stored("1000m"), "1");
}

/// Karmada sends the number of an autoscaler back unchanged, so it does not become its writer.
#[test]
fn the_writer_of_the_number_is_in_the_managed_fields() {
    let entry = |manager: &str, subresource: Option<&str>, field: &str| {
        json!({
            "manager": manager, "operation": "Update", "subresource": subresource,
            "fieldsV1": {"f:spec": {field: {}}},
        })
    };
    let replicas = "f:replicas";
    for (entries, expected) in [
        (
            vec![entry("karmada-controller-manager", None, replicas)],
            HUB,
        ),
        (vec![entry("karmada-agent", None, replicas)], HUB),
        (
            vec![
                entry("karmada-controller-manager", None, "f:template"),
                entry("kube-controller-manager", Some("scale"), replicas),
            ],
            CELL,
        ),
        (vec![entry("kubectl", Some("scale"), replicas)], CELL),
        (
            vec![entry("compute-federation-autoscaler", None, replicas)],
            CELL,
        ),
        (vec![], CELL),
    ] {
        let mut deployment = json!(scaled(1, 2));
        deployment["metadata"]["managedFields"] = json!(entries);
        let deployment: WorkloadDeployment = serde_json::from_value(deployment).unwrap();
        assert_eq!(replicas_from(&deployment), expected, "{entries:?}");
        let expected = match expected {
            ReplicasFrom::Hub => ReplicasFrom::Retained,
            other => other,
        };
        let deployment = with_number_of_cell(&deployment, 3);
        assert_eq!(replicas_from(&deployment), expected, "{entries:?}");
    }
}
