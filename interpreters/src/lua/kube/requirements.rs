//! The resources and the nodes that one Pod of a template needs. Rules: docs/concepts/lua.md#the-library-kube.

use std::collections::BTreeMap;

use api::quantity::{Amount, Format, NANOS, ParseQuantityError};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::lua::node_claim::{NodeClaim, NodeSelector, Toleration};
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
    node_selector: Option<BTreeMap<String, String>>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
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
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
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
        requirements.insert("nodeClaim".to_owned(), json!(claim));
    }
    let resources = sums.into_json();
    if !resources.is_empty() {
        requirements.insert("resourceRequest".to_owned(), Json::Object(resources));
    }
    Ok((!requirements.is_empty()).then_some(Json::Object(requirements)))
}

fn node_claim(spec: &Spec) -> NodeClaim {
    let affinity = &spec.affinity.node_affinity;
    NodeClaim {
        hard_node_affinity: affinity
            .required_during_scheduling_ignored_during_execution
            .clone(),
        node_selector: spec.node_selector.clone(),
        tolerations: spec.tolerations.clone(),
    }
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
    let is_attachable = resource.starts_with("attachable-volumes-");
    (is_native || is_attachable || is_extended(resource)).then_some(Unit::Count)
}

/// Returns whether this is the name of an extended resource: a domain and a name. It must be valid after `requests.`,
/// because that is its name in a quota.
fn is_extended(resource: &str) -> bool {
    const OF_QUOTA: &str = "requests.";
    /// Longest domain of Kubernetes, in bytes.
    const DOMAIN_MAX: usize = 253 - OF_QUOTA.len();
    /// Longest name after a domain, in bytes.
    const NAME_MAX: usize = 63;
    let Some((domain, name)) = resource.split_once('/') else {
        return false;
    };
    let is_word = |word: &str, is_end: fn(u8) -> bool, others: &[u8]| {
        let is_valid = |byte: &u8| is_end(*byte) || others.contains(byte);
        let bytes = word.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|end| is_end(*end))) && bytes.iter().all(is_valid)
    };
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_domain = domain
        .split('.')
        .all(|label| is_word(label, is_lower, b"-"));
    let is_name = is_word(name, |byte| byte.is_ascii_alphanumeric(), b"-_.");
    let is_short = domain.len() <= DOMAIN_MAX && name.len() <= NAME_MAX;
    !resource.starts_with(OF_QUOTA) && is_short && is_domain && is_name
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
            // Every quantity must be valid, also that of a resource that does not count.
            let nanos = quantity.amount()?.nanos();
            let Some(unit) = unit(resource) else { continue };
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
