//! Tests of the end of a federation. A federation must end when its starting process ends, for any reason.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::federation::stop_kept;
use harness::peers::Peers;
use harness::{CellConfig, Config, Federation, wait};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal as signal_stream};

use crate::fixture;

/// First command-line argument of a holding process. This process starts a federation and waits for an interrupt.
const HOLD: &str = "hold-a-federation";
/// Second command-line argument. With this argument, the holding process panics instead of waiting.
const PANIC: &str = "panic";
/// Time limit for the end of all processes.
const END: Duration = Duration::from_secs(15);

/// Description of the federation. The holding process prints it.
#[derive(Deserialize, Serialize)]
struct HeldFederation {
    pids: Vec<i32>,
    directory: PathBuf,
}

/// Starts a federation and waits, if the command-line arguments request this.
pub(crate) fn hold(runtime: &Runtime) -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(HOLD) {
        return None;
    }
    let panics = args.next().as_deref() == Some(PANIC);
    let held: anyhow::Result<()> = runtime.block_on(async {
        let federation = Federation::start(&bare("held")?).await?;
        let held = HeldFederation {
            pids: federation.pids(),
            directory: federation.directory().to_owned(),
        };
        let mut interrupt = signal_stream(SignalKind::interrupt())?;
        println!("{}", serde_json::to_string(&held)?);
        assert!(!panics, "as asked");
        interrupt.recv().await;
        federation.stop().await;
        Ok(())
    });
    Some(if held.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the configuration of a federation with one cell and without compute-federation. These tests need no more
/// processes.
fn bare(label: &str) -> anyhow::Result<Config> {
    let cells = vec![CellConfig::new("dfw1", "DFW")];
    Ok(Config {
        cells,
        managers: false,
        ..fixture::config(label)?
    })
}

async fn start(panics: bool) -> anyhow::Result<(Child, HeldFederation)> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .args(panics.then_some(PANIC))
        .stdout(Stdio::piped())
        .stderr(if panics {
            Stdio::null()
        } else {
            Stdio::inherit()
        })
        .kill_on_drop(true)
        .spawn()?;
    let stdout = process.stdout.take().context("the output is not piped")?;
    let line = BufReader::new(stdout)
        .lines()
        .next_line()
        .await?
        .context("the federation did not start")?;
    let held: HeldFederation = serde_json::from_str(&line)?;
    ensure!(held.pids.len() > 16, "{} processes", held.pids.len());
    Ok((process, held))
}

async fn until_gone(held: &HeldFederation) -> anyhow::Result<()> {
    wait::eventually("every process has ended", END, || async {
        let left: Vec<_> = held.pids.iter().filter(|pid| runs(**pid)).collect();
        ensure!(left.is_empty(), "left: {left:?}");
        let data = held.directory.join("etcd");
        ensure!(!data.exists(), "left: {}", data.display());
        Ok(())
    })
    .await?;
    // The logs must remain for a later diagnosis.
    ensure!(
        held.directory.join("logs/hub-apiserver.log").exists(),
        "the logs are gone"
    );
    Ok(())
}

