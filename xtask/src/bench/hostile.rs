//! `cargo xtask bench hostile`: small calls, probes and the lease of a manager while many callers send the bodies that
//! need most time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::manager::Manager;
use harness::peers::Peers;
use harness::{Milo, MiloConfig, wait};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::bodies::{self, HEALTH};
use super::servers::{Rate, lines, memory};
use super::{Bound, Programs, Row, wire, workloads};
use crate::build;

/// Size of each hostile body: the default of `--max-body`.
const BYTES: usize = 8 << 20;
/// The default of `--max-bytes-in-flight`, in MiB.
const IN_FLIGHT: f64 = 256.0;
/// Number of hostile callers of the interpreter, and of admission.
const CALLERS: usize = 32;
/// Number of bodies that each of them sends: those with the slowest answers.
const WORST: usize = 8;
/// Small calls per second of each service, and the time in seconds for which they are measured.
const RATE: f64 = 50.0;
const SECONDS: f64 = 20.0;
/// Time in seconds for which the hostile callers send before the measurement.
const WARM_UP: f64 = 3.0;
/// Interval between two requests to `/healthz`.
const PROBE: Duration = Duration::from_millis(20);
/// Interval between two reads of the lease.
const READ: Duration = Duration::from_millis(500);
/// Time limit for the manager to lead.
const WITHIN: Duration = Duration::from_mins(1);
/// The project.
const PROJECT: &str = "shop";
/// The namespace and the name of the lease.
const NAMESPACE: &str = "default";
const LEASE: &str = "e98b06c6.datumapis.com";

/// A service of the webhook server.
struct Target {
    name: &'static str,
    path: &'static str,
    /// The directory with the hostile bodies.
    hostile: PathBuf,
    /// The file with the body of a small call.
    small: PathBuf,
}

/// A hostile body that was sent once.
#[derive(Deserialize)]
struct SentOnce {
    file: PathBuf,
    name: String,
    milliseconds: f64,
}

/// The results of one time span.
struct Measured {
    /// p99 of the small calls of each target, in milliseconds.
    p99: Vec<f64>,
    /// Slowest answer of `/healthz`, in milliseconds.
    healthz: f64,
    /// Longest time between two renewals of the lease, in seconds.
    renewal: f64,
}

/// The results of all rounds.
#[derive(Default)]
struct Spans {
    /// Without hostile callers.
    idle: Vec<Measured>,
    /// While hostile callers load the other replica.
    beside: Vec<Measured>,
    /// While hostile callers load the server of the small calls.
    loaded: Vec<Measured>,
}

struct HostileBench {
    programs: PathBuf,
    ca: PathBuf,
    milo: Milo,
    /// The server of the small calls.
    manager: Manager,
    /// A second replica. Load on it shows what the load costs the machine.
    neighbour: Manager,
    targets: Vec<Target>,
}

pub(super) async fn run(
    programs: Programs,
    rounds: usize,
    directory: &Path,
) -> anyhow::Result<Vec<Row>> {
    let hostile = directory.join("hostile");
    write_bodies(&hostile)?;
    let bench = HostileBench::start(programs, directory, &hostile).await?;
    let measured = bench.measure(rounds).await;
    bench.stop().await;
    fs::remove_dir_all(&hostile)?;
    measured
}

fn write_bodies(directory: &Path) -> anyhow::Result<()> {
    let directory = directory.display().to_string();
    let program = [
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "fuzz",
    ];
    let args = ["--bin", "hostile", "--", &directory, &BYTES.to_string()];
    build::cargo(&[program.as_slice(), &args].concat())
}

fn targets(directory: &Path, hostile: &Path) -> anyhow::Result<Vec<Target>> {
    let small = directory.join("bodies");
    let health = bodies::all().into_iter().filter(|(name, _)| name == HEALTH);
    let interpret = bodies::write(&small, health.collect(), wire::interpretation)?;
    // The rules refuse this Workload before any access review, so the answer needs no API server.
    let empty = workloads::checked().into_iter();
    let empty = empty.filter(|(name, _)| name == workloads::EMPTY).collect();
    let admit = bodies::write(&small, empty, wire::admission)?;
    let of = |name, path, body: Vec<bodies::Body>| {
        let body = body.into_iter().next().context("no small body")?;
        anyhow::Ok(Target {
            name,
            path,
            hostile: hostile.join(name),
            small: body.file,
        })
    };
    let admission = "/validate-compute-datumapis-com-v1alpha-workload?timeout=10s";
    Ok(vec![
        of("interpret", "/interpret?timeout=10s", interpret)?,
        of("admit", admission, admit)?,
    ])
}

