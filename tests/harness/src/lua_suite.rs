//! The conformance suite of Karmada's own customizations, taken from Karmada's module, with Karmada's engine as the judge.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::karmada::ResourceInterpreterCustomization;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go::{BuildCache, Module, tools};

const PROGRAM: &str = "suite";
const KARMADA: &str = "github.com/karmada-io/karmada";
/// The customizations and their cases, in Karmada's module.
const CUSTOMIZATIONS: &str = "pkg/resourceinterpreter/default/thirdparty/resourcecustomizations";

/// The suite.
#[derive(Debug)]
pub struct LuaSuite {
    program: PathBuf,
    customizations: PathBuf,
}

/// One case.
#[derive(Debug, Deserialize, Serialize)]
pub struct LuaCase {
    /// Customization, operation and title.
    pub name: String,
    /// The scripts.
    pub customization: ResourceInterpreterCustomization,
    /// The request, as Karmada's client sends it.
    pub review: Value,
}

/// How the answer to a case differs from other results. An empty text is no difference.
#[derive(Debug, Deserialize)]
pub struct LuaVerdict {
    /// The name of the case.
    pub name: String,
    /// The difference from the result that the suite expects.
    pub expected: String,
    /// The difference from the result of Karmada's engine.
    pub engine: String,
}

/// A request, and our answer to it.
#[derive(Debug)]
pub struct AnsweredReview<'a> {
    /// Identifies the comparison.
    pub number: u64,
    /// Name of the customization.
    pub customization: &'a str,
    /// The request, as JSON.
    pub review: &'a [u8],
    /// The body of the answer.
    pub answer: &'a [u8],
}

/// How an answer compares with the result of Karmada's engine.
#[derive(Debug, Deserialize)]
pub struct Comparison {
    /// The number of the request.
    pub number: u64,
    /// The result of the comparison.
    pub outcome: ComparisonOutcome,
    /// The result that Karmada's client takes from the answer, if the outcome is `Unstable` or `Different`.
    pub ours: Option<ComparedResult>,
    /// The result of the engine, if the outcome is `Unstable` or `Different`.
    pub engine: Option<ComparedResult>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparisonOutcome {
    /// The same result.
    Equal,
    /// An error of both.
    Failed,
    /// An error of both: the answer says that the call was successful, and Karmada's client refuses it.
    Malformed,
    /// The results of the engine differ between its runs. In one of them, it is equal to the answer.
    Unstable,
    /// Anything else.
    Different,
}

/// A result that is not equal to another one.
#[derive(Debug, Deserialize)]
pub struct ComparedResult {
    /// The result. An error has none.
    pub value: Value,
    /// Text of the error. Empty if there is none.
    pub error: String,
}

impl LuaSuite {
    /// Returns the suite of the version of Karmada that the tests use. If the cache lacks its program, builds it and
    /// calls `progress`.
    ///
    /// # Errors
    ///
    /// When Go is missing, or the program cannot be built.
    pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<Self> {
        let module = Module::at("");
        let mut hasher = DefaultHasher::new();
        Module::at(PROGRAM).hash_sources(&mut hasher)?;
        for file in ["go.mod", "go.sum"] {
            fs::read(tools().join(file))?.hash(&mut hasher);
        }
        module.run(&["env", "GOVERSION"])?.hash(&mut hasher);
        let cache = BuildCache::lock()?;
        let directory = cache
            .directory()
            .join(format!("{PROGRAM}-{:016x}", hasher.finish()));
        let flags = ["-ldflags", "-s -w"];
        let package = format!("./{PROGRAM}");
        module.build(&directory, &[(PROGRAM, &package)], &flags, &mut progress)?;
        Ok(Self {
            program: directory.join(PROGRAM),
            customizations: module.sources(KARMADA)?.join(CUSTOMIZATIONS),
        })
    }

    /// Returns all cases.
    ///
    /// # Errors
    ///
    /// When the suite cannot be read.
    pub fn cases(&self) -> anyhow::Result<Vec<LuaCase>> {
        lines(&self.run("cases", &[])?)
    }

    /// Compares the answers to all cases. An answer is the body of a response.
    ///
    /// # Errors
    ///
    /// When an answer is missing or malformed.
    pub fn judge(&self, answers: &[Vec<u8>]) -> anyhow::Result<Vec<LuaVerdict>> {
        lines(&self.run("judge", &answers.join(&b'\n'))?)
    }