pub(crate) fn runs(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn signal(process: &Child, signal: Signal) -> anyhow::Result<()> {
    let pid = process
        .id()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        .context("the process does not run")?;
    Ok(kill_process(pid, signal)?)
}

pub(crate) async fn nothing_outlives_a_killed_process() -> anyhow::Result<()> {
    let (mut process, held) = start(false).await?;
    signal(&process, Signal::KILL)?;
    process.wait().await?;
    until_gone(&held).await
}

pub(crate) async fn nothing_outlives_an_interrupted_process() -> anyhow::Result<()> {
    let (mut process, held) = start(false).await?;
    signal(&process, Signal::INT)?;
    ensure!(
        process.wait().await?.success(),
        "the process did not end in order"
    );
    until_gone(&held).await
}

pub(crate) async fn nothing_outlives_a_panic() -> anyhow::Result<()> {
    let (mut process, held) = start(true).await?;
    ensure!(
        !process.wait().await?.success(),
        "the process did not panic"
    );
    until_gone(&held).await
}

pub(crate) async fn a_damaged_federation_can_be_kept_and_stopped() -> anyhow::Result<()> {
    // The test uses a separate target directory. Otherwise `stop_kept` would end the federations of other tests.
    let target = tempfile::tempdir()?;
    let federation = Federation::start(&Config {
        target: target.path().to_owned(),
        ..bare("kept")?
    })
    .await?;
    let held = HeldFederation {
        pids: federation.pids(),
        directory: federation.directory().to_owned(),
    };
    let scheduler = held.pids.iter().find(|pid| {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program.ends_with("karmada-scheduler")
    });
    let scheduler = scheduler.and_then(|pid| Pid::from_raw(*pid));
    kill_process(scheduler.context("no scheduler runs")?, Signal::KILL)?;
    let death = federation.death().await.to_string();
    let log = held.directory.join("logs/karmada-scheduler.log");
    let expected = format!(
        "karmada-scheduler was killed by signal 9, see {}:",
        log.display()
    );
    ensure!(death.starts_with(&expected), "{death}");

    let hub = federation.hub().client();
    let parts = held.pids.len();
    federation.keep().await?;
    hub.apiserver_version()
        .await
        .context("the hub does not answer")?;
    let left = held.pids.iter().filter(|pid| runs(**pid)).count();
    ensure!(left == parts - 2, "{left} of {parts} go on");
    let stopped = stop_kept(target.path())?;
    ensure!(stopped == [held.directory.clone()], "{stopped:?}");
    until_gone(&held).await
}

pub(crate) async fn the_error_for_a_dead_manager_names_it() -> anyhow::Result<()> {
    let federation = Federation::start(&Config {
        managers: true,
        ..bare("crashed")?
    })
    .await?;
    let death = crash(&federation).await?.to_string();
    federation.stop().await;
    let expected = "dfw1-manager was killed by signal 9, see ";
    ensure!(death.starts_with(expected), "{death}");
    Ok(())
}

/// Kills a manager twice: first as tests do, then by a signal from outside. Returns the failure that the federation
/// reports.
async fn crash(federation: &Federation) -> anyhow::Result<anyhow::Error> {
    let mut manager = federation.cell_manager(fixture::DFW)?.lock().await;
    let mut death = std::pin::pin!(federation.death());
    // The test requested this end, so the federation must not report a failure.
    manager.kill().await;
    ensure!(futures::poll!(&mut death).is_pending(), "a death");
    manager.restart().await?;
    ensure!(futures::poll!(&mut death).is_pending(), "a death");
    manager.signal(Signal::KILL)?;
    Ok(death.await)
}

pub(crate) async fn the_error_for_a_dead_part_shows_its_log() -> anyhow::Result<()> {
    let mut config = bare("dying")?;
    let peers = tempfile::tempdir()?;
    for entry in fs::read_dir(config.peers.directory())? {
        let entry = entry?;
        symlink(entry.path(), peers.path().join(entry.file_name()))?;
    }
    let broken = peers.path().join("karmada-webhook");
    fs::remove_file(&broken)?;
    fs::write(&broken, "#!/bin/sh\necho out of order\nexit 3\n")?;
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755))?;
    config.peers = Peers::at(peers.path())?;

    let Err(error) = Federation::start(&config).await else {
        anyhow::bail!("the federation has started")
    };
    let error = format!("{error:#}");
    let directory = directory_in(&error)?;
    let expected = format!(
        "karmada-webhook ended with exit code 3, see {}:",
        directory.join("logs/karmada-webhook.log").display()
    );
    ensure!(
        error.contains(&expected) && error.contains("out of order"),
        "{error}"
    );

    // No process is left.
    let directory = directory.display().to_string();
    wait::eventually("every process has ended", END, || async {
        let left: Vec<_> = fs::read_dir("/proc")?
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
            .filter(|command| command.contains(&directory))
            .collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}

fn directory_in(error: &str) -> anyhow::Result<PathBuf> {
    let directory = error
        .strip_prefix("the federation in ")
        .and_then(|rest| rest.split(" did not start").next());
    directory
        .map(|directory| Path::new(directory).to_owned())
        .with_context(|| error.to_owned())
}
