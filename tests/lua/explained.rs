//! The known differences from Karmada's engine in generated requests.

use std::collections::BTreeSet;

use api::Quantity;
use api::quantity::NANOS;
use harness::lua_suite::ComparedResult;
use serde_json::Value;

use super::generation::Generated;

/// The page with a row for each difference.
pub(crate) const PAGE: &str = "docs/concepts/lua.md";

/// An answer and the result of Karmada's engine, which differ.
pub(crate) struct Difference<'d> {
    pub(crate) request: &'d Generated<'d>,
    pub(crate) ours: &'d ComparedResult,
    pub(crate) engine: &'d ComparedResult,
}

/// One value that differs. A missing value is null.
struct Part {
    /// JSON pointer of the value.
    path: String,
    ours: Value,
    engine: Value,
}

/// A known difference.
pub(crate) struct Explained {
    /// The begin of its row in the table of differences.
    pub(crate) row: &'static str,
    /// Returns whether a value differs for this reason. If one of the two has failed, the part is the whole result.
    is: fn(&Difference<'_>, &Part) -> bool,
}

pub(crate) const EXPLAINED: [Explained; 9] = [
    Explained {
        row: "order of `pairs` over a table that the script has filled",
        is: is_order_of_conditions,
    },
    Explained {
        row: "several empty tables in one list",
        is: is_empty_tables,
    },
    Explained {
        row: "a number of replicas outside 32 bits",
        is: is_large_number_of_replicas,
    },
    Explained {
        row: "a quantity that is outside 64 bits",
        is: is_large_quantity,
    },
    Explained {
        row: "a quantity without digits",
        is: is_quantity_without_digits,
    },
    Explained {
        row: "`tonumber(\"0x1.8p1\")`; a text in arithmetic",
        is: is_octal_text,
    },
    Explained {
        row: "a number in `..`",
        is: is_number_in_text,
    },
    Explained {
        row: "a field of a Pod template that a function of `kube` does not use",
        is: is_unused_field_of_template,
    },
    Explained {
        row: "the first letter of a field in the other case",
        is: is_field_in_another_case,
    },
];

impl Difference<'_> {
    /// Returns the rows that explain the difference. Returns `None` if a part of it has no explanation.
    pub(crate) fn rows(&self) -> Option<BTreeSet<&'static str>> {
        let row = |part: &Part| {
            let found = EXPLAINED.iter().find(|entry| (entry.is)(self, part));
            found.map(|entry| entry.row)
        };
        let rows: BTreeSet<_> = self.parts().iter().map(row).collect::<Option<_>>()?;
        (!rows.is_empty()).then_some(rows)
    }

    fn parts(&self) -> Vec<Part> {
        let (ours, engine) = (sorted(&self.ours.value), sorted(&self.engine.value));
        let mut parts = Vec::new();
        match self.is_error() {
            true => parts.push(Part {
                path: String::new(),
                ours,
                engine,
            }),
            false => compare(&ours, &engine, "", &mut parts),
        }
        parts
    }

    fn is_error(&self) -> bool {
        !self.ours.error.is_empty() || !self.engine.error.is_empty()
    }

    fn object(&self) -> &Value {
        &self.request.review["request"]["object"]
    }
}

/// Returns a result whose components and dependencies are sorted. Their order does not count.
fn sorted(result: &Value) -> Value {
    let mut result = result.clone();
    for field in ["components", "dependencies"] {
        if let Some(list) = result.get_mut(field).and_then(Value::as_array_mut) {
            list.sort_by_key(|it| (it["name"].to_string(), it.to_string()));
        }
    }
    result
}

/// Collects the values that differ. Lists of different lengths are one value, and so are lists in another order, and lists
/// in which the engine has left empty tables.
fn compare(ours: &Value, engine: &Value, path: &str, parts: &mut Vec<Part>) {
    let below = |step: &str| format!("{path}/{step}");
    match (ours, engine) {
        (Value::Object(ours), Value::Object(engine)) => {
            for field in ours.keys().chain(engine.keys()).collect::<BTreeSet<_>>() {
                let [ours, engine] = [ours, engine].map(|it| it.get(field).unwrap_or(&Value::Null));
                compare(ours, engine, &below(field), parts);
            }
        }
        (Value::Array(ours), Value::Array(engine))
            if ours.len() == engine.len()
                && !is_in_another_order(ours, engine)
                && !engine.iter().any(is_empty_list) =>
        {
            for (index, (ours, engine)) in ours.iter().zip(engine).enumerate() {
                compare(ours, engine, &below(&index.to_string()), parts);
            }
        }
        (ours, engine) if ours != engine => parts.push(Part {
            path: path.to_owned(),
            ours: ours.clone(),
            engine: engine.clone(),
        }),
        _ => {}
    }
}

