//! Reads objects and lists from files in YAML or JSON.

mod cell_rules;
mod documents;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::karmada::ResourceInterpreterCustomization;
use interpreters::Operation;
use interpreters::lua::script_field;
use kube::Resource;
use serde_json::Value;

pub(crate) use cell_rules::cell_rules_of;
use documents::{check_known, documents, documents_in, shown, text};

/// Reads a file with one object. `-` is the standard input.
///
/// # Errors
///
/// If the file cannot be read, or does not have exactly one object with `apiVersion` and `kind`.
pub(crate) fn object(file: &Path) -> anyhow::Result<Value> {
    let name = shown(file);
    let mut documents = documents(file)?;
    let object = match (documents.pop(), documents.len()) {
        (None, _) => bail!("{name} is empty: one object is needed"),
        (Some(object), 0) => object,
        (Some(_), others) => bail!("{name} has {} documents: one object is needed", others + 1),
    };
    for field in ["apiVersion", "kind"] {
        if !object.get(field).is_some_and(Value::is_string) {
            bail!("{name}: {field} is missing: an object of a Kubernetes API is needed");
        }
    }
    Ok(object)
}

/// Reads files with ResourceInterpreterCustomizations.
///
/// # Errors
///
/// The same errors as [`customizations`].
pub(crate) fn customizations_of(
    files: &[PathBuf],
) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(customizations(file)?);
    }
    Ok(all)
}

/// Reads a file with ResourceInterpreterCustomizations.
///
/// # Errors
///
/// If the file cannot be read, or has none, or has something else.
fn customizations(file: &Path) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    customizations_in(&shown(file), &text(file)?)
}

/// Reads a text with ResourceInterpreterCustomizations. `name` is the name of its file in errors.
///
/// # Errors
///
/// If the text has none, or has something else.
pub(crate) fn customizations_in(
    name: &str,
    text: &str,
) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    let documents = documents_in(name, text)?;
    if documents.is_empty() {
        bail!("{name} is empty: a ResourceInterpreterCustomization is needed");
    }
    let read = documents.into_iter().enumerate().map(|(number, document)| {
        let name = format!("{name}: document {}", number + 1);
        let kind = document.get("kind").and_then(Value::as_str);
        if kind != Some(ResourceInterpreterCustomization::kind(&()).as_ref()) {
            let kind = kind.unwrap_or("missing");
            bail!("{name}: kind is {kind}, must be ResourceInterpreterCustomization");
        }
        check_fields(&document).with_context(|| name.clone())?;
        serde_path_to_error::deserialize(document).with_context(|| name)
    });
    read.collect()
}

/// Checks the names of the fields, as the API server does: a misspelt operation would have no script.
fn check_fields(customization: &Value) -> anyhow::Result<()> {
    let api_version = customization.get("apiVersion").and_then(Value::as_str);
    let expected = ResourceInterpreterCustomization::api_version(&());
    if api_version != Some(expected.as_ref()) {
        let found = api_version.unwrap_or("missing");
        bail!("apiVersion is {found}, must be {expected}");
    }
    let name = customization
        .pointer("/metadata/name")
        .and_then(Value::as_str);
    if name.is_none_or(str::is_empty) {
        bail!("metadata.name is missing");
    }
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    check_known("", Some(customization), &known)?;
    let spec = customization.get("spec");
    let rules = spec.and_then(|spec| spec.get("customizations"));
    check_known("spec.", spec, &["target", "customizations"])?;
    if !rules.is_some_and(Value::is_object) {
        bail!("spec.customizations is missing: it has the scripts");
    }
    let target = spec.and_then(|spec| spec.get("target"));
    check_known("spec.target.", target, &["apiVersion", "kind"])?;
    let mut fields = Operation::ALL.map(script_field);
    fields.sort_unstable();
    check_known("spec.customizations.", rules, &fields)?;
    for (name, rule) in rules.and_then(Value::as_object).into_iter().flatten() {
        let path = format!("spec.customizations.{name}.");
        check_known(&path, Some(rule), &["luaScript"])?;
        if rule.get("luaScript").is_none() {
            bail!("{path}luaScript is missing");
        }
    }
    Ok(())
}

