//! A process of the federation, at the end of its tether.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::tether;

/// Time for a process to end after SIGTERM.
const TERMINATION: Duration = Duration::from_secs(30);
/// Time for a tether to end what it holds.
const KILL: Duration = Duration::from_secs(5);
/// Lines of a log that an error shows.
const LOG_LINES: usize = 15;

/// What to start.
pub struct Program<'a> {
    /// Names the process in errors, and its log.
    pub name: &'a str,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Directory of the logs.
    pub logs: &'a Path,
    /// A directory that goes with the process.
    pub remove: Option<&'a Path>,
}

/// How a process was started, so that the same program can be started again.
#[derive(Clone)]
pub(crate) struct Again {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    logs: PathBuf,
    remove: Option<PathBuf>,
}

impl Again {
    /// The name of the process.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same program with another value of a flag that it has.
    pub(crate) fn with_flag(&self, name: &str, value: &str) -> Self {
        let prefix = format!("--{name}=");
        let mut again = self.clone();
        again
            .args
            .retain(|arg| !arg.to_string_lossy().starts_with(&prefix));
        again.args.push(format!("{prefix}{value}").into());
        again
    }

    /// Starts the program.
    pub(crate) async fn start(&self) -> anyhow::Result<Process> {
        Process::start(Program {
            name: &self.name,
            path: self.path.clone(),
            args: self.args.clone(),
            logs: &self.logs,
            remove: self.remove.as_deref(),
        })
        .await
    }
}

/// A running process.
pub struct Process {
    program: Again,
    pid: i32,
    tether_pid: u32,
    stdin: Option<ChildStdin>,
    life: Life,
}

/// Whether a process still runs, for whoever does not hold it.
#[derive(Clone)]
pub(crate) struct Life {
    name: String,
    log: PathBuf,
    ended: watch::Receiver<Option<i32>>,
}

impl Life {
    /// Waits for the end of the process and gives its exit code.
    pub(crate) async fn ended(&self) -> i32 {
        let mut ended = self.ended.clone();
        let code = ended.wait_for(Option::is_some).await.map(|code| *code);
        code.ok().flatten().unwrap_or(1)
    }

    /// Describes the end of a process that should have gone on.
    pub(crate) fn death(&self, code: i32) -> anyhow::Error {
        let end = match code - tether::SIGNALLED {
            signal @ 1..=64 => format!("was killed by signal {signal}"),
            _ => format!("ended with exit code {code}"),
        };
        let tail = tail(&self.log);
        anyhow::anyhow!("{} {end}, see {}:\n{tail}", self.name, self.log.display())
    }
}

impl Process {
    /// Starts a process, which ends with this one, however that ends.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub async fn start(program: Program<'_>) -> anyhow::Result<Self> {
        let Program {
            name,
            path,
            args,
            logs,
            remove,
        } = program;
        let log = logs.join(format!("{name}.log"));
        let program = Again {
            name: name.to_owned(),
            path,
            args,
            logs: logs.to_owned(),
            remove: remove.map(Path::to_owned),
        };
        let mut tether = Command::new(std::env::current_exe()?)
            .arg(tether::HOLD)
            .arg(&log)
            .arg(remove.map(Path::as_os_str).unwrap_or_default())
            .arg(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name}: tether not started"))?;
        let stdout = tether
            .stdout
            .take()
            .context("a tether has a standard output")?;
        let pid = BufReader::new(stdout).lines().next_line().await?;
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else {
            bail!("{name}: not started")
        };
        Ok(Self {
            program,
            pid,
            tether_pid: tether.id().unwrap_or_default(),
            stdin: tether.stdin.take(),
            life: Life {
                name: name.to_owned(),
                log,
                ended: watch_end(tether),
            },
        })
    }

    /// The name of the process, which is that of its log too.
    pub fn name(&self) -> &str {
        &self.life.name
    }

    /// The process itself.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The tether that holds it.
    pub fn tether_pid(&self) -> u32 {
        self.tether_pid
    }

    /// Where the process writes.
    pub fn log(&self) -> &Path {
        &self.life.log
    }

    /// How to start it again, once it has ended.
    pub(crate) fn again(&self) -> Again {
        self.program.clone()
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// Runs `work`, but fails as soon as the process ends, with what it said last.
    pub(crate) async fn while_running<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            result = work => result.with_context(|| format!("{}, see {}", self.name(), self.log().display())),
            code = self.ended() => Err(self.life.death(code)),
        }
    }

    /// Waits for the end of the process and gives its exit code.
    pub async fn ended(&self) -> i32 {
        self.life.ended().await
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    ///
    /// When the process does not exist any more.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid).context("a pid is not 0")?;
        kill_process(pid, signal).with_context(|| format!("signal to {}", self.name()))
    }

    /// Asks the process to end and waits until it has; kills it if it does not. Gives its exit code.
    pub async fn terminate(mut self) -> i32 {
        if let Some(stdin) = &mut self.stdin {
            // An error means that it has ended already.
            let _ = stdin
                .write_all(format!("{}\n", tether::TERMINATE).as_bytes())
                .await;
        }
        match timeout(TERMINATION, self.ended()).await {
            Ok(code) => code,
            Err(_) => self.kill().await,
        }
    }

    /// Kills the process and waits until it is gone.
    pub async fn kill(mut self) -> i32 {
        self.stdin = None;
        if let Ok(code) = timeout(KILL, self.ended()).await {
            return code;
        }
        // A tether that does not react has been stopped; with its end the kernel kills what it holds.
        if let Some(tether) = Pid::from_raw(self.tether_pid.cast_signed()) {
            let _ = kill_process(tether, Signal::KILL);
        }
        self.ended().await
    }

    /// Lets the process live on when this one ends.
    pub(crate) async fn detach(mut self) {
        if let Some(stdin) = &mut self.stdin {
            // An error means that it has ended already.
            let _ = stdin
                .write_all(format!("{}\n", tether::DETACH).as_bytes())
                .await;
        }
    }
}

fn watch_end(mut tether: Child) -> watch::Receiver<Option<i32>> {
    let (sender, ended) = watch::channel(None);
    tokio::spawn(async move {
        let code = tether.wait().await.map_or(1, tether::exit_code);
        sender.send_replace(Some(code));
    });
    ended
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let last = lines
        .get(lines.len().saturating_sub(LOG_LINES)..)
        .unwrap_or_default();
    last.iter().flat_map(|line| ["  ", line, "\n"]).collect()
}
