//! Rules of placements: the cities and the scale settings.

use std::collections::{HashMap, HashSet};

use api::CityCode;
use api::allowed::REPLICAS;
use api::identity::IdentityError;

use super::names::{UsedValues, check_unique_label};
use crate::admission::external_facts::AvailableCities;
use crate::admission::field_error::{ErrorSink, FieldError, FieldPath, supported};
use crate::admission::workload_view::{
    MetricTargetView, MetricView, PlacementView, ScaleSettingsView, WorkloadSpecView,
};

const METRICS: [&str; 1] = ["cpu"];
const ONE_TARGET: &str = "may not specify more than one target";

pub(super) fn check(
    spec: &FieldPath<'_>,
    placements: &[PlacementView<'_>],
    cities: Option<&AvailableCities<'_>>,
    report: &mut ErrorSink<'_>,
) {
    let path = spec.field("placements");
    if placements.is_empty() {
        return report(&path, FieldError::required("at least one"));
    }
    let mut names = UsedValues::new();
    for (index, placement) in placements.iter().enumerate() {
        let path = path.element(index, &placement.name);
        check_unique_label(&path.field("name"), &placement.name, &mut names, report);
        check_cities(&path, placement, cities, report);
        check_scale(
            &path.field("scaleSettings"),
            &placement.scale_settings,
            report,
        );
    }
}

fn check_cities(
    placement: &FieldPath<'_>,
    values: &PlacementView<'_>,
    cities: Option<&AvailableCities<'_>>,
    report: &mut ErrorSink<'_>,
) {
    let path = placement.field("cityCodes");
    if values.city_codes.is_empty() {
        return report(&path, FieldError::required("at least one"));
    }
    for (index, code) in values.city_codes.iter().enumerate() {
        let (path, code) = (path.element(index, &code.0), code.0.as_ref());
        match cities {
            Some(AvailableCities { codes, supported }) if !codes.contains(code) => {
                report(&path, FieldError::not_supported(code, supported.as_str()));
            }
            _ => {
                // The city code becomes a label value, because Karmada selects the clusters of a city by label.
                if let Err(IdentityError::Invalid { rule, .. }) = CityCode::new(code) {
                    report(&path, FieldError::invalid(code, rule));
                }
            }
        }
    }
}

fn check_scale(path: &FieldPath<'_>, values: &ScaleSettingsView<'_>, report: &mut ErrorSink<'_>) {
    let ScaleSettingsView {
        min_replicas: min,
        max_replicas,
        ref metrics,
    } = *values;
    let min_path = path.field("minReplicas");
    if min < *REPLICAS.start() {
        report(
            &min_path,
            FieldError::invalid(min, "must be greater than 0"),
        );
    }
    if min > *REPLICAS.end() {
        let rule = format!("must be less than or equal to {}", REPLICAS.end());
        report(&min_path, FieldError::invalid(min, rule));
    }
    let Some(max) = max_replicas else {
        return;
    };
    if max < min {
        let rule = format!("must be greater than or equal to minReplicas, which is {min}");
        report(&path.field("maxReplicas"), FieldError::invalid(max, rule));
    }
    let path = path.field("metrics");
    if metrics.is_empty() {
        report(
            &path,
            FieldError::required("at least one metric is required when maxReplicas is set"),
        );
    }
    for (index, metric) in metrics.iter().enumerate() {
        check_metric(&path, index, metric, report);
    }
}

fn check_metric(
    path: &FieldPath<'_>,
    index: usize,
    metric: &MetricView<'_>,
    report: &mut ErrorSink<'_>,
) {
    let name = metric
        .resource
        .as_ref()
        .map_or("", |resource| &resource.name);
    let path = path.element(index, name);
    let path = path.field("resource");
    let Some(resource) = &metric.resource else {
        return report(
            &path,
            FieldError::required("resource is the only supported source of a metric"),
        );
    };
    if !METRICS.contains(&name) {
        report(
            &path.field("name"),
            FieldError::not_supported(name, supported(METRICS)),
        );
    }
    check_target(&path.field("target"), &resource.target, report);
}

/// Checks the target of a metric. A metric must have one target. Any further target is reported as forbidden, and its
/// value is not checked.
fn check_target(path: &FieldPath<'_>, target: &MetricTargetView, report: &mut ErrorSink<'_>) {
    let MetricTargetView {
        value,
        average_value,
        average_utilization,
    } = target;
    let mut targets = 0;
    for (name, quantity) in [("value", value), ("averageValue", average_value)] {
        let Some(quantity) = quantity else { continue };
        let path = path.field(name);
        targets += 1;
        if targets > 1 {
            report(&path, FieldError::forbidden(&quantity.0, ONE_TARGET));
            continue;
        }
        match quantity.amount() {
            Ok(amount) if amount.nanos() > 0 => {}
            Ok(_) => report(
                &path,
                FieldError::invalid(quantity.0.as_str(), "must be positive"),
            ),
            Err(_) => report(
                &path,
                FieldError::invalid(quantity.0.as_str(), "must be a quantity, such as 500m"),
            ),
        }
    }
    if let Some(percent) = *average_utilization {
        let path = path.field("averageUtilization");
        targets += 1;
        if targets > 1 {
            report(&path, FieldError::forbidden(percent, ONE_TARGET));
        } else if percent < 1 {
            report(
                &path,
                FieldError::invalid(percent, "must be greater than or equal to 1"),
            );
        }
    }
    if targets == 0 {
        report(
            path,
            FieldError::required("one of value, averageValue, averageUtilization"),
        );
    }
}

/// Returns whether `is` holds for a city that a placement has and the former placement with the same name did not have.
pub(crate) fn is_any_new_city(
    workload: &WorkloadSpecView<'_>,
    former: Option<&WorkloadSpecView<'_>>,
    is: impl Fn(&str) -> bool,
) -> bool {
    // Hashes the name once per placement, not once per city. A name can be very long.
    let mut known: HashMap<&str, HashSet<&str>> = HashMap::new();
    for placement in former.iter().flat_map(|former| &former.placements) {
        known
            .entry(&placement.name)
            .or_default()
            .extend(codes(placement));
    }
    let is_any = |placement: &PlacementView<'_>| {
        let known = known.get(placement.name.as_ref());
        codes(placement).any(|code| !known.is_some_and(|known| known.contains(code)) && is(code))
    };
    workload.placements.iter().any(is_any)
}

fn codes<'w>(placement: &'w PlacementView<'_>) -> impl Iterator<Item = &'w str> {
    placement.city_codes.iter().map(|code| code.0.as_ref())
}