impl HostileBench {
    async fn start(programs: Programs, directory: &Path, hostile: &Path) -> anyhow::Result<Self> {
        let milo = Milo::start(&MiloConfig {
            label: "bench-hostile".to_owned(),
            target: build::target(),
            binary: programs.binary,
            peers: Peers::find_or_build(|progress| eprintln!("{progress}"))?,
            projects: vec![PROJECT.to_owned()],
        })
        .await?;
        let kubeconfig = milo.project(PROJECT)?.kubeconfig().display().to_string();
        let start = async |name| {
            let mut replica = milo.replica(name)?;
            replica.add_flags(&[
                "--leader-elect=true",
                &format!("--leader-elect-namespace={NAMESPACE}"),
                &format!("--kubeconfig={kubeconfig}"),
            ]);
            replica.restart().await?;
            anyhow::Ok(replica)
        };
        let manager = start("manager").await?;
        wait::eventually("the manager leads", WITHIN, || async {
            let metrics = manager.metrics().await?;
            let leads = metrics
                .lines()
                .any(|it| it == "compute_federation_leader 1");
            ensure!(leads, "it does not lead");
            Ok(())
        })
        .await?;
        let neighbour = start("neighbour").await?;
        let certificates = milo.webhook_certificate().lock().await;
        let ca = certificates.directory().join("ca.crt");
        drop(certificates);
        Ok(Self {
            programs: programs.directory,
            ca,
            milo,
            manager,
            neighbour,
            targets: targets(directory, hostile)?,
        })
    }

    async fn stop(mut self) {
        self.manager.terminate().await;
        self.neighbour.terminate().await;
        self.milo.stop().await;
    }

    async fn measure(&self, rounds: usize) -> anyhow::Result<Vec<Row>> {
        let (idle_memory, _) = memory(self.pid()?)?;
        let mut rows = Vec::new();
        let mut worst = Vec::new();
        for target in &self.targets {
            let slowest = self.slowest(target).await?;
            let title = slowest.iter().map(|it| it.name.as_str());
            eprintln!("{}: {}", target.name, title.collect::<Vec<_>>().join(", "));
            if let Some(SentOnce {
                name, milliseconds, ..
            }) = slowest.first()
            {
                let measure = format!("{}: slowest body alone, {name}", target.name);
                rows.push(Row::new(measure, *milliseconds, "ms"));
            }
            worst.push(slowest);
        }
        let mut spans = Spans::default();
        let mut answers: BTreeMap<String, f64> = BTreeMap::new();
        for _ in 0..rounds {
            spans.idle.push(self.span().await?);
            let (measured, _) = self.span_with_attack(&self.neighbour, &worst).await?;
            spans.beside.push(measured);
            let (measured, sent) = self.span_with_attack(&self.manager, &worst).await?;
            spans.loaded.push(measured);
            for (status, count) in sent {
                *answers.entry(status).or_default() += count;
            }
        }
        rows.extend(self.small_calls(&spans));
        for (spans, when) in [(&spans.idle, "idle"), (&spans.loaded, "under load")] {
            let probes = spans.iter().map(|it| it.healthz);
            let slowest = probes.fold(0.0, f64::max);
            let row = Row::new(format!("/healthz: slowest answer, {when}"), slowest, "ms");
            rows.push(row.target(Bound::AtMost(100.0)));
            let renewal = spans.iter().map(|it| it.renewal).fold(0.0, f64::max);
            let measure = format!("lease: longest time between renewals, {when}");
            rows.push(Row::new(measure, renewal, "s").target(Bound::AtMost(10.0)));
        }
        for (status, count) in answers {
            let measure = match status.as_str() {
                "0" => "hostile calls without an answer".to_owned(),
                status => format!("hostile calls with status {status}"),
            };
            rows.push(Row::new(measure, count, ""));
        }
        let (_, peak) = memory(self.pid()?)?;
        let most = idle_memory + 1.5 * IN_FLIGHT + 64.0;
        rows.push(Row::new("resident memory, idle", idle_memory, "MiB"));
        let row = Row::new("resident memory, at most", peak, "MiB");
        rows.push(row.target(Bound::AtMost(most.round())));
        Ok(rows)
    }

    fn pid(&self) -> anyhow::Result<i32> {
        self.manager.pid().context("the manager does not run")
    }

