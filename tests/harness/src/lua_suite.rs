//! The conformance suite of Karmada's own customizations, taken from Karmada's module, with Karmada's engine as the judge.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use api::karmada::ResourceInterpreterCustomization;
use serde::Deserialize;
use serde::de::DeserializeOwned;
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
#[derive(Debug, Deserialize)]
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
            std::fs::read(tools().join(file))?.hash(&mut hasher);
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

    fn run(&self, command: &str, input: &[u8]) -> anyhow::Result<Vec<u8>> {
        run(
            &self.program,
            &[command.as_ref(), self.customizations.as_os_str()],
            input,
        )
    }
}

fn run(program: &Path, args: &[&std::ffi::OsStr], input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // The program reads and writes at the same time.
    let output = std::thread::scope(|scope| {
        let written = scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output();
        // A program that has failed does not read its input, so its exit code says more.
        drop(written.join());
        output
    })?;
    ensure!(output.status.success(), "{} failed", program.display());
    Ok(output.stdout)
}

fn lines<T: DeserializeOwned>(output: &[u8]) -> anyhow::Result<Vec<T>> {
    let lines = serde_json::Deserializer::from_slice(output).into_iter();
    Ok(lines.collect::<Result<_, _>>()?)
}