    /// Calls a webhook for each case, with Karmada's client. `ca` is a file with the CA of the webhook.
    ///
    /// # Errors
    ///
    /// When the program fails.
    pub fn call(&self, url: &str, ca: &Path) -> anyhow::Result<Vec<LuaVerdict>> {
        let mut program = self.command("call");
        let output = program.arg(url).arg(ca).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{} failed", self.program.display());
        lines(&output.stdout)
    }

    /// Returns the program that measures each case for this time and prints a line for each: calls of Karmada's engine,
    /// or through a webhook with Karmada's client. `webhook` is the URL of the webhook and a file with its CA.
    pub fn timer(
        &self,
        budget: Duration,
        webhook: Option<(&str, &Path)>,
    ) -> (PathBuf, Vec<OsString>) {
        let budget = format!("{}ms", budget.as_millis());
        let mut args = vec![
            "time".into(),
            self.customizations.clone().into(),
            budget.into(),
        ];
        if let Some((url, ca)) = webhook {
            args.extend([url.into(), ca.into()]);
        }
        (self.program.clone(), args)
    }

    /// Compares answers with the results of Karmada's engine. `write` passes answers to its argument, in another
    /// thread. `read` is called for each comparison, in the same order.
    ///
    /// # Errors
    ///
    /// When the program fails, or `write`.
    pub fn compare(
        &self,
        write: impl FnOnce(&mut AnswerWriter) -> anyhow::Result<()> + Send,
        mut read: impl FnMut(Comparison),
    ) -> anyhow::Result<()> {
        let mut child = self.start("compare")?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = child.stdout.take().context("no standard output")?;
        std::thread::scope(|scope| {
            let written = scope.spawn(move || {
                let mut answers = AnswerWriter(BufWriter::new(stdin));
                write(&mut answers)?;
                Ok(answers.0.flush()?)
            });
            let lines = serde_json::Deserializer::from_reader(BufReader::new(stdout)).into_iter();
            for comparison in lines {
                read(comparison?);
            }
            let status = child.wait()?;
            ensure!(status.success(), "{} failed", self.program.display());
            let written = written.join();
            written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn run(&self, command: &str, input: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut child = self.start(command)?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        // The program reads and writes at the same time.
        let output = std::thread::scope(|scope| {
            let written = scope.spawn(move || stdin.write_all(input));
            let output = child.wait_with_output();
            // A program that has failed does not read its input, so its exit code says more.
            drop(written.join());
            output
        })?;
        let program = self.program.display();
        ensure!(output.status.success(), "{program} failed");
        Ok(output.stdout)
    }

    fn start(&self, command: &str) -> anyhow::Result<Child> {
        let mut program = self.command(command);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = program.spawn();
        started.with_context(|| self.program.display().to_string())
    }

    fn command(&self, command: &str) -> Command {
        let mut program = Command::new(&self.program);
        program.arg(command).arg(&self.customizations);
        program
    }
}

/// Writes the customizations of these cases into a directory, one file for each.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write_customizations(cases: &[LuaCase], directory: &Path) -> anyhow::Result<()> {
    for case in cases {
        let name = &case.customization.metadata.name;
        let name = name.as_deref().context("a customization has no name")?;
        let text = serde_json::to_string(&case.customization)?;
        fs::write(directory.join(format!("{name}.json")), text)?;
    }
    Ok(())
}

/// Passes answers to a comparison.
#[derive(Debug)]
pub struct AnswerWriter(BufWriter<ChildStdin>);

impl AnswerWriter {
    /// Passes one answer.
    ///
    /// # Errors
    ///
    /// When the program has ended.
    pub fn write(&mut self, answered: &AnsweredReview<'_>) -> anyhow::Result<()> {
        let customization = serde_json::to_string(answered.customization)?;
        let number = answered.number;
        let line = &mut self.0;
        write!(
            line,
            "{{\"number\":{number},\"customization\":{customization},\"review\":"
        )?;
        line.write_all(answered.review)?;
        line.write_all(b",\"answer\":")?;
        line.write_all(answered.answer)?;
        Ok(line.write_all(b"}\n")?)
    }
}

fn lines<T: DeserializeOwned>(output: &[u8]) -> anyhow::Result<Vec<T>> {
    let lines = serde_json::Deserializer::from_slice(output).into_iter();
    Ok(lines.collect::<Result<_, _>>()?)
}