/// Reads a file with the statuses of the cells: a list, or one document for each.
///
/// # Errors
///
/// If the file cannot be read, has no status, or has something that is no `AggregatedStatusItem`.
pub(crate) fn items(file: &Path) -> anyhow::Result<Vec<Value>> {
    let name = shown(file);
    let documents = documents(file)?.into_iter();
    let items: Vec<_> = documents
        .flat_map(|document| match document {
            Value::Array(items) => items,
            item => vec![item],
        })
        .collect();
    if items.is_empty() {
        bail!("{name} has no status of a cell");
    }
    for (number, item) in items.iter().enumerate() {
        let cell = item.get("clusterName").and_then(Value::as_str);
        if cell.is_none_or(str::is_empty) {
            bail!(
                "{name}: item {} has no clusterName: the items of status.aggregatedStatus of a ResourceBinding are needed",
                number + 1
            );
        }
        // Karmada writes these, so the interpreter tolerates other forms and counts them as no report.
        for (field, is_right) in [
            ("applied", item.get("applied").is_none_or(Value::is_boolean)),
            ("status", item.get("status").is_none_or(Value::is_object)),
        ] {
            if !is_right {
                bail!("{name}: item {}: {field} has the wrong type", number + 1);
            }
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_file_has_one_object() {
        let expected = json!({"apiVersion": "v1", "kind": "A"});
        for text in [
            "apiVersion: v1\nkind: A",
            "---\napiVersion: v1\nkind: A\n---\n",
            r#"{"apiVersion": "v1", "kind": "A"}"#,
        ] {
            assert_eq!(object(file(text).path()).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            ("", "is empty"),
            ("# nothing", "is empty"),
            ("a: 1\n---\nb: 2", "has 2 documents"),
            ("[1]", "apiVersion is missing"),
            ("apiVersion: v1", "kind is missing"),
            ("a: [", ""),
        ] {
            let error = object(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let absent = object(Path::new("absent.yaml")).unwrap_err();
        assert_eq!(absent.to_string(), "absent.yaml");
    }

    #[test]
    fn customizations_are_documents() {
        let text = "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: a}\nspec: {target: {kind: A}, customizations: {}}";
        let both = format!("{text}\n---\n{text}");
        let read = customizations(file(&both).path()).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].spec.target.kind, "A");
        for (text, problem) in [
            ("", "is empty"),
            ("kind: Pod", "document 1: kind is Pod"),
            ("a: 1", "document 1: kind is missing"),
        ] {
            let error = customizations(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_wrong_field_of_a_customization_is_named() {
        let right = "{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: a}, \
            spec: {target: {apiVersion: v1, kind: A}, customizations: {retention: {luaScript: ''}}}}";
        customizations(file(right).path()).unwrap();
        for (from, to, problem) in [
            (
                "io/v1alpha1",
                "io/v1",
                "apiVersion is config.karmada.io/v1, must be config.karmada.io/v1alpha1",
            ),
            ("name: a", "nam: a", "metadata.name is missing"),
            (
                "customizations:",
                "customisations:",
                "spec.customisations: unknown field, known are target, customizations",
            ),
            (
                "{apiVersion: v1,",
                "{version: v1,",
                "spec.target.version: unknown field",
            ),
            (
                "retention:",
                "retension:",
                "spec.customizations.retension: unknown field, known are componentResource, ",
            ),
            (
                "luaScript:",
                "luascript:",
                "spec.customizations.retention.luascript: unknown field, known are luaScript",
            ),
            (
                "{luaScript: ''}",
                "3",
                "spec.customizations.retention.luaScript is missing",
            ),
            (
                "{luaScript: ''}",
                "{}",
                "spec.customizations.retention.luaScript is missing",
            ),
            (
                ", customizations: {retention: {luaScript: ''}}",
                "",
                "spec.customizations is missing",
            ),
            (
                "spec:",
                "customizations: {}, spec:",
                "customizations: unknown field, known are apiVersion, ",
            ),
        ] {
            let text = right.replace(from, to);
            assert_ne!(text, right);
            let error = customizations(file(&text).path()).unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.contains("document 1: ") && error.contains(problem),
                "{error}"
            );
        }
    }

    #[test]
    fn items_are_a_list_or_documents() {
        let expected = [json!({"clusterName": "a"}), json!({"clusterName": "b"})];
        for text in [
            "[{clusterName: a}, {clusterName: b}]",
            "clusterName: a\n---\nclusterName: b",
            "[{clusterName: a}]\n---\nclusterName: b",
        ] {
            assert_eq!(items(file(text).path()).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            ("", "has no status of a cell"),
            ("[]", "has no status of a cell"),
            ("[1]", "item 1 has no clusterName"),
            (
                "[{clusterName: a}, {clustername: b}]",
                "item 2 has no clusterName",
            ),
            ("{items: [{clusterName: a}]}", "item 1 has no clusterName"),
            ("[{clusterName: a, applied: 'true'}]", "item 1: applied"),
            ("[{clusterName: a, status: x}]", "item 1: status"),
        ] {
            let error = items(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
