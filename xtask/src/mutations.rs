//! `cargo xtask test mutations`: shows that each invariant's test fails when the invariant is broken.
//!
//! `tests/mutations.yaml` has the mutations. Each of them is applied to a copy of the checkout, and its test must fail.
//! The copy and its build are kept below Cargo's target directory, so a later run compiles only what changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};
use harness::checkout::root;
use serde::Deserialize;

use crate::build::target;
use crate::output::{print, tell};

/// One mutation of the source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    /// Number of the invariant, such as `I-8`.
    pub(crate) invariant: String,
    /// What the mutated program does wrong.
    pub(crate) breaks: String,
    /// The mutated file, relative to the checkout.
    pub(crate) file: String,
    /// Text that is exactly once in the file.
    find: String,
    /// The text that replaces it.
    replace: String,
    /// The package of the test.
    package: String,
    /// `lib`, or the name of a test binary.
    target: String,
    /// The name of the test.
    pub(crate) test: String,
}

/// Returns the mutations of `tests/mutations.yaml`.
pub(crate) fn mutations() -> anyhow::Result<Vec<Mutation>> {
    let path = root().join("tests/mutations.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

/// Runs the mutations of an invariant, or all. Fails if a test passes although its invariant is broken.
pub(crate) fn run(filter: Option<&str>) -> anyhow::Result<()> {
    let all = mutations()?;
    let chosen: Vec<_> = all
        .iter()
        .filter(|it| filter.is_none_or(|filter| it.invariant == filter))
        .collect();
    ensure!(
        !chosen.is_empty(),
        "no mutation of {}: write the number as in I-8",
        filter.unwrap_or_default()
    );
    let scratch = Scratch::new()?;
    let mut problems = 0;
    for mutation in chosen {
        let Mutation {
            invariant,
            breaks,
            test,
            ..
        } = mutation;
        tell(format!("== {invariant}: {breaks}"));
        let outcome = match scratch.outcome(mutation) {
            Ok(Outcome::Fails) => "fails, as it should".to_owned(),
            Ok(Outcome::Passes) => {
                problems += 1;
                "PASSES although the invariant is broken".to_owned()
            }
            Err(error) => {
                problems += 1;
                format!("not run: {error:#}")
            }
        };
        print(format!("{invariant} {test}: {outcome}"))?;
    }
    ensure!(problems == 0, "{problems} mutations are not noticed");
    Ok(())
}

enum Outcome {
    Fails,
    Passes,
}

/// A copy of the checkout.
struct Scratch {
    directory: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Copies the files that git tracks or would add. A file that is equal keeps its time, so that Cargo does not
    /// compile it again.
    fn new() -> anyhow::Result<Self> {
        let list = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root())
            .output()
            .context("git not started")?;
        ensure!(list.status.success(), "git ls-files failed");
        let base = target().join("mutations");
        let directory = base.join("checkout");
        for name in String::from_utf8(list.stdout)?.split('\0') {
            let from = root().join(name);
            if !name.is_empty() && from.is_file() {
                write_if_different(&directory.join(name), &fs::read(from)?)?;
            }
        }
        Ok(Self {
            directory,
            target: base.join("target"),
        })
    }

    /// Runs the test of a mutation on the mutated copy. Restores the file afterwards.
    fn outcome(&self, mutation: &Mutation) -> anyhow::Result<Outcome> {
        let path = self.directory.join(&mutation.file);
        let original = fs::read_to_string(&path).with_context(|| mutation.file.clone())?;
        let count = original.matches(&mutation.find).count();
        ensure!(
            count == 1,
            "{}: {count} times {:?}",
            mutation.file,
            mutation.find
        );
        fs::write(&path, original.replace(&mutation.find, &mutation.replace))?;
        let outcome = self.test(mutation);
        fs::write(&path, original)?;
        outcome
    }

    fn test(&self, mutation: &Mutation) -> anyhow::Result<Outcome> {
        let built = self.cargo(mutation, &["--no-run"])?;
        ensure!(
            built.status.success(),
            "the mutated source does not compile:\n{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let ran = self.cargo(mutation, &["--", "--exact", &mutation.test])?;
        let printed = String::from_utf8_lossy(&ran.stdout);
        if printed.contains("running 0 tests") || !printed.contains("running 1 test") {
            bail!("{} has no test {}", mutation.package, mutation.test);
        }
        Ok(match ran.status.success() {
            true => Outcome::Passes,
            false => Outcome::Fails,
        })
    }

    fn cargo(&self, mutation: &Mutation, args: &[&str]) -> anyhow::Result<Output> {
        let target: &[&str] = match mutation.target.as_str() {
            "lib" => &["--lib"],
            name => &["--test", name],
        };
        Command::new(env!("CARGO"))
            .args(["test", "--locked", "--package", &mutation.package])
            .args(target)
            .args(args)
            .current_dir(&self.directory)
            .env("CARGO_TARGET_DIR", &self.target)
            .output()
            .context("cargo not started")
    }
}

fn write_if_different(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|former| former == content) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content).with_context(|| path.display().to_string())
}
