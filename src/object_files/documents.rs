//! Reads files, and the documents in them.

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Returns the name of a file in errors.
pub(super) fn shown(file: &Path) -> String {
    match is_stdin(file) {
        true => "the standard input".to_owned(),
        false => file.display().to_string(),
    }
}

/// Returns the text of a file.
pub(super) fn text(file: &Path) -> anyhow::Result<String> {
    let text = match is_stdin(file) {
        true => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(file),
    };
    text.with_context(|| shown(file))
}

/// Returns the documents of a file that are not empty.
pub(super) fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    documents_in(&shown(file), &text(file)?)
}

/// Returns the documents of a text that are not empty. `name` is the name of its file in errors.
pub(super) fn documents_in(name: &str, text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_saphyr::from_multiple(text);
    let mut documents: Vec<Value> = documents.with_context(|| name.to_owned())?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Checks that a value has no other fields than these. `path` is the path of the value, with a dot.
pub(super) fn check_known(path: &str, value: Option<&Value>, known: &[&str]) -> anyhow::Result<()> {
    let mut names = value.and_then(Value::as_object).into_iter().flatten();
    match names.find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => bail!(
            "{path}{name}: unknown field, known are {}",
            known.join(", ")
        ),
        None => Ok(()),
    }
}
