//! Translates the autoscaling settings of a WorkloadDeployment to a HorizontalPodAutoscaler.

use api::WorkloadDeployment;
use api::allowed::REPLICAS_MAX;
use api::quantity::Quantity;
use api::workload::{MetricSpec, ResourceMetricSource};
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscalerSpec, MetricSpec as AutoscalerMetric,
    MetricTarget as AutoscalerTarget, ResourceMetricSource as AutoscalerResource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as StoredQuantity;
use kube::{Resource, ResourceExt};

/// The autoscaling settings of a WorkloadDeployment.
#[derive(Debug, PartialEq)]
pub(super) enum Settings {
    /// There are none.
    Off,
    /// The settings cannot be translated. The reason is for users.
    Invalid(String),
    /// The spec of the HorizontalPodAutoscaler.
    On(Box<HorizontalPodAutoscalerSpec>),
}

/// Returns the settings. A HorizontalPodAutoscaler needs a minimum of at least 1, and a maximum that is not below the
/// minimum. A deployment has at most [`REPLICAS_MAX`] Instances.
pub(super) fn settings(deployment: &WorkloadDeployment) -> Settings {
    let settings = deployment.scale_settings_in_cell();
    let Some(max) = settings.max_replicas.filter(|_| settings.is_autoscaled()) else {
        return Settings::Off;
    };
    let metrics = settings.metrics.iter().enumerate();
    let metrics = match metrics.map(metric).collect::<Result<Vec<_>, _>>() {
        Ok(metrics) => metrics,
        Err(problem) => return Settings::Invalid(problem),
    };
    let min = settings.min_replicas.clamp(1, REPLICAS_MAX);
    Settings::On(Box::new(HorizontalPodAutoscalerSpec {
        max_replicas: max.clamp(min, REPLICAS_MAX),
        metrics: Some(metrics),
        min_replicas: Some(min),
        scale_target_ref: CrossVersionObjectReference {
            api_version: Some(WorkloadDeployment::api_version(&()).into_owned()),
            kind: WorkloadDeployment::kind(&()).into_owned(),
            name: deployment.name_any(),
        },
        ..HorizontalPodAutoscalerSpec::default()
    }))
}

/// Translates one metric. A HorizontalPodAutoscaler compares a resource metric with an average only.
fn metric((index, metric): (usize, &MetricSpec)) -> Result<AutoscalerMetric, String> {
    let path = format!("spec.scaleSettings.metrics[{index}].resource");
    let Some(ResourceMetricSource { name, target, .. }) = &metric.resource else {
        return Err(format!("{path}: must be set"));
    };
    // The API server stores a quantity in its canonical form.
    let average = target.average_value.as_ref().map(Quantity::amount);
    let average = average
        .transpose()
        .map_err(|error| format!("{path}.target.averageValue: {error}"))?;
    let target = match (average, target.average_utilization, &target.value) {
        (Some(average), None, None) => AutoscalerTarget {
            average_value: Some(StoredQuantity(average.to_string())),
            type_: "AverageValue".to_owned(),
            ..AutoscalerTarget::default()
        },
        (None, Some(utilization), None) => AutoscalerTarget {
            average_utilization: Some(utilization),
            type_: "Utilization".to_owned(),
            ..AutoscalerTarget::default()
        },
        (None, None, Some(_)) => {
            return Err(format!(
                "{path}.target.value: no autoscaler compares the total of a resource; set averageValue or \
                 averageUtilization"
            ));
        }
        _ => {
            return Err(format!(
                "{path}.target: set exactly one of averageValue and averageUtilization"
            ));
        }
    };
    Ok(AutoscalerMetric {
        resource: Some(AutoscalerResource {
            name: name.clone(),
            target,
        }),
        type_: "Resource".to_owned(),
        ..AutoscalerMetric::default()
    })
}
