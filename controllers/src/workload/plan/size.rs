//! Limits of what one Workload may ask for. Each pair of a placement and a city gets a WorkloadDeployment with a copy of
//! the template, and each of its Instances gets another one. The management process holds all copies in its caches.

use api::Workload;
use api::allowed::REPLICAS_MAX;
use api::workload::WorkloadPlacement;
use serde::Serialize;

/// Maximum number of placements of a Workload, and of pairs of a placement and a city.
const PAIRS_MAX: usize = 1000;
/// Maximum size of the templates and the scale settings of all WorkloadDeployments of a Workload, as JSON, in bytes.
const COPIES_MAX: usize = 16 << 20;
/// Maximum size of the templates of all Instances of a Workload, as JSON, in bytes. Each Instance counts
/// [`INSTANCE_OVERHEAD`] more.
const INSTANCES_MAX: usize = 256 << 20;
/// Bytes that an Instance holds besides its template: its metadata and its status.
const INSTANCE_OVERHEAD: usize = 1 << 10;

/// Returns why the Workload asks for more than the limits, if it does. Users read the message.
pub(super) fn excess(workload: &Workload) -> Option<String> {
    let placements = &workload.spec.placements;
    let cities = |placement: &WorkloadPlacement| placement.city_codes.len();
    let pairs: usize = placements.iter().map(cities).sum();
    if placements.len().max(pairs) > PAIRS_MAX {
        return Some(format!(
            "spec.placements: {} placements with {pairs} cities in all; at most {PAIRS_MAX} are possible: use several \
             Workloads",
            placements.len()
        ));
    }
    let template = size(&workload.spec.template);
    let copies = placements.iter().map(|placement| {
        let copy = template.saturating_add(size(&placement.scale_settings));
        copy.saturating_mul(cities(placement))
    });
    let bytes = copies.fold(0, usize::saturating_add);
    if bytes > COPIES_MAX {
        return Some(format!(
            "spec.template: the template has {template} bytes, and is copied for {pairs} cities; all copies may have \
             {COPIES_MAX} bytes: make the template smaller, or use several Workloads"
        ));
    }
    let instances = placements
        .iter()
        .map(|placement| replicas(placement).saturating_mul(cities(placement)));
    let instances = instances.fold(0, usize::saturating_add);
    let bytes = instances.saturating_mul(template.saturating_add(INSTANCE_OVERHEAD));
    (bytes > INSTANCES_MAX).then(|| {
        format!(
            "spec.template: the template has {template} bytes, and {instances} Instances need {bytes} bytes; the \
             maximum is {INSTANCES_MAX} bytes: make the template smaller, ask for fewer replicas, or use several \
             Workloads"
        )
    })
}

/// Returns the largest number of Instances in each city of the placement. More than [`REPLICAS_MAX`] are never created.
fn replicas(placement: &WorkloadPlacement) -> usize {
    let settings = &placement.scale_settings;
    let by_autoscaler = settings.max_replicas.filter(|_| settings.is_autoscaled());
    let most = by_autoscaler.map_or(settings.min_replicas, |max| max.max(settings.min_replicas));
    let replicas = most.min(REPLICAS_MAX);
    usize::try_from(replicas).unwrap_or_default()
}

/// Returns the size of the value as JSON, in bytes. A value that is no JSON has no size, because it cannot be written.
fn size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}
