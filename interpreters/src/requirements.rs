//! The resource requirements of one Instance. The first available source is used: the sum of the container limits, the
//! requests of the runtime, the size of the instance type. Without a source, there are no requirements. See
//! docs/concepts/interpreter.md.

use std::collections::BTreeMap;

use api::quantity::Amount;

use crate::error::InterpretError;
use crate::instance_spec::RuntimeView;
use crate::review::Requirements;

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
    let limits = match &runtime.sandbox {
        Some(sandbox) => sandbox.containers.limits.sums(field)?,
        None => None,
    };
    let requests = &runtime.resources.requests;
    let resource_request = match limits {
        Some(limits) => printed(limits),
        None if requests.is_size() => {
            printed(&requests.amounts(&format!("{field}.resources.requests"))?)
        }
        None => match of_instance_type(&runtime.resources.instance_type) {
            Some(size) => size,
            None => return Ok(None),
        },
    };
    Ok(Some(Requirements { resource_request }))
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

fn printed<K: AsRef<str>>(amounts: &BTreeMap<K, Amount>) -> BTreeMap<String, String> {
    amounts
        .iter()
        .map(|(resource, amount)| (resource.as_ref().to_owned(), amount.to_string()))
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
    fn too_many_resources_are_an_error() {
        let error = |runtime: &str| {
            let runtime: RuntimeView<'_> = serde_json::from_str(runtime).unwrap();
            of_runtime("spec.runtime", &runtime)
                .unwrap_err()
                .to_string()
        };
        let quantities = |count: usize| {
            let more = (2..count).map(|number| format!(r#","r{number}":1"#));
            format!(r#"{{"cpu":1,"memory":1{}}}"#, more.collect::<String>())
        };
        let requests = |count| format!(r#"{{"resources":{{"requests":{}}}}}"#, quantities(count));
        assert_eq!(requirements(&requests(64)).unwrap().len(), 64);
        assert_eq!(
            error(&requests(65)),
            "spec.runtime.resources.requests: has more than 64 resources"
        );
        let container =
            |more: &str| format!(r#"{{"resources":{{"limits":{{"cpu":1,"memory":1,{more}}}}}}}"#);
        let containers: Vec<_> = (0..63)
            .map(|number| container(&format!(r#""r{number}":1"#)))
            .collect();
        assert_eq!(
            error(&format!(
                r#"{{"sandbox":{{"containers":[{}]}}}}"#,
                containers.join(",")
            )),
            "spec.runtime.sandbox.containers[62].resources.limits: has more than 64 resources"
        );
    }

    #[test]
    fn a_repeated_resource_has_its_last_quantity() {
        let last = r#"{"resources":{"requests":{"cpu":"lots","memory":"1Gi","cpu":2}}}"#;
        expect(last, &[("cpu", "2"), ("memory", "1Gi")]);
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
