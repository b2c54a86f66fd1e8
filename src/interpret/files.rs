//! Reads objects and lists from files in YAML or JSON.

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

/// Reads a file with one object. `-` is the standard input.
///
/// # Errors
///
/// If the file cannot be read, or has no object or several.
pub(super) fn object(file: &Path) -> anyhow::Result<Value> {
    let mut documents = documents(file)?;
    match (documents.pop(), documents.len()) {
        (Some(object @ Value::Object(_)), 0) => Ok(object),
        (None, _) => bail!("{} is empty", file.display()),
        (Some(_), 0) => bail!("{} has no object", file.display()),
        (Some(_), others) => bail!(
            "{} has {} documents, and one object is needed",
            file.display(),
            others + 1
        ),
    }
}

/// Reads a file with a list, or with one document for each item.
///
/// # Errors
///
/// If the file cannot be read, or has something that is no object.
pub(super) fn items(file: &Path) -> anyhow::Result<Vec<Value>> {
    let documents = documents(file)?.into_iter();
    let items: Vec<_> = documents
        .flat_map(|document| match document {
            Value::Array(items) => items,
            item => vec![item],
        })
        .collect();
    match items.iter().all(Value::is_object) {
        true => Ok(items),
        false => bail!("{} has an item that is no object", file.display()),
    }
}

/// Returns the documents of a file that are not empty.
fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let name = || file.display().to_string();
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(file),
    };
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&text.with_context(name)?).with_context(name)?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_file_has_one_object() {
        for text in ["a: 1", "---\na: 1\n---\n", r#"{"a": 1}"#] {
            assert_eq!(
                object(file(text).path()).unwrap(),
                json!({"a": 1}),
                "{text}"
            );
        }
        for (text, problem) in [
            ("", "is empty"),
            ("# nothing", "is empty"),
            ("a: 1\n---\nb: 2", "has 2 documents"),
            ("[1]", "has no object"),
            ("a: [", ""),
        ] {
            let error = object(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let absent = object(Path::new("absent.yaml")).unwrap_err();
        assert_eq!(absent.to_string(), "absent.yaml");
    }

    #[test]
    fn items_are_a_list_or_documents() {
        let expected = [json!({"a": 1}), json!({"a": 2})];
        for text in ["[{a: 1}, {a: 2}]", "a: 1\n---\na: 2", "[{a: 1}]\n---\na: 2"] {
            assert_eq!(items(file(text).path()).unwrap(), expected, "{text}");
        }
        assert!(items(file("").path()).unwrap().is_empty());
        items(file("[1]").path()).unwrap_err();
    }
}
