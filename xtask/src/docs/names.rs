//! Names that the documentation may use: flags and metrics in the reference, commands of xtask, and words in the
//! sources.

use std::collections::BTreeSet;
use std::fs;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use harness::checkout::root;

use super::citations::has_extension;
use crate::build::tracked;

/// Flags of other programs that the documentation mentions without the name of the program.
const OF_OTHERS: [&str; 3] = ["--controllers", "--nocapture", "--test-threads"];
/// Suffixes of the sample names of a histogram.
const SAMPLES: [&str; 3] = ["_bucket", "_count", "_sum"];

pub(super) struct Names {
    flags: BTreeSet<String>,
    metrics: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Names {
    pub(super) fn read() -> anyhow::Result<Self> {
        let page = |name: &str| {
            fs::read_to_string(root().join("docs/reference").join(name)).unwrap_or_default()
        };
        let first_cells = |text: &str, is_it: fn(&str) -> bool| -> BTreeSet<String> {
            let cells = text
                .lines()
                .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
            let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
            spans
                .filter(|span| is_it(span))
                .map(str::to_owned)
                .collect()
        };
        let mut flags = first_cells(&page("flags.md"), |span| span.starts_with("--"));
        flags.extend(flags_of(&crate::Args::command()));
        flags.extend(OF_OTHERS.map(str::to_owned));
        let mut words = BTreeSet::new();
        for file in tracked()? {
            let is_source = has_extension(&file, &["rs", "go", "yaml", "toml", "lua", "tsv"])
                || file.starts_with("docs/reference/");
            if let (true, Ok(text)) = (is_source, fs::read_to_string(root().join(&file))) {
                let found = text.split(|c: char| !c.is_ascii_alphanumeric());
                words.extend(found.filter(|word| is_camel_case(word)).map(str::to_owned));
            }
        }
        Ok(Self {
            flags,
            metrics: first_cells(&page("metrics.md"), |_| true),
            words,
        })
    }

    /// Returns the problem of a code span, if it has one.
    pub(super) fn problem_of_span(&self, span: &str) -> Option<String> {
        if let Some(problem) = self
            .problem_of_metrics(span)
            .or_else(|| problem_of_command(span))
        {
            return Some(problem);
        }
        let end = span.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let flag = span.get(..end.unwrap_or(span.len())).unwrap_or_default();
        if flag.len() > 2 && flag.starts_with("--") && !self.flags.contains(flag) {
            return Some(format!("no flag is called {flag}"));
        }
        if is_camel_case(span) && !self.words.contains(span) {
            return Some(format!("nothing in the sources is called {span}"));
        }
        None
    }

    /// Returns the problem of a line in a code block, if it has one.
    pub(super) fn problem_of_line(&self, line: &str) -> Option<String> {
        let of_program = || {
            let (_, args) = line.split_once("compute-federation ")?;
            let args = args.split('|').next().unwrap_or_default();
            let flags = args
                .split_whitespace()
                .filter(|word| word.starts_with("--"));
            let mut names = flags.map(|flag| flag.split('=').next().unwrap_or_default());
            let unknown = names.find(|flag| !self.flags.contains(*flag))?;
            Some(format!("no flag is called {unknown}"))
        };
        self.problem_of_metrics(line)
            .or_else(|| problem_of_command(line))
            .or_else(of_program)
    }

    fn problem_of_metrics(&self, text: &str) -> Option<String> {
        let found = text
            .match_indices("compute_federation_")
            .filter_map(|(at, _)| {
                let rest = text.get(at..)?;
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                rest.get(..end.unwrap_or(rest.len()))
            });
        let is_known = |name: &str| {
            let of_histogram = SAMPLES
                .iter()
                .filter_map(|suffix| name.strip_suffix(suffix));
            // A name that ends with `_` is a prefix. It is known if any metric starts with it.
            let is_prefix =
                name.ends_with('_') && self.metrics.iter().any(|metric| metric.starts_with(name));
            is_prefix
                || of_histogram
                    .chain([name])
                    .any(|name| self.metrics.contains(name))
        };
        let unknown = found.into_iter().find(|name| !is_known(name))?;
        Some(format!("no metric is called {unknown}"))
    }
}

fn flags_of(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|arg| arg.get_long());
    let own = own.map(|flag| format!("--{flag}"));
    own.chain(command.get_subcommands().flat_map(flags_of))
        .collect()
}

/// Parses each `cargo xtask` command in a text with the real command-line parser. Returns the first problem.
fn problem_of_command(text: &str) -> Option<String> {
    for rest in text.split("cargo xtask").skip(1) {
        let end = rest
            .find(['|', '#', '>', '&', ';', ')', '`'])
            .unwrap_or(rest.len());
        let words = rest.get(..end).unwrap_or_default().split_whitespace();
        let words: Vec<_> = words.map(|word| word.trim_matches(['"', '\''])).collect();
        if words
            .iter()
            .any(|word| matches!(*word, "…" | "...") || word.contains("…"))
        {
            continue;
        }
        let mut command = vec!["cargo xtask"];
        command.extend(&words);
        let Err(error) = crate::Args::command().try_get_matches_from(command) else {
            continue;
        };
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand => {}
            _ => return Some(format!("no command `cargo xtask {}`", words.join(" "))),
        }
    }
    None
}

/// Returns whether this is a name of at least two words, such as `CellsReporting`.
fn is_camel_case(text: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase();
    text.starts_with(is_upper)
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.chars().skip(1).any(is_upper)
        && text.chars().any(|c| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        Names {
            flags: set("--max-body"),
            metrics: set("compute_federation_reconcile_seconds"),
            words: set("CellsReporting"),
        }
    }

    #[test]
    fn names_that_do_not_exist_are_found() {
        let names = names();
        for good in [
            "--max-body=1",
            "compute_federation_reconcile_seconds_bucket{a=\"b\"}",
            "compute_federation_",
            "CellsReporting",
            "cargo xtask",
            "cargo xtask demo --once",
            "cargo xtask …",
            "cargo xtask test unit",
            "kubectl get x",
            "Ready",
        ] {
            assert_eq!(names.problem_of_span(good), None, "{good}");
        }
        for bad in [
            "--max-bodies",
            "compute_federation_reconciled",
            "CellsReport",
            "cargo xtask no-such",
            "cargo xtask demo --no-such",
        ] {
            assert!(names.problem_of_span(bad).is_some(), "{bad}");
        }
        assert_eq!(
            names.problem_of_line("compute-federation --max-body=1 | kubectl --x"),
            None
        );
        assert!(
            names
                .problem_of_line("    compute-federation --no-such")
                .is_some()
        );
    }
}