/// Returns whether two lists have the same elements in different orders.
fn is_in_another_order(ours: &[Value], engine: &[Value]) -> bool {
    let [mut ours_sorted, mut engine_sorted] =
        [ours, engine].map(|list| list.iter().map(Value::to_string).collect::<Vec<_>>());
    ours_sorted.sort();
    engine_sorted.sort();
    ours != engine && ours_sorted == engine_sorted
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Returns whether a value, or one in it, has a property.
fn any(value: &Value, has: &dyn Fn(&Value) -> bool) -> bool {
    has(value)
        || match value {
            Value::Array(elements) => elements.iter().any(|element| any(element, has)),
            Value::Object(fields) => fields.values().any(|field| any(field, has)),
            _ => false,
        }
}

/// These two scripts collect the last condition of each type in a table, and make a list of it with `pairs`.
fn is_order_of_conditions(difference: &Difference<'_>, part: &Part) -> bool {
    const SCRIPTS: [&str; 2] = [
        "declarative-configuration-mpijob",
        "declarative-configuration-job",
    ];
    SCRIPTS.contains(&difference.request.customization)
        && difference.request.operation == "AggregateStatus"
        && part.path == "/aggregatedStatus/status/conditions"
        && match (part.ours.as_array(), part.engine.as_array()) {
            (Some(ours), Some(engine)) => is_in_another_order(ours, engine),
            _ => false,
        }
}

/// Karmada's engine removes one empty table of a list after the other, by index, in a random order. After the first one,
/// the other indexes are wrong, so other elements are removed.
fn is_empty_tables(_: &Difference<'_>, part: &Part) -> bool {
    let (Some(ours), Some(engine)) = (part.ours.as_array(), part.engine.as_array()) else {
        return false;
    };
    // The elements that the engine has left are in our list, in the same order.
    let mut rest = ours.iter();
    let mut left = engine.iter().filter(|element| !is_empty_list(element));
    engine.len() >= ours.len()
        && engine.iter().any(is_empty_list)
        && !ours.iter().any(is_empty_list)
        && left.all(|element| rest.any(|ours| ours == element))
}

/// Here, a number that is none is 0.
fn is_large_number_of_replicas(_: &Difference<'_>, part: &Part) -> bool {
    let nearest = [0, i32::MIN, i32::MAX].map(Value::from);
    part.path == "/replica" && nearest.contains(&part.ours) && part.engine == i32::MIN
}

/// Karmada's engine counts the resources of a Pod template with integers of 64 bits, CPUs in thousandths. Sums of
/// `resourceAdd` have no limit there, and end at 10^29 here.
fn is_large_quantity(difference: &Difference<'_>, part: &Part) -> bool {
    const LARGE: f64 = 9_223_372_036_854_775.0;
    const LIMIT_NANOS: i128 = 10_i128.pow(29) * NANOS;
    const LARGE_NANOS: i128 = 9_223_372_036_854_775 * NANOS;
    let is_large = |value: &Value| match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() >= LARGE),
        Value::String(text) => {
            let amount = Quantity(text.clone()).amount();
            amount.is_ok_and(|it| it.nanos().abs() >= LARGE_NANOS)
        }
        _ => false,
    };
    let is_limit = |value: &Value| {
        let amount = value
            .as_str()
            .map(|text| Quantity(text.to_owned()).amount());
        matches!(amount, Some(Ok(amount)) if amount.nanos().abs() == LIMIT_NANOS)
    };
    let is_sum = is_limit(&part.ours) && is_large(&part.engine);
    let path = &part.path;
    let is_of_template = path.contains("/resourceRequest")
        || path.ends_with("/requires")
        || path.ends_with("/replicaRequirements");
    let is_large_template = is_of_template && any(difference.object(), &is_large);
    !difference.is_error() && (is_sum || is_large_template)
}

/// The library of Kubernetes reads `Gi` as 0.
fn is_quantity_without_digits(difference: &Difference<'_>, _: &Part) -> bool {
    let problem = &difference.ours.error;
    let quantity =
        problem.strip_suffix("\" is not a quantity: it must begin with a decimal number");
    let quantity = quantity.and_then(|text| text.rsplit_once('"'));
    difference.engine.error.is_empty()
        && quantity.is_some_and(|(_, quantity)| {
            !quantity.is_empty() && !quantity.contains(|c: char| c.is_ascii_digit())
        })
}

