//! A process of the federation. Each process runs under a tether.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::tether;

/// Time limit for a process to end after SIGTERM. Then the process is killed.
const TERMINATION: Duration = Duration::from_secs(30);
/// Time limit for a tether to kill its program.
const KILL: Duration = Duration::from_secs(5);
/// Number of log lines in an error message.
const LOG_LINES: usize = 15;

/// A program to start.
pub struct Program<'a> {
    /// Name of the process in error messages. The log file has the same name.
    pub name: &'a str,
    /// The executable.
    pub path: PathBuf,
    /// The arguments of the executable.
    pub args: Vec<OsString>,
    /// Directory of the logs.
    pub logs: &'a Path,
    /// Directory that is removed when the process ends.
    pub remove: Option<&'a Path>,
}

/// The command line of a process. It can start the same program again.
#[derive(Clone)]
pub(crate) struct StartCommand {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    logs: PathBuf,
    remove: Option<PathBuf>,
}

impl StartCommand {
    pub(crate) fn new(program: Program<'_>) -> Self {
        Self {
            name: program.name.to_owned(),
            path: program.path,
            args: program.args,
            logs: program.logs.to_owned(),
            remove: program.remove.map(Path::to_owned),
        }
    }

    /// Returns the path of the log file.
    pub(crate) fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Returns the name of the process.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same command with a new value for an existing flag.
    pub(crate) fn with_flag(&self, name: &str, value: &str) -> Self {
        let prefix = format!("--{name}=");
        let mut again = self.clone();
        again
            .args
            .retain(|arg| !arg.to_string_lossy().starts_with(&prefix));
        again.args.push(format!("{prefix}{value}").into());
        again
    }

    /// Returns the same command with another file of host names: the program resolves names with `hosts` in place of
    /// `/etc/hosts`. A user other than root needs the right to create user namespaces.
    pub(crate) fn resolving(&self, hosts: &Path) -> Self {
        /// Replaces the file in the mount namespace of this shell, and becomes the program.
        const MOUNT: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;
        let mut args: Vec<OsString> = Vec::new();
        if !geteuid().is_root() {
            args.extend(["--user", "--map-root-user"].map(Into::into));
        }
        args.extend(["--mount", "sh", "-c", MOUNT, "sh"].map(Into::into));
        args.extend([hosts.into(), self.path.clone().into()]);
        args.extend(self.args.iter().cloned());
        Self {
            path: "unshare".into(),
            args,
            ..self.clone()
        }
    }

    /// Runs the program to its end.
    pub(crate) async fn output(&self) -> anyhow::Result<std::process::Output> {
        let output = Command::new(&self.path).args(&self.args).output().await;
        output.with_context(|| self.path.display().to_string())
    }

