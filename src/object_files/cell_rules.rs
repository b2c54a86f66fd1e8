//! Reads CellRules from files.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::CellRule;
use kube::Resource;
use serde_json::Value;

use super::documents::{check_known, documents, shown};

/// Reads files with CellRules.
///
/// # Errors
///
/// If a file cannot be read, or has none, or has something else.
pub(crate) fn cell_rules_of(files: &[PathBuf]) -> anyhow::Result<Vec<CellRule>> {
    let mut all = Vec::new();
    for file in files {
        let name = shown(file);
        let documents = documents(file)?;
        if documents.is_empty() {
            bail!("{name} is empty: a CellRule is needed");
        }
        for (number, document) in documents.into_iter().enumerate() {
            let name = format!("{name}: document {}", number + 1);
            all.push(cell_rule(document).with_context(|| name)?);
        }
    }
    Ok(all)
}

/// Decodes a CellRule. The API server prunes fields that it does not know, so here they are errors.
fn cell_rule(document: Value) -> anyhow::Result<CellRule> {
    let text = |field: &str| document.get(field).and_then(Value::as_str);
    for (field, expected) in [
        ("apiVersion", CellRule::api_version(&())),
        ("kind", CellRule::kind(&())),
    ] {
        if text(field) != Some(expected.as_ref()) {
            let found = text(field).unwrap_or("missing");
            bail!("{field} is {found}, must be {expected}");
        }
    }
    let name = document.pointer("/metadata/name").and_then(Value::as_str);
    if name.is_none_or(str::is_empty) {
        bail!("metadata.name is missing");
    }
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    check_known("", Some(&document), &known)?;
    let spec = document.get("spec");
    check_known("spec.", spec, &["cells", "rules"])?;
    let cells = spec.and_then(|spec| spec.get("cells"));
    check_known("spec.cells.", cells, &["matchExpressions", "matchLabels"])?;
    let expressions = cells.and_then(|cells| cells.get("matchExpressions"));
    for expression in expressions.and_then(Value::as_array).into_iter().flatten() {
        let path = "spec.cells.matchExpressions[].";
        check_known(path, Some(expression), &["key", "operator", "values"])?;
        // Without them, decoding gives empty texts.
        for field in ["key", "operator"] {
            if expression.get(field).is_none() {
                bail!("{path}{field} is missing");
            }
        }
    }
    Ok(serde_path_to_error::deserialize(document)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<CellRule>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        cell_rules_of(&[file.path().to_owned()])
    }

    #[test]
    fn a_field_that_the_hub_refuses_or_prunes_is_named() {
        let right = "{apiVersion: compute.datumapis.com/v1alpha, kind: CellRule, metadata: {name: far}, spec: {cells: \
            {matchExpressions: [{key: tier, operator: Exists}]}, rules: {replicas: {min: 1}}}}";
        assert_eq!(read(right).unwrap().len(), 1);
        for (from, to, problem) in [
            (
                "v1alpha",
                "v1",
                "apiVersion is compute.datumapis.com/v1, must be",
            ),
            ("name: far", "nam: far", "metadata.name is missing"),
            ("cells:", "cell:", "spec.cell: unknown field"),
            ("matchE", "e", "spec.cells.expressions: unknown field"),
            (
                "key: tier, ",
                "",
                "spec.cells.matchExpressions[].key is missing",
            ),
            (
                ", operator: Exists",
                "",
                "spec.cells.matchExpressions[].operator is missing",
            ),
            (
                "key:",
                "name: a, key:",
                "spec.cells.matchExpressions[].name: unknown field",
            ),
            ("min:", "least:", "least"),
        ] {
            let text = right.replace(from, to);
            assert_ne!(text, right);
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(
                error.contains("document 1: ") && error.contains(problem),
                "{error}"
            );
        }
    }
}
