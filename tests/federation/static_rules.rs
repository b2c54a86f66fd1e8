//! Tests that the CRD of Workload refuses what admission refuses, as far as docs/reference/admission.md says so. No
//! webhook is registered in the project of these tests.

#[path = "static_rules/cases.rs"]
mod cases;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use harness::{Federation, wait};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use webhooks::admission::{InCrd, RULES};

use crate::fixture::{Space, WITHIN, create, dynamic, patch};
use cases::{CASES, WITHOUT_CASE, bad, machine, sandbox};

/// Group of a copy of the CRD. No controller watches this group.
const GROUP: &str = "rules.test";

pub(crate) async fn the_api_server_refuses_what_the_table_says(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "rules").await?;
    let workloads = dynamic(
        federation.project().client(),
        &space.name,
        api::GROUP,
        api::VERSION,
        "Workload",
    );
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for valid in [sandbox(), machine()] {
        let object = serde_json::from_value(valid)?;
        workloads.create(&dry_run, &object).await?;
    }
    let mut without_case: BTreeSet<_> = RULES.iter().map(|it| (it.field, it.rule)).collect();
    for case in CASES {
        without_case.remove(&(case.field, case.rule));
        let rule = RULES
            .iter()
            .find(|it| (it.field, it.rule) == (case.field, case.rule))
            .with_context(|| format!("the reference has no rule {}: {}", case.field, case.rule))?;
        let object: DynamicObject = serde_json::from_value(bad(case)?)?;
        let answer = workloads.create(&dry_run, &object).await;
        if rule.in_crd == InCrd::No {
            answer.with_context(|| {
                format!(
                    "{}: {}: the API server also has this rule",
                    rule.field, rule.rule
                )
            })?;
            continue;
        }
        refused_at(answer, case.reported)
            .with_context(|| format!("{}: {}", rule.field, rule.rule))?;
    }
    assert_eq!(without_case, WITHOUT_CASE.into());
    Ok(())
}

/// Checks that the API server refused an object as invalid, and that it named the field.
fn refused_at(answer: kube::Result<DynamicObject>, field: &str) -> anyhow::Result<()> {
    let status = match answer {
        Err(kube::Error::Api(status)) => status,
        other => anyhow::bail!("not refused: {other:?}"),
    };
    ensure!(status.code == 422, "{status:?}");
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<_> = causes.map(|cause| cause.field.as_str()).collect();
    ensure!(fields.contains(&field), "{field} is not in {fields:?}");
    Ok(())
}

/// Stores objects with mistakes while a copy of the CRD has no rules. Then the copy gets the rules.
pub(crate) async fn an_earlier_mistake_does_not_block_updates(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "ratcheting").await?;
    let client = federation.project().client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let workloads = dynamic(client, &space.name, GROUP, api::VERSION, "Workload");
    let mut definition = api::crds::definitions()?.remove(0);
    definition.metadata.name = Some(format!("workloads.{GROUP}"));
    GROUP.clone_into(&mut definition.spec.group);
    create(&definitions, without_rules(&definition)?).await?;

    let static_cases = || {
        CASES.iter().filter(|case| {
            let stands = |rule: &webhooks::admission::Rule| rule.in_crd != InCrd::No;
            // `without_rules` keeps required fields and the keys of lists, so no stored object breaks them.
            let mut rules = RULES.iter().filter(|rule| stands(rule));
            !case.always_held && rules.any(|it| (it.field, it.rule) == (case.field, case.rule))
        })
    };
    let named = |index: usize, mut object: Value| {
        object["apiVersion"] = json!(format!("{GROUP}/{}", api::VERSION));
        object["metadata"]["name"] = json!(format!("bad-{index}"));
        object["metadata"]["finalizers"] = json!(["example.com/waits"]);
        object
    };
    for (index, case) in static_cases().enumerate() {
        let object = named(index, bad(case)?);
        wait::eventually("the copy has no rules", WITHIN, || async {
            create(&workloads, object.clone()).await
        })
        .await
        .with_context(|| format!("{}: {}", case.field, case.rule))?;
    }
    apply_definition(&definitions, &definition).await?;
    for (index, case) in static_cases().enumerate() {
        let of_case = || format!("{}: {}", case.field, case.rule);
        let object = named(1000 + index, bad(case)?);
        wait::eventually("the copy has the rules", WITHIN, || async {
            let object = serde_json::from_value(object.clone())?;
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            refused_at(workloads.create(&dry_run, &object).await, case.reported)
        })
        .await
        .with_context(of_case)?;

        let name = format!("bad-{index}");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        patch(&workloads, &name, label)
            .await
            .with_context(of_case)?;
        // Changes the part of the spec that has no mistake.
        let edit = match case.pointer.starts_with("/placements") {
            true => json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
            false => json!({"spec": {"placements": [
                {"name": "other", "cityCodes": ["ORD"], "scaleSettings": {"minReplicas": 2}},
            ]}}),
        };
        patch(&workloads, &name, edit).await.with_context(of_case)?;
        let release = json!({"metadata": {"finalizers": null}});
        let released = patch(&workloads, &name, release)
            .await
            .with_context(of_case)?;
        ensure!(released.finalizers().is_empty(), "{released:?}");
    }
    let deletion = kube::api::DeleteParams::default();
    definitions
        .delete(&format!("workloads.{GROUP}"), &deletion)
        .await?;
    Ok(())
}

/// Replaces the spec of a CRD.
pub(crate) async fn apply_definition(
    definitions: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> anyhow::Result<()> {
    // A merge patch replaces lists, and the schema is in the list of versions.
    let change = json!({"spec": definition.spec});
    let name = definition.name_any();
    let params = PatchParams::default();
    definitions
        .patch(&name, &params, &Patch::Merge(change))
        .await?;
    Ok(())
}

/// Returns the CRD without the keywords that restrict values.
pub(crate) fn without_rules(definition: &CustomResourceDefinition) -> anyhow::Result<Value> {
    fn remove(schema: &mut Value) {
        let Value::Object(fields) = schema else {
            return schema.as_array_mut().into_iter().flatten().for_each(remove);
        };
        for keyword in [
            "enum",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "pattern",
            "x-kubernetes-validations",
        ] {
            // A property may have the name of a keyword. Its value is a schema.
            if fields.get(keyword).is_some_and(|value| !value.is_object()) {
                fields.remove(keyword);
            }
        }
        fields.values_mut().for_each(remove);
    }
    let mut definition = serde_json::to_value(definition)?;
    remove(&mut definition["spec"]);
    Ok(definition)
}
