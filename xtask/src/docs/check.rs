//! Checks the links, paths, commands and names in the documentation.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use harness::checkout::root;

use super::citations::{self, broken, has_extension};
use super::markdown::Document;
use super::names::Names;
use crate::build::tracked;

/// Maximum number of lines in the README.
const README_LINES: usize = 150;
const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn problems() -> anyhow::Result<Vec<String>> {
    let files = tracked()?;
    let is_page = |file: &&String| {
        has_extension(file, &["md"])
            && (file.starts_with("docs/")
                || matches!(file.as_str(), "README.md" | "CONTRIBUTING.md"))
    };
    let pages: Vec<_> = files.iter().filter(is_page).collect();
    let folders = top_folders(&files);
    let names = Names::read()?;
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(root().join(page)).with_context(|| (*page).clone())?;
        let document = Document::parse(&text);
        for link in &document.links {
            if let Some(problem) = problem_of_link(page, &link.text)? {
                problems.push(format!("{page}:{}: {problem}", link.line));
            }
        }
        for span in &document.spans {
            let problem =
                problem_of_path(&span.text, &folders).or_else(|| names.problem_of_span(&span.text));
            problems.extend(problem.map(|problem| format!("{page}:{}: {problem}", span.line)));
        }
        for line in &document.blocks {
            let problem = names.problem_of_line(&line.text);
            problems.extend(problem.map(|problem| format!("{page}:{}: {problem}", line.line)));
        }
    }
    problems.extend(summary(&pages));
    problems.extend(readme()?);
    problems.extend(citations::problems()?);
    Ok(problems)
}

/// Returns the folders at the root that contain files.
fn top_folders(files: &[String]) -> Vec<&str> {
    let mut folders: Vec<_> = files
        .iter()
        .filter_map(|file| Some(file.split_once('/')?.0))
        .collect();
    folders.dedup();
    folders
}

fn problem_of_link(page: &str, target: &str) -> anyhow::Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let path = match path {
        "" => PathBuf::from(page),
        path => Path::new(page)
            .parent()
            .unwrap_or_else(|| Path::new(""))
            .join(path),
    };
    broken(&format!("{}{anchor}", normal(&path).display()))
}

/// Returns the path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Returns the problem of a code span that looks like a path in the repository, or like a function in a source file:
/// `path.rs::name`.
fn problem_of_path(span: &str, folders: &[&str]) -> Option<String> {
    let (path, function) = match span.split_once("::") {
        Some((path, function)) => (path, Some(function)),
        None => (span, None),
    };
    let (first, _) = path.split_once('/')?;
    let is_path = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    if !is_path || !folders.contains(&first) {
        return None;
    }
    let file = root().join(path);
    if !file.exists() {
        return Some(format!("{path} does not exist"));
    }
    let function = function?;
    let text = fs::read_to_string(file).unwrap_or_default();
    (!has_function(&text, function)).then(|| format!("{path} has no function {function}"))
}

/// Returns whether the source declares a function with this name.
fn has_function(text: &str, name: &str) -> bool {
    let declared = text.split("fn ").skip(1);
    let mut names = declared.filter_map(|rest| {
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
    });
    names.any(|declared| declared == name)
}

/// Returns a problem for each page that is missing in the summary of the book.
fn summary(pages: &[&String]) -> Vec<String> {
    let summary = fs::read_to_string(root().join(SUMMARY)).unwrap_or_default();
    let listed: Vec<_> = Document::parse(&summary)
        .links
        .into_iter()
        .map(|link| format!("docs/{}", link.text))
        .collect();
    let missing = pages.iter().filter(|page| {
        page.starts_with("docs/") && *page.as_str() != *SUMMARY && !listed.contains(page)
    });
    missing
        .map(|page| format!("{SUMMARY}: {page} is missing"))
        .collect()
}

fn readme() -> anyhow::Result<Option<String>> {
    let lines = fs::read_to_string(root().join("README.md"))?
        .lines()
        .count();
    Ok((lines > README_LINES)
        .then(|| format!("README.md has {lines} lines, more than {README_LINES}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_page() {
        assert_eq!(
            problem_of_link("docs/reference/flags.md", "../../README.md").unwrap(),
            None
        );
        assert_eq!(
            problem_of_link("README.md", "https://example.com/x").unwrap(),
            None
        );
        assert!(
            problem_of_link("README.md", "no-such.md")
                .unwrap()
                .is_some()
        );
        assert!(
            problem_of_link("README.md", "#no-such-heading")
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn paths_of_the_repository_exist() {
        let folders = ["api", "src"];
        assert_eq!(problem_of_path("api/src/lib.rs", &folders), None);
        assert_eq!(problem_of_path("workloads/status", &folders), None);
        assert!(problem_of_path("src/no_such.rs", &folders).is_some());
    }

    #[test]
    fn functions_of_the_repository_exist() {
        let problem = |span| problem_of_path(span, &["xtask"]);
        let this = "xtask/src/docs/check.rs";
        assert_eq!(
            problem("xtask/src/docs/check.rs::functions_of_the_repository_exist"),
            None
        );
        // The beginning of a function name is not a valid name.
        assert_eq!(
            problem("xtask/src/docs/check.rs::functions_of_the_repository"),
            Some(format!(
                "{this} has no function functions_of_the_repository"
            ))
        );
        assert_eq!(
            problem("xtask/src/docs/no_such.rs::problems"),
            Some("xtask/src/docs/no_such.rs does not exist".to_owned())
        );
        assert_eq!(problem("multicluster::clock"), None);
    }
}
