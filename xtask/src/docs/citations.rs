//! Checks the citations of documents in sources. Sources may cite only documents in the repository.

use std::fs;
use std::path::Path;

use anyhow::Context;
use harness::checkout::root;

use super::markdown::Document;
use crate::build::tracked;

/// Documents that are not in the repository. If a file below `docs` has the same name, it may be cited by its path.
const ELSEWHERE: [&str; 5] = [
    "compute",
    "karmada",
    "platform",
    "architecture",
    "compute-late",
];
/// The only file that may contain these names.
const THIS_FILE: &str = "xtask/src/docs/citations.rs";

/// Returns the Rust files below a folder, without files of tests.
pub(super) fn rust_files(folder: &str) -> anyhow::Result<Vec<String>> {
    let files = tracked()?.into_iter();
    let is_source = |file: &String| {
        file.starts_with(&format!("{folder}/"))
            && has_extension(file, &["rs"])
            && !file.ends_with("/tests.rs")
            && !file.contains("/tests/")
    };
    Ok(files.filter(is_source).collect())
}

pub(super) fn has_extension(file: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(file).extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| extensions.contains(&it))
}

/// Returns the problems of citations in sources. The cited document, or the cited place in the document, does not
/// exist.
pub(super) fn problems() -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in tracked()? {
        if !has_extension(&file, &["rs", "go", "yaml", "yml", "toml"]) || file == THIS_FILE {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&file)) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", index + 1);
            if let Some(name) = elsewhere(line) {
                problems.push(format!("{place}: {name} is not in the repository"));
            }
            for citation in citations(line) {
                if let Some(problem) = broken(citation)? {
                    problems.push(format!("{place}: {problem}"));
                }
            }
        }
    }
    Ok(problems)
}

/// Returns the document that a line cites although the document is not in the repository.
fn elsewhere(line: &str) -> Option<String> {
    let is_boundary =
        |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '/' | '-' | '_'));
    for name in ELSEWHERE {
        let name = format!("{name}.md");
        let mut found = line.match_indices(&name);
        if found.any(|(at, _)| {
            is_boundary(line.get(..at).and_then(|before| before.chars().next_back()))
        }) {
            return Some(name);
        }
    }
    let mut lessons = line.match_indices("P-").filter_map(|(at, _)| {
        let number = line.get(at + 2..)?;
        let digits = number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len());
        let before = line.get(..at)?.chars().next_back();
        (digits > 0 && is_boundary(before))
            .then(|| format!("P-{}", number.get(..digits).unwrap_or_default()))
    });
    lessons.next()
}

/// Returns the documents and anchors that a line cites: `docs/x.md`, `docs/x.md#anchor`.
fn citations(line: &str) -> Vec<&str> {
    let found = line.match_indices("docs/").filter_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')) {
            return None;
        }
        let rest = line.get(at..)?;
        let end = rest.find(|c: char| {
            !c.is_ascii_alphanumeric() && !matches!(c, '/' | '.' | '-' | '_' | '#')
        });
        let citation = rest
            .get(..end.unwrap_or(rest.len()))?
            .trim_end_matches(['.', '-']);
        citation.contains(".md").then_some(citation)
    });
    found.collect()
}

/// Returns the problem of a link target. The target is relative to the root of the checkout.
pub(super) fn broken(target: &str) -> anyhow::Result<Option<String>> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let file = root().join(path);
    if !file.exists() {
        return Ok(Some(format!("{path} does not exist")));
    }
    let Some(anchor) = anchor else {
        return Ok(None);
    };
    let text = fs::read_to_string(&file).with_context(|| path.to_owned())?;
    let exists = Document::parse(&text).anchors.iter().any(|it| it == anchor);
    Ok((!exists).then(|| format!("{path} has no heading #{anchor}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_kept_elsewhere_are_found() {
        assert_eq!(
            elsewhere("// (compute.md 1.2)").as_deref(),
            Some("compute.md")
        );
        assert_eq!(elsewhere("// see (P-17).").as_deref(), Some("P-17"));
        for line in [
            "docs/develop/architecture.md",
            "HTTP-2",
            "UP-1",
            "P-x",
            "my-compute.md",
        ] {
            assert_eq!(elsewhere(line), None, "{line}");
        }
    }

    #[test]
    fn citations_end_before_punctuation() {
        assert_eq!(
            citations("See docs/concepts/a-b.md. And (docs/c.md#d-e), x/docs/n.md"),
            ["docs/concepts/a-b.md", "docs/c.md#d-e"]
        );
        assert!(citations("docs/reference is a folder").is_empty());
    }
}
