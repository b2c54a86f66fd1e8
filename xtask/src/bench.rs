//! `cargo xtask bench`: compares compute-federation with the alternatives in one run.

mod admission;
mod agreement;
mod bodies;
mod federation;
mod former;
mod hostile;
mod interpreter;
mod measure;
mod percentile;
mod planes;
mod scripts;
mod servers;
mod webhook;
mod wire;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use harness::rivals::Rivals;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde::Serialize;

use crate::build;
use bodies::Body;

/// Runs a benchmark, prints a table and writes it to target/bench/NAME.json.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The benchmark.
    #[arg(value_enum)]
    name: Name,
    /// Number of turns of each server. The best turn counts, because other load disturbed it least. With --former, the
    /// median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// For `federation`: number of Workloads, created one after the other.
    #[arg(long, default_value_t = 200)]
    workloads: usize,
    /// Measures this binary, for example a release build of a former commit, instead of that of the checkout. It must
    /// understand the flags that the benchmark sets.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// For `webhook` and `admission`: compares with this binary of a former commit, in short turns, and measures nothing
    /// else. More rounds give a surer ratio.
    #[arg(long)]
    former: Option<PathBuf>,
    #[command(flatten)]
    sizes: planes::Sizes,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Compares the interpreter's server with a Go webhook of the same semantics and with a minimal server.
    Webhook,
    /// Compares interpretation, alone and called by Karmada, with Karmada's Lua engine.
    Interpreter,
    /// Compares the scripts of Karmada's own customizations with Karmada's Lua engine, and measures native calls beside
    /// scripts that do not end.
    Scripts,
    /// Compares admission of Workloads with a Go webhook of the same rules and with a minimal server.
    Admission,
    /// Measures small calls, probes and the lease of a manager while callers send the bodies that need most time.
    Hostile,
    /// Measures a cell that runs an Instance for each of many projects, with quota. It is also a part of `planes`.
    Cell,
    /// Measures the management controllers with many simulated lower hubs, which have 100 cells each.
    Levels,
    /// Measures the time of each hop of a Workload on a real federation that is otherwise idle.
    Federation,
    /// Measures the management controllers with many simulated projects: idle beside Go informers, restarted with
    /// many objects, with changing statuses, and with one project that creates many Workloads.
    Planes,
}

/// The measured service.
enum Service {
    Interpreter,
    Admission {
        /// Path of the kubeconfig for the simulated API server of the project.
        kubeconfig: PathBuf,
    },
}

impl Service {
    /// Returns the path and the query of each request.
    fn path(&self) -> &'static str {
        match self {
            Self::Interpreter => "/interpret?timeout=10s",
            Self::Admission { .. } => {
                "/validate-compute-datumapis-com-v1alpha-workload?timeout=10s"
            }
        }
    }

    /// Returns the time in milliseconds that each request waits for other services. This time is the same for every
    /// server.
    fn waits(&self) -> Option<f64> {
        match self {
            Self::Interpreter => None,
            Self::Admission { .. } => Some(10.0),
        }
    }

    /// Returns the number of connections that keeps a server busy. In admission, each connection waits 10 ms for an
    /// access review. With one CPU, neither server answers 20,000 requests per second. At this rate, 200 connections
    /// would be waiting.
    fn connections(&self) -> u16 {
        match self {
            Self::Interpreter => 32,
            Self::Admission { .. } => 256,
        }
    }
}

/// The build results and the files of a benchmark.
struct BenchSetup {
    service: Service,
    rounds: usize,
    /// Path of the shipped binary.
    binary: PathBuf,
    /// Whether the binary is that of the checkout.
    is_of_checkout: bool,
    /// Path of the binary to compare with.
    former: Option<PathBuf>,
    /// Directory of the programs of the crate `benches`.
    programs: PathBuf,
    rivals: Rivals,
    bodies: Vec<Body>,
    /// Directory with tls.crt and tls.key. The certificate is self-signed, so tls.crt is also the CA.
    certificates: PathBuf,
    /// Directory for logs and other files of this run.
    directory: PathBuf,
}