    /// Starts the program.
    pub(crate) async fn start(&self) -> anyhow::Result<ChildProcess> {
        ChildProcess::start(Program {
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
pub struct ChildProcess {
    program: StartCommand,
    pid: i32,
    tether_pid: u32,
    stdin: Option<ChildStdin>,
    life: Liveness,
}

/// The state of a process, for code that does not own the process.
#[derive(Clone)]
pub(crate) struct Liveness {
    name: String,
    log: PathBuf,
    ended: watch::Receiver<Option<i32>>,
}

impl Liveness {
    /// Waits until the process ends and returns its exit code.
    pub(crate) async fn ended(&self) -> i32 {
        let mut ended = self.ended.clone();
        let code = ended.wait_for(Option::is_some).await.map(|code| *code);
        code.ok().flatten().unwrap_or(1)
    }

    /// Describes an unexpected end of the process.
    pub(crate) fn death(&self, code: i32) -> anyhow::Error {
        let end = match code - tether::SIGNALLED {
            signal @ 1..=64 => format!("was killed by signal {signal}"),
            _ => format!("ended with exit code {code}"),
        };
        let tail = tail(&self.log);
        anyhow::anyhow!("{} {end}, see {}:\n{tail}", self.name, self.log.display())
    }
}

impl ChildProcess {
    /// Starts a process. The process ends when the current process ends for any reason.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub async fn start(program: Program<'_>) -> anyhow::Result<Self> {
        let remove = program.remove.map(Path::as_os_str).unwrap_or_default();
        let tether = [tether::HOLD.into(), remove.to_owned()];
        Self::start_under(&tether, program).await
    }

    /// Starts a process under the tether that the first command-line arguments select.
    pub(crate) async fn start_under(
        [kind, argument]: &[OsString; 2],
        program: Program<'_>,
    ) -> anyhow::Result<Self> {
        let name = program.name;
        let program = StartCommand::new(program);
        let log = program.log();
        let mut tether = Command::new(std::env::current_exe()?)
            .arg(kind)
            .arg(&log)
            .arg(argument)
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
            .context("the tether has no standard output")?;
        let pid = BufReader::new(stdout).lines().next_line().await?;
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else {
            bail!("{name}: not started")
        };
        Ok(Self {
            program,
            pid,
            tether_pid: tether.id().unwrap_or_default(),
            stdin: tether.stdin.take(),
            life: Liveness {
                name: name.to_owned(),
                log,
                ended: watch_end(tether),
            },
        })
    }

    /// Returns the name of the process. The log file has the same name.
    pub fn name(&self) -> &str {
        &self.life.name
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the process id of the tether.
    pub fn tether_pid(&self) -> u32 {
        self.tether_pid
    }

    /// Returns the path of the log file.
    pub fn log(&self) -> &Path {
        &self.life.log
    }

    /// Returns the command that starts the process again after it has ended.
    pub(crate) fn again(&self) -> StartCommand {
        self.program.clone()
    }

    pub(crate) fn life(&self) -> &Liveness {
        &self.life
    }

    /// Runs `work`. Fails as soon as the process ends. The error contains the last lines of the log.
    pub(crate) async fn while_running<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            result = work => result.with_context(|| format!("{}, see {}", self.name(), self.log().display())),
            code = self.ended() => Err(self.life.death(code)),
        }
    }

    /// Waits until the process ends and returns its exit code.
    pub async fn ended(&self) -> i32 {
        self.life.ended().await
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    ///
    /// When the process does not exist any more.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid).context("the process id is 0")?;
        kill_process(pid, signal).with_context(|| format!("signal to {}", self.name()))
    }

    /// Sends SIGTERM and waits until the process has ended. After 30 s, kills the process. Returns the exit code.
    pub async fn terminate(mut self) -> i32 {
        if let Some(stdin) = &mut self.stdin {
            // An error means that the tether has ended already.
            let _ = stdin
                .write_all(format!("{}\n", tether::TERMINATE).as_bytes())
                .await;
        }
        match timeout(TERMINATION, self.ended()).await {
            Ok(code) => code,
            Err(_) => self.kill().await,
        }
    }

    /// Kills the process and waits until it has ended.
    pub async fn kill(self) -> i32 {
        self.kill_within(KILL).await
    }

    /// Like [`ChildProcess::kill`], for a tether that needs up to `limit` for the kill and for what it does afterwards.
    pub(crate) async fn kill_within(mut self, limit: Duration) -> i32 {
        self.stdin = None;
        if let Ok(code) = timeout(limit, self.ended()).await {
            return code;
        }
        // The tether may be suspended, so it may not read commands. When the tether is killed, the kernel kills the
        // program.
        if let Some(tether) = Pid::from_raw(self.tether_pid.cast_signed()) {
            let _ = kill_process(tether, Signal::KILL);
        }
        self.ended().await
    }

    /// Detaches the process, so that it keeps running after the current process has ended.
    pub(crate) async fn detach(mut self) {
        if let Some(stdin) = &mut self.stdin {
            // An error means that the tether has ended already.
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

/// Returns the last lines of a log.
pub fn tail(log: &Path) -> String {
    last_lines(log, LOG_LINES)
}

/// Returns up to `count` last lines of a log.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let last = lines
        .get(lines.len().saturating_sub(count)..)
        .unwrap_or_default();
    last.iter().flat_map(|line| ["  ", line, "\n"]).collect()
}