    /// Returns the rows of the small calls: the best p99 of each target, and the ratios.
    fn small_calls(&self, spans: &Spans) -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, target) in self.targets.iter().enumerate() {
            let best = |spans: &[Measured]| {
                let p99 = spans.iter().filter_map(|it| it.p99.get(index).copied());
                p99.fold(f64::INFINITY, f64::min)
            };
            let [idle, beside, loaded] =
                [&spans.idle, &spans.beside, &spans.loaded].map(|spans| best(spans));
            let name = target.name;
            for (p99, when) in [
                (idle, "idle"),
                (beside, "load on the other replica"),
                (loaded, "under load"),
            ] {
                let measure = format!("{name}: p99 of small calls, {when}");
                rows.push(Row::new(measure, p99, "ms"));
            }
            let row = Row::new(format!("{name}: p99 under load / idle"), loaded / idle, "x");
            rows.push(row.target(Bound::AtMost(5.0)));
            let measure = format!("{name}: p99 under load / load on the other replica");
            rows.push(Row::new(measure, loaded / beside, "x").target(Bound::AtMost(1.5)));
        }
        rows
    }

    /// Sends each hostile body of a target once. Returns those with the slowest answers, the slowest first.
    async fn slowest(&self, target: &Target) -> anyhow::Result<Vec<SentOnce>> {
        let mut args = self.client(&self.manager, target);
        let files = fs::read_dir(&target.hostile)?;
        for file in files {
            args.push(file?.path().into());
        }
        let mut sent: Vec<SentOnce> = lines(self.programs.join("overload"), args).await?;
        sent.sort_by(|one, other| other.milliseconds.total_cmp(&one.milliseconds));
        sent.truncate(WORST);
        Ok(sent)
    }

    /// Measures while hostile callers load a replica. Also returns the number of their calls by status.
    async fn span_with_attack(
        &self,
        attacked: &Manager,
        worst: &[Vec<SentOnce>],
    ) -> anyhow::Result<(Measured, BTreeMap<String, f64>)> {
        let measured = async {
            sleep(Duration::from_secs_f64(WARM_UP)).await;
            self.span().await
        };
        tokio::try_join!(measured, self.attack(attacked, worst))
    }

    /// Lets hostile callers send the worst bodies to all targets of a replica. Returns the number of calls by status.
    async fn attack(
        &self,
        attacked: &Manager,
        worst: &[Vec<SentOnce>],
    ) -> anyhow::Result<BTreeMap<String, f64>> {
        let seconds = WARM_UP + SECONDS + WARM_UP;
        let attacks = self.targets.iter().zip(worst).map(|(target, bodies)| {
            let mut args: Vec<OsString> = vec!["-n".into(), "19".into()];
            args.push(self.programs.join("overload").into());
            args.extend(self.client(attacked, target));
            args.push(format!("--callers={CALLERS}").into());
            args.push(format!("--seconds={seconds}").into());
            args.extend(bodies.iter().map(|body| body.file.clone().into()));
            // The other client and the API servers must not wait for the CPU time of these callers.
            lines::<BTreeMap<String, f64>>("nice".into(), args)
        });
        let mut all = BTreeMap::new();
        for sent in futures::future::try_join_all(attacks).await? {
            for (status, count) in sent.into_iter().flatten() {
                *all.entry(status).or_default() += count;
            }
        }
        Ok(all)
    }

    fn client(&self, server: &Manager, target: &Target) -> Vec<OsString> {
        vec![
            format!("--port={}", server.webhook_port()).into(),
            "--ca".into(),
            self.ca.clone().into(),
            format!("--path={}", target.path).into(),
        ]
    }

    /// Measures for a while.
    async fn span(&self) -> anyhow::Result<Measured> {
        let end = Instant::now() + Duration::from_secs_f64(SECONDS);
        let calls = self.targets.iter().map(|target| self.calls(target));
        let calls = futures::future::try_join_all(calls);
        let (p99, healthz, renewal) =
            tokio::try_join!(calls, self.probe(end), self.longest_renewal(end))?;
        Ok(Measured {
            p99,
            healthz,
            renewal,
        })
    }

    /// Returns the p99 of small calls at a constant rate, in milliseconds.
    async fn calls(&self, target: &Target) -> anyhow::Result<f64> {
        let mut args = self.client(&self.manager, target);
        args.extend([
            "--pid=0".into(),
            "--body".into(),
            target.small.clone().into(),
        ]);
        args.push(format!("--rate={RATE}").into());
        args.push("--connections=16".into());
        args.push(format!("--seconds={SECONDS}").into());
        let found: Vec<Rate> = lines(self.programs.join("load"), args).await?;
        let found = found.first().context("the client printed no line")?;
        Ok(found.p99 / 1e6)
    }

    /// Reads `/healthz` until the time. Returns the time of the slowest answer in milliseconds.
    async fn probe(&self, until: Instant) -> anyhow::Result<f64> {
        let mut slowest = 0.0_f64;
        while Instant::now() < until {
            let begin = Instant::now();
            let (code, body) = self.manager.liveness().await?;
            ensure!(code == 200, "/healthz: {code} {body}");
            slowest = slowest.max(begin.elapsed().as_secs_f64() * 1e3);
            sleep(PROBE).await;
        }
        Ok(slowest)
    }

    /// Reads the lease until the time. Returns the longest time between two renewals in seconds.
    async fn longest_renewal(&self, until: Instant) -> anyhow::Result<f64> {
        let leases: Api<Lease> = Api::namespaced(self.milo.project(PROJECT)?.client(), NAMESPACE);
        let mut renewals = Vec::new();
        while Instant::now() < until {
            let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
            let renewed = spec.renew_time.context("the lease was never renewed")?;
            if renewals.last() != Some(&renewed.0) {
                renewals.push(renewed.0);
            }
            sleep(READ).await;
        }
        let pairs = renewals.iter().zip(renewals.iter().skip(1));
        let gaps = pairs.map(|(one, next)| next.duration_since(*one).as_secs_f64());
        Ok(gaps.fold(0.0, f64::max))
    }
}
