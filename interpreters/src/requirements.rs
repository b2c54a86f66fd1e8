//! The resource requirements of one Instance. The first available source is used: the sum of the container limits, the
//! requests of the runtime, the size of the instance type. Without a source, there are no requirements. See
//! docs/concepts/interpreter.md.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::decode::for_each;
use api::instance_type;
use api::quantity::Amount;
use serde::{Deserialize, Deserializer};

use crate::error::InterpretError;
use crate::quantities::{ContainerLimits, Quantities};
use crate::review::Requirements;

/// The parts of an instance spec that determine the requirements.
#[derive(Default, Deserialize)]
pub(crate) struct SpecWithSizes<'a> {
    #[serde(borrow, default)]
    pub(crate) runtime: RuntimeSizes<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct RuntimeSizes<'a> {
    #[serde(borrow, default)]
    resources: RuntimeResourcesView<'a>,
    #[serde(borrow)]
    sandbox: Option<SandboxSizes<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuntimeResourcesView<'a> {
    #[serde(borrow, default)]
    instance_type: Cow<'a, str>,
    #[serde(borrow, default)]
    requests: Quantities<'a>,
}

#[derive(Default, Deserialize)]
struct SandboxSizes<'a> {
    #[serde(borrow, default, deserialize_with = "limits")]
    containers: ContainerLimits<'a>,
}

#[derive(Default, Deserialize)]
struct ContainerSize<'a> {
    #[serde(borrow, default)]
    resources: ContainerResources<'a>,
}

#[derive(Default, Deserialize)]
struct ContainerResources<'a> {
    #[serde(borrow, default)]
    limits: Quantities<'a>,
}

/// Reads the limits of all containers. A hostile spec can have a million empty containers, so the containers are not
/// kept.
fn limits<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<ContainerLimits<'a>, D::Error> {
    let mut limits = ContainerLimits::default();
    for_each(list, |container: ContainerSize<'a>| {
        limits.add(container.resources.limits);
    })?;
    Ok(limits)
}

/// Returns the requirements of one Instance. Returns `None` if the size of the Instance is unknown. `field` is the path
/// of `spec.runtime`, for error messages.
pub(crate) fn of_runtime(
    field: &str,
    runtime: RuntimeSizes<'_>,
) -> Result<Option<Requirements>, InterpretError> {
    let RuntimeSizes { resources, sandbox } = runtime;
    let limits = match sandbox {
        Some(sandbox) => sandbox.containers.sums(field)?,
        None => None,
    };
    let resource_request = match limits {
        Some(limits) => limits.into_iter().map(printed).collect(),
        None if resources.requests.is_size() => {
            let field = format_args!("{field}.resources.requests");
            let mut requests = BTreeMap::new();
            resources
                .requests
                .for_each_amount(field, |resource, amount| {
                    let (resource, amount) = printed((resource, amount));
                    requests.insert(resource, amount);
                    Ok(())
                })?;
            requests
        }
        None => match of_instance_type(&resources.instance_type) {
            Some(size) => size,
            None => return Ok(None),
        },
    };
    Ok(Some(Requirements { resource_request }))
}

/// Returns the name and the amount of a resource as texts.
fn printed((resource, amount): (Cow<'_, str>, Amount)) -> (String, String) {
    (resource.into_owned(), amount.to_string())
}

fn of_instance_type(instance_type: &str) -> Option<BTreeMap<String, String>> {
    let size = instance_type::size(instance_type)?;
    Some(
        size.iter()
            .map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(runtime: &str) -> Option<BTreeMap<String, String>> {
        let runtime: RuntimeSizes<'_> = serde_json::from_str(runtime).unwrap();
        of_runtime("spec.runtime", runtime)
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
            let runtime: RuntimeSizes<'_> = serde_json::from_str(runtime).unwrap();
            of_runtime("spec.runtime", runtime).unwrap_err().to_string()
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
        let runtime: RuntimeSizes<'_> =
            serde_json::from_str(r#"{"resources":{"requests":{"cpu":"lots","memory":"1Gi"}}}"#)
                .unwrap();
        let error = of_runtime("spec.runtime", runtime).unwrap_err();
        assert_eq!(error.field, "spec.runtime.resources.requests[cpu]");
    }
}