impl BenchSetup {
    fn ca(&self) -> PathBuf {
        self.certificates.join("tls.crt")
    }

    /// Directory with the customizations of [`ServerKind::Scripts`](servers::ServerKind::Scripts).
    fn customizations(&self) -> PathBuf {
        self.directory.join("customizations")
    }

    fn body(&self, name: &str) -> anyhow::Result<&Body> {
        let mut bodies = self.bodies.iter();
        bodies
            .find(|body| body.name == name)
            .with_context(|| format!("no body {name}"))
    }
}

/// One row of the result.
#[derive(Serialize)]
struct Row {
    measure: String,
    value: f64,
    unit: &'static str,
    /// The target of the value: a comparison and a number, such as `>= 3`.
    target: Option<String>,
    met: Option<bool>,
}

/// The bound for a value.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    fn new(measure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            measure: measure.into(),
            value,
            unit,
            target: None,
            met: None,
        }
    }

    fn target(mut self, target: Bound) -> Self {
        let (text, met) = match target {
            Bound::AtLeast(least) => (format!(">= {least}"), self.value >= least),
            Bound::AtMost(most) => (format!("<= {most}"), self.value <= most),
        };
        self.target = Some(text);
        self.met = Some(met);
        self
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.rounds > 0, "--rounds must not be 0");
    ensure!(
        args.former.is_none() || matches!(args.name, Name::Webhook | Name::Admission),
        "--former works with webhook and admission; measure another benchmark with --binary"
    );
    let directory = harness::checkout::root().join("target/bench");
    fs::create_dir_all(&directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    let load = before.split_whitespace().next().unwrap_or_default();
    let busy = Row::new("load of the machine before", load.parse()?, "");
    let (name, mut rows) = runtime.block_on(measure(args, &directory))?;
    rows.insert(0, busy);
    print(&rows);
    let file = directory.join(format!("{name}.json"));
    fs::write(&file, serde_json::to_vec_pretty(&rows)?)?;
    println!("\n{}", file.display());
    Ok(())
}

/// Runs the benchmark and returns its name and rows.
async fn measure(args: &Args, directory: &Path) -> anyhow::Result<(&'static str, Vec<Row>)> {
    let build = || Programs::build(Profile::Release, args.binary.as_deref());
    let former = args.former.as_deref().map(canonical).transpose()?;
    let prepare = |service| {
        let bench = prepare(build()?, args.rounds, directory, service)?;
        let former = former.clone();
        anyhow::Ok(BenchSetup { former, ..bench })
    };
    Ok(match args.name {
        Name::Webhook => {
            let bench = prepare(Service::Interpreter)?;
            ("webhook", webhook::run(&bench).await?)
        }
        Name::Interpreter => {
            let bench = prepare(Service::Interpreter)?;
            ("interpreter", interpreter::run(&bench).await?)
        }
        Name::Scripts => {
            let bench = prepare(Service::Interpreter)?;
            ("scripts", scripts::run(&bench).await?)
        }
        Name::Admission => {
            let kubeconfig = directory.join("project.kubeconfig");
            let bench = prepare(Service::Admission { kubeconfig })?;
            ("admission", admission::run(&bench).await?)
        }
        Name::Hostile => (
            "hostile",
            hostile::run(build()?, args.rounds, directory).await?,
        ),
        Name::Federation => (
            "federation",
            federation::run(build()?, args.workloads).await?,
        ),
        Name::Cell => (
            "cell",
            planes::run_cell(build()?, &args.sizes, directory).await?,
        ),
        Name::Levels => (
            "levels",
            planes::run_levels(build()?, &args.sizes, directory).await?,
        ),
        Name::Planes => (
            "planes",
            planes::run(build()?, &args.sizes, directory).await?,
        ),
    })
}

