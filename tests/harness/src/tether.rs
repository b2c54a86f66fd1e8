//! Ties the life of a process to the life of its parent.
//!
//! A tether is a small process between the parent and the program. The tether holds the read end of a pipe, and the
//! parent holds the write end. When the parent ends, even by SIGKILL, the pipe closes and the tether kills the program.
//! If the tether itself is killed, the kernel kills the program (`PR_SET_PDEATHSIG`). The tether and the program each
//! have their own process group. A Ctrl-C in the terminal therefore reaches only the parent, and the parent ends the
//! others in order.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

/// First command-line argument of a tether.
pub(crate) const HOLD: &str = "harness-tether";
/// First command-line argument of the step between a tether and its program. This step later becomes the program.
pub(crate) const EXEC: &str = "harness-exec";

/// Line on a tether's standard input: send SIGTERM to the program.
pub(crate) const TERMINATE: &str = "terminate";
/// Line on a tether's standard input: do not kill the program when the pipe closes.
pub(crate) const DETACH: &str = "detach";

/// An exit code above this value means that a signal ended the program.
pub(crate) const SIGNALLED: i32 = 128;

/// Runs a tether with the arguments `LOG REMOVE PROGRAM [ARG…]`. Appends the program's output to LOG, prints its pid,
/// and returns its exit code. Removes the directory REMOVE at the end, if that argument is not empty.
pub(crate) fn hold(args: impl Iterator<Item = OsString>) -> i32 {
    match try_hold(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tether: {error:#}");
            1
        }
    }
}

fn try_hold(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<i32> {
    let (Some(log), Some(remove)) = (args.next(), args.next()) else {
        bail!("arguments are missing")
    };
    let code = supervise(log, args)?;
    if !remove.is_empty() {
        // An error means that the directory has been removed already.
        let _ = fs::remove_dir_all(PathBuf::from(remove));
    }
    Ok(code)
}

/// Runs `PROGRAM [ARG…]` until it ends, or until the parent of this process ends. Appends its output to `log`, and
/// prints its pid. Returns its exit code.
pub(crate) fn supervise(
    log: OsString,
    program: impl Iterator<Item = OsString>,
) -> anyhow::Result<i32> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(PathBuf::from(log))?;
    let mut program = Command::new(std::env::current_exe()?)
        .arg(EXEC)
        .args(program)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("program not started")?;
    let pid = Pid::from_child(&program);
    println!("{}", program.id());
    std::io::stdout().flush()?;
    thread::spawn(move || watch_parent(pid));
    // This thread must not end. Otherwise the kernel would treat its end as the end of the parent, and kill the
    // program.
    Ok(exit_code(program.wait()?))
}

/// Encodes the end of a process as shells do: the exit code, or [`SIGNALLED`] plus the number of the signal.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().map_or(1, |signal| SIGNALLED + signal);
    status.code().unwrap_or(signal)
}

fn watch_parent(program: Pid) {
    for line in std::io::stdin().lock().lines() {
        match line.as_deref() {
            // A program that has already ended cannot receive a signal, and needs none.
            Ok(TERMINATE) => drop(kill_process(program, Signal::TERM)),
            Ok(DETACH) => return,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let _ = kill_process(program, Signal::KILL);
}

/// Replaces this process by `PROGRAM [ARG…]`. The kernel kills the program when the tether ends.
pub(crate) fn exec(mut args: impl Iterator<Item = OsString>) -> i32 {
    let Some(program) = args.next() else { return 2 };
    let parent = getppid();
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("tether: {error}");
        return 1;
    }
    // The tether may have ended before the kernel knew this signal.
    if getppid() != parent {
        return 1;
    }
    let error = Command::new(&program).args(args).exec();
    eprintln!("{}: {error}", program.display());
    127
}
