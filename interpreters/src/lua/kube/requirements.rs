//! The resources and the nodes that one Pod of a template needs. Rules: docs/concepts/lua.md#the-library-kube.

use std::collections::BTreeMap;

use api::quantity::{Amount, Format, NANOS, ParseQuantityError};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::lua::quantity::LuaQuantity;

/// Billionths in one thousandth.
const MILLI_NANOS: i128 = NANOS / 1000;

type Resources = BTreeMap<String, LuaQuantity>;

#[derive(Default, Deserialize)]
pub(super) struct Template {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
    #[serde(default)]
    overhead: Resources,
    node_selector: Option<Map<String, Json>>,
    #[serde(default)]
    tolerations: Vec<Json>,
    #[serde(default)]
    affinity: Affinity,
}

#[derive(Default, Deserialize)]
struct Container {
    #[serde(default)]
    resources: ContainerResources,
}

#[derive(Default, Deserialize)]
struct ContainerResources {
    #[serde(default)]
    limits: Resources,
    #[serde(default)]
    requests: Resources,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Affinity {
    #[serde(default)]
    node_affinity: NodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<Json>,
}

impl Container {
    /// Returns the requests. A resource with a limit alone requests its limit.
    fn requests(&self) -> Resources {
        let mut requests = self.resources.limits.clone();
        requests.extend(self.resources.requests.clone());
        requests
    }
}

/// Returns Karmada's `ReplicaRequirements`. Returns `None` if a Pod needs nothing.
pub(super) fn of_template(template: &Template) -> Result<Option<Json>, ParseQuantityError> {
    let spec = &template.spec;
    let mut sums = Sums::default();
    for container in &spec.containers {
        sums.combine(&container.requests(), i128::saturating_add)?;
    }
    for container in &spec.init_containers {
        sums.combine(&container.requests(), i128::max)?;
    }
    sums.combine(&spec.overhead, i128::saturating_add)?;
    let mut requirements = Map::new();
    let claim = node_claim(spec);
    if !claim.is_empty() {
        requirements.insert("nodeClaim".to_owned(), Json::Object(claim));
    }
    let resources = sums.into_json();
    if !resources.is_empty() {
        requirements.insert("resourceRequest".to_owned(), Json::Object(resources));
    }
    Ok((!requirements.is_empty()).then_some(Json::Object(requirements)))
}

fn node_claim(spec: &Spec) -> Map<String, Json> {
    let affinity = &spec.affinity.node_affinity;
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let selector = spec.node_selector.clone().map(Json::Object);
    let tolerations = (!spec.tolerations.is_empty()).then(|| json!(spec.tolerations));
    let fields = [
        ("hardNodeAffinity", required.clone()),
        ("nodeSelector", selector),
        ("tolerations", tolerations),
    ];
    let fields = fields.into_iter();
    let given = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

/// A resource that counts.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    /// CPU, in thousandths.
    Milli,
    /// In bytes.
    Bytes,
    Count,
}

/// Returns the unit of a resource. Returns `None` for resources that do not count.
fn unit(resource: &str) -> Option<Unit> {
    match resource {
        "cpu" => return Some(Unit::Milli),
        "memory" | "ephemeral-storage" => return Some(Unit::Bytes),
        "pods" => return Some(Unit::Count),
        _ => {}
    }
    if resource.starts_with("hugepages-") {
        return Some(Unit::Bytes);
    }
    let is_native = resource.contains("kubernetes.io/");
    let is_extended = resource.contains('/') && !resource.starts_with("requests.");
    let is_attachable = resource.starts_with("attachable-volumes-");
    (is_native || is_extended || is_attachable).then_some(Unit::Count)
}

/// An amount by resource name: thousandths of CPUs, else whole units.
#[derive(Default)]
struct Sums(BTreeMap<String, (Unit, i128)>);

impl Sums {
    fn combine(
        &mut self,
        resources: &Resources,
        combine: impl Fn(i128, i128) -> i128,
    ) -> Result<(), ParseQuantityError> {
        for (resource, quantity) in resources {
            let Some(unit) = unit(resource) else { continue };
            let nanos = quantity.amount()?.nanos();
            let amount = match unit {
                Unit::Milli => up(nanos, MILLI_NANOS),
                Unit::Bytes | Unit::Count => up(nanos, NANOS),
            };
            let (_, sum) = self.0.entry(resource.clone()).or_insert((unit, 0));
            *sum = combine(*sum, amount);
        }
        Ok(())
    }

    fn into_json(self) -> Map<String, Json> {
        let positive = self.0.into_iter().filter(|(_, (_, amount))| *amount > 0);
        let printed = positive.map(|(resource, (unit, amount))| {
            let amount = match unit {
                Unit::Milli => Amount::new(amount.saturating_mul(MILLI_NANOS), Format::DecimalSi),
                Unit::Bytes => Amount::new(amount.saturating_mul(NANOS), Format::BinarySi),
                Unit::Count => Amount::new(amount.saturating_mul(NANOS), Format::DecimalSi),
            };
            (resource, Json::String(amount.to_string()))
        });
        printed.collect()
    }
}

/// Returns the quotient, rounded up.
fn up(number: i128, divisor: i128) -> i128 {
    let quotient = number.div_euclid(divisor);
    quotient + i128::from(number.rem_euclid(divisor) > 0)
}