/// Checks that the webhook server and the Go webhooks give the same answers, with binaries of the profile `dev`.
/// Without this check, only the next benchmark would notice that an answer has changed.
pub(crate) fn check_answers() -> anyhow::Result<()> {
    let directory = harness::checkout::root().join("target/bench");
    fs::create_dir_all(&directory)?;
    let kubeconfig = directory.join("project.kubeconfig");
    let prepare = |service| prepare(Programs::build(Profile::Dev, None)?, 1, &directory, service);
    let interpreter = prepare(Service::Interpreter)?;
    let admission = prepare(Service::Admission { kubeconfig })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        webhook::check_answers(&interpreter).await?;
        let project = admission::check_answers(&admission).await?;
        project.terminate().await;
        Ok(())
    })
}

/// A build profile of Cargo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Dev,
    Release,
}

/// The measured binary, and the programs that measure it.
struct Programs {
    /// Path of the measured binary.
    binary: PathBuf,
    /// Whether the binary is that of the checkout.
    is_of_checkout: bool,
    /// Directory of the programs of the crate `benches`.
    directory: PathBuf,
}

impl Programs {
    /// Builds the programs. Builds compute-federation only if there is no other binary to measure.
    fn build(profile: Profile, binary: Option<&Path>) -> anyhow::Result<Self> {
        let (release, directory) = match profile {
            Profile::Dev => (None, "debug"),
            Profile::Release => {
                eprintln!("building in release");
                (Some("--release"), "release")
            }
        };
        let directory = build::target().join(directory);
        // Each package has its own build. A common build would unify the features of both packages.
        let own = binary.is_none().then_some("compute-federation");
        for package in own.into_iter().chain(["benches"]) {
            let args = ["build", "--locked", "--package", package];
            build::cargo(&[&args, release.as_slice()].concat())?;
        }
        let is_of_checkout = binary.is_none();
        let binary = match binary {
            Some(binary) => canonical(binary)?,
            None => directory.join("compute-federation"),
        };
        Ok(Self {
            binary,
            is_of_checkout,
            directory,
        })
    }
}

fn canonical(binary: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(binary).with_context(|| binary.display().to_string())
}

/// Creates a directory with tls.crt and tls.key. The certificate is self-signed, so tls.crt is also the CA.
fn write_certificates(directory: &Path) -> anyhow::Result<PathBuf> {
    let certificates = directory.join("certificates");
    fs::create_dir_all(&certificates)?;
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
    fs::write(certificates.join("tls.crt"), cert.pem())?;
    fs::write(certificates.join("tls.key"), signing_key.serialize_pem())?;
    Ok(certificates)
}

fn prepare(
    programs: Programs,
    rounds: usize,
    directory: &Path,
    service: Service,
) -> anyhow::Result<BenchSetup> {
    let rivals = Rivals::find_or_build(|progress| eprintln!("{progress}"))?;
    let requests = directory.join("bodies");
    let bodies = match &service {
        Service::Interpreter => bodies::write(&requests, bodies::all(), wire::interpretation)?,
        Service::Admission { .. } => bodies::write(&requests, workloads::all(), wire::admission)?,
    };
    Ok(BenchSetup {
        service,
        rounds,
        binary: programs.binary,
        is_of_checkout: programs.is_of_checkout,
        former: None,
        programs: programs.directory,
        rivals,
        bodies,
        certificates: write_certificates(directory)?,
        directory: directory.to_owned(),
    })
}

fn print(rows: &[Row]) {
    let width = |column: &dyn Fn(&Row) -> String| {
        let widths = rows.iter().map(|row| column(row).chars().count());
        widths.max().unwrap_or_default()
    };
    let value = |row: &Row| match row.value {
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    };
    let measure = width(&|row| row.measure.clone());
    let number = width(&value);
    let unit = width(&|row| row.unit.to_owned());
    let target = width(&|row| row.target.clone().unwrap_or_default());
    for row in rows {
        let met = match row.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        };
        let line = format!(
            "{:measure$}  {:>number$} {:unit$}  {:target$}  {met}",
            row.measure,
            value(row),
            row.unit,
            row.target.as_deref().unwrap_or_default(),
        );
        println!("{}", line.trim_end());
    }
}
