//! The text of an answer.

use anstyle::{AnsiColor, Style};
use interpreters::caller::Answer;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use crate::args::OutputForm;

const REMOVED: Style = AnsiColor::Red.on_default();
const ADDED: Style = AnsiColor::Green.on_default();
const POSITION: Style = AnsiColor::Cyan.on_default();

/// Returns the text of an answer in this form. Only [`OutputForm::Text`] has colours. `before` is the object of the
/// request.
///
/// # Errors
///
/// If a value cannot be written as YAML or JSON.
pub(super) fn text(
    answer: &Answer<'_>,
    before: &Value,
    form: OutputForm,
) -> anyhow::Result<String> {
    Ok(match form {
        OutputForm::Json => serde_json::to_string_pretty(answer)? + "\n",
        OutputForm::Yaml => serde_saphyr::to_string(answer)?,
        OutputForm::Text => match &answer.object {
            Some(object) => difference(&yaml(before)?, &yaml(object)?, answer.operation),
            None => value(&answer.fields)?,
        },
    })
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

/// Returns the fields of an answer as YAML. The status of an object is shown alone.
fn value(fields: &Map<String, Value>) -> anyhow::Result<String> {
    match fields.get("rawStatus") {
        Some(status) => yaml(status),
        None => Ok(serde_saphyr::to_string(fields)?),
    }
}

/// Returns the differences in the unified form of `diff`.
fn difference(before: &str, after: &str, operation: &str) -> String {
    if before == after {
        return format!("{operation} changes nothing\n");
    }
    let mut lines = vec![
        format!("{REMOVED}--- before{REMOVED:#}"),
        format!("{ADDED}+++ after {operation}{ADDED:#}"),
    ];
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        lines.push(format!("{POSITION}{}{POSITION:#}", hunk.header()));
        lines.extend(hunk.iter_changes().map(|change| {
            let line = change.value().trim_end_matches('\n');
            match change.tag() {
                ChangeTag::Equal => format!(" {line}"),
                ChangeTag::Delete => format!("{REMOVED}-{line}{REMOVED:#}"),
                ChangeTag::Insert => format!("{ADDED}+{line}{ADDED:#}"),
            }
        }));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;

    fn of(answered: &Answer<'_>, former: &Value, form: OutputForm) -> String {
        let text = text(answered, former, form).unwrap();
        anstream::adapter::strip_str(&text).to_string()
    }

    fn changed(object: Value) -> Answer<'static> {
        Answer {
            operation: "ReviseReplica",
            fields: Map::new(),
            patch: serde_json::from_value(json!([])).unwrap(),
            object: Some(Cow::Owned(object)),
        }
    }

    #[test]
    fn a_change_is_shown_as_differences() {
        let former = json!({"kind": "K", "spec": {"replicas": 3}});
        let after = json!({"kind": "K", "spec": {"replicas": 1}});
        let text = of(&changed(after), &former, OutputForm::Text);
        let expected = "--- before\n+++ after ReviseReplica\n@@ -1,3 +1,3 @@\n kind: K\n spec:\n-  replicas: 3\n+  replicas: 1\n";
        assert_eq!(text, expected);
        let text = of(&changed(former.clone()), &former, OutputForm::Text);
        assert_eq!(text, "ReviseReplica changes nothing\n");
    }

    #[test]
    fn a_value_is_shown_as_yaml_or_json() {
        let answered = |fields: Value| Answer {
            operation: "InterpretStatus",
            fields: fields.as_object().cloned().unwrap(),
            patch: None,
            object: None,
        };
        let healthy = answered(json!({"healthy": true}));
        assert_eq!(
            of(&healthy, &Value::Null, OutputForm::Text),
            "healthy: true\n"
        );
        let json = of(&healthy, &Value::Null, OutputForm::Json);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            json,
            json!({"operation": "InterpretStatus", "healthy": true})
        );
        let yaml = of(&healthy, &Value::Null, OutputForm::Yaml);
        assert_eq!(yaml, "operation: InterpretStatus\nhealthy: true\n");
        let status = answered(json!({"rawStatus": {"replicas": 2}}));
        assert_eq!(of(&status, &Value::Null, OutputForm::Text), "replicas: 2\n");
    }
}