/// In arithmetic, Karmada's engine reads texts such as "010" as octal numbers.
fn is_octal_text(difference: &Difference<'_>, part: &Part) -> bool {
    let is_octal = |value: &Value| {
        let digits = value
            .as_str()
            .and_then(|text| text.trim().strip_prefix('0'));
        digits.is_some_and(|it| !it.is_empty() && it.chars().all(|digit| digit.is_ascii_digit()))
    };
    // The CPUs of a result are a text.
    let is_number = |value: &Value| match value {
        Value::String(text) => text.parse::<f64>().is_ok(),
        value => value.is_number(),
    };
    is_number(&part.ours)
        && is_number(&part.engine)
        && any(&difference.request.review["request"], &is_octal)
}

/// Lua prints a number with 14 digits.
fn is_number_in_text(_: &Difference<'_>, part: &Part) -> bool {
    const PRECISION: f64 = 1e-13;
    /// Returns the parts of a text that can be numbers, and the parts between them.
    fn parts(text: &str) -> (Vec<&str>, Vec<&str>) {
        let is_of_number = |c: char| c.is_ascii_digit() || ['.', 'e', '+', '-'].contains(&c);
        let numbers = text.split(|c| !is_of_number(c));
        let others = text.split(is_of_number);
        let filled = |part: &&str| !part.is_empty();
        (
            numbers.filter(filled).collect(),
            others.filter(filled).collect(),
        )
    }
    let is_equal = |(ours, engine): (&&str, &&str)| {
        ours == engine
            || match (ours.parse::<f64>(), engine.parse::<f64>()) {
                (Ok(ours), Ok(engine)) => (ours - engine).abs() <= engine.abs() * PRECISION,
                _ => false,
            }
    };
    let (Some(ours), Some(engine)) = (part.ours.as_str(), part.engine.as_str()) else {
        return false;
    };
    let (ours, engine) = (parts(ours), parts(engine));
    ours.1 == engine.1
        && ours.0.len() == engine.0.len()
        && ours.0.iter().zip(&engine.0).all(is_equal)
}

/// Karmada's engine decodes the whole template.
fn is_unused_field_of_template(difference: &Difference<'_>, _: &Part) -> bool {
    /// The fields that `accuratePodRequirements` uses, in the words of Go.
    const OF_REQUIREMENTS: [&str; 8] = [
        "of type v1.PodTemplateSpec",
        "of type v1.PodSpec",
        "spec.containers of type",
        "spec.initContainers of type",
        "ontainers.resources",
        "spec.tolerations",
        "spec.nodeSelector",
        "spec.overhead",
    ];
    /// The fields that `getPodDependencies` uses.
    const OF_DEPENDENCIES: [&str; 12] = [
        "of type v1.PodTemplateSpec",
        "of type v1.PodSpec",
        "spec.containers of type",
        "spec.initContainers of type",
        "spec.volumes of type",
        "spec.serviceAccountName",
        "spec.imagePullSecrets",
        "valueFrom of type",
        "KeyRef of type",
        "Ref.LocalObjectReference.name",
        "secretName",
        "claimName",
    ];
    let error = &difference.engine.error;
    let used: &[&str] = match error.contains("in function 'getPodDependencies'") {
        true => &OF_DEPENDENCIES,
        false => &OF_REQUIREMENTS,
    };
    let problem = error.split_once("PodTemplateSpec: json unmarshal obj failed: ");
    let problem = problem.and_then(|(_, problem)| problem.lines().next());
    difference.ours.error.is_empty()
        && problem.is_some_and(|problem| !used.iter().any(|used| problem.contains(used)))
}

/// Go decodes the field `Spec` as the field `spec` of a type.
fn is_field_in_another_case(difference: &Difference<'_>, _: &Part) -> bool {
    /// The fields of a Pod template that the functions of `kube` use.
    const FIELDS: [&str; 39] = [
        "Affinity",
        "ClaimName",
        "ConfigMap",
        "ConfigMapKeyRef",
        "ConfigMapRef",
        "Containers",
        "Csi",
        "Effect",
        "Env",
        "EnvFrom",
        "ImagePullSecrets",
        "InitContainers",
        "Key",
        "Limits",
        "MatchExpressions",
        "Name",
        "NodeAffinity",
        "NodeSelector",
        "NodeSelectorTerms",
        "Operator",
        "Overhead",
        "PersistentVolumeClaim",
        "Projected",
        "Requests",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "Resources",
        "Secret",
        "SecretKeyRef",
        "SecretName",
        "SecretRef",
        "ServiceAccountName",
        "Sources",
        "Spec",
        "TolerationSeconds",
        "Tolerations",
        "Value",
        "ValueFrom",
        "Values",
        "Volumes",
    ];
    let has_field = |value: &Value| {
        let fields = value.as_object();
        fields.is_some_and(|fields| fields.keys().any(|field| FIELDS.contains(&field.as_str())))
    };
    let operations = [
        "InterpretReplica",
        "InterpretComponent",
        "InterpretDependency",
    ];
    operations.contains(&difference.request.operation) && any(difference.object(), &has_field)
}
