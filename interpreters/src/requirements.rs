//! The resource requirements of one Instance. The first available source is used: the sum of the container limits, the
//! requests of the runtime, the size of the instance type. Without a source, there are no requirements. See
//! docs/concepts/interpreter.md.

use std::collections::BTreeMap;

use api::quantity::Amount;

use crate::error::InterpretError;
use crate::instance_spec::{Quantities, RuntimeView};
use crate::review::Requirements;

/// The resources that are required in a complete size.
const SIZE: [&str; 2] = ["cpu", "memory"];
/// The size of each instance type. See docs/concepts/interpreter.md.
const INSTANCE_TYPES: [(&str, [(&str, &str); 2]); 1] = [(
    "datumcloud/d1-standard-2",
    [("cpu", "1"), ("memory", "2Gi")],
)];

/// Returns the requirements of one Instance. Returns `None` if the size of the Instance is unknown. `field` is the path
/// of `spec.runtime`, for error messages.
pub(crate) fn of_runtime(
    field: &str,
    runtime: &RuntimeView<'_>,
) -> Result<Option<Requirements>, InterpretError> {
    let resource_request = match container_limits(field, runtime)? {
        Some(limits) => limits,
        None if is_size(&runtime.resources.requests) => canonical(
            &format!("{field}.resources.requests"),
            &runtime.resources.requests,
        )?,
        None => match of_instance_type(&runtime.resources.instance_type) {
            Some(size) => size,
            None => return Ok(None),
        },
    };
    Ok(Some(Requirements { resource_request }))
}

/// Returns the sum of the limits of all containers. Returns `None` if there are no containers, or if a container has no
/// complete size.
fn container_limits(
    field: &str,
    runtime: &RuntimeView<'_>,
) -> Result<Option<BTreeMap<String, String>>, InterpretError> {
    let Some(sandbox) = &runtime.sandbox else {
        return Ok(None);
    };
    let containers = &sandbox.containers;
    if containers.is_empty() || !containers.iter().all(|c| is_size(&c.resources.limits)) {
        return Ok(None);
    }
    let mut sums: BTreeMap<&str, Amount> = BTreeMap::new();
    for (index, container) in containers.iter().enumerate() {
        let field = format!("{field}.sandbox.containers[{index}].resources.limits");
        for (resource, amount) in amounts(&field, &container.resources.limits)? {
            let sum = sums.entry(resource).or_insert(Amount::ZERO);
            *sum = sum.saturating_add(amount);
        }
    }
    Ok(Some(printed(sums)))
}

fn of_instance_type(instance_type: &str) -> Option<BTreeMap<String, String>> {
    let (_, size) = INSTANCE_TYPES
        .iter()
        .find(|(name, _)| *name == instance_type)?;
    Some(
        size.iter()
            .map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned()))
            .collect(),
    )
}

fn is_size(quantities: &Quantities<'_>) -> bool {
    SIZE.iter()
        .all(|resource| quantities.contains_key(*resource))
}

fn canonical(
    field: &str,
    quantities: &Quantities<'_>,
) -> Result<BTreeMap<String, String>, InterpretError> {
    Ok(printed(amounts(field, quantities)?))
}

fn amounts<'q>(
    field: &str,
    quantities: &'q Quantities<'_>,
) -> Result<BTreeMap<&'q str, Amount>, InterpretError> {
    quantities
        .iter()
        .map(|(resource, quantity)| match quantity.amount() {
            Ok(amount) => Ok((resource.as_ref(), amount)),
            Err(error) => Err(InterpretError::new(format!("{field}[{resource}]"), error)),
        })
        .collect()
}

fn printed(amounts: BTreeMap<&str, Amount>) -> BTreeMap<String, String> {
    amounts
        .into_iter()
        .map(|(resource, amount)| (resource.to_owned(), amount.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(runtime: &str) -> Option<BTreeMap<String, String>> {
        let runtime: RuntimeView<'_> = serde_json::from_str(runtime).unwrap();
        of_runtime("spec.runtime", &runtime)
            .unwrap()
            .map(|r| r.resource_request)
    }

    fn expect(runtime: &str, expected: &[(&str, &str)]) {
        let expected: BTreeMap<_, _> = expected
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        assert_eq!(requirements(runtime), Some(expected));
    }

    #[test]
    fn container_limits_are_summed() {
        expect(
            r#"{"resources":{"instanceType":"datumcloud/d1-standard-2"},"sandbox":{"containers":[
                {"resources":{"limits":{"cpu":"500m","memory":"1Gi"}}},
                {"resources":{"limits":{"cpu":1,"memory":"512Mi","example.com/gpu":"2"}}}]}}"#,
            &[
                ("cpu", "1500m"),
                ("memory", "1536Mi"),
                ("example.com/gpu", "2"),
            ],
        );
    }

    #[test]
    fn requests_then_the_instance_type_give_the_size_if_a_container_has_no_limits() {
        let sandbox =
            r#""sandbox":{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi"}}},{}]}"#;
        expect(
            &format!(
                r#"{{"resources":{{"instanceType":"x","requests":{{"cpu":"2000m","memory":"4Gi"}}}},{sandbox}}}"#
            ),
            &[("cpu", "2"), ("memory", "4Gi")],
        );
        expect(
            &format!(
                r#"{{"resources":{{"instanceType":"datumcloud/d1-standard-2","requests":{{"cpu":"1"}}}},{sandbox}}}"#
            ),
            &[("cpu", "1"), ("memory", "2Gi")],
        );
        assert_eq!(
            requirements(&format!(
                r#"{{"resources":{{"instanceType":"x"}},{sandbox}}}"#
            )),
            None
        );
        assert_eq!(requirements("{}"), None);
    }

    #[test]
    fn the_error_names_the_malformed_quantity() {
        let runtime: RuntimeView<'_> =
            serde_json::from_str(r#"{"resources":{"requests":{"cpu":"lots","memory":"1Gi"}}}"#)
                .unwrap();
        let error = of_runtime("spec.runtime", &runtime).unwrap_err();
        assert_eq!(error.field, "spec.runtime.resources.requests[cpu]");
    }
}
