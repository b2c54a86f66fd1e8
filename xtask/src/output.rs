//! Output of the commands. Results go to the standard output, and progress goes to the standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};

/// The program that reads the standard output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("the output is closed")]
pub(crate) struct Closed;

/// Prints a line of the result.
pub(crate) fn print(line: impl Display) -> anyhow::Result<()> {
    write(&format!("{line}\n"))
}

/// Prints a text without a line break.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error: io::Error| match error.kind() {
        ErrorKind::BrokenPipe => Closed.into(),
        _ => error.into(),
    })
}

/// Prints a line of progress.
pub(crate) fn tell(line: impl Display) {
    // The command must not fail because the standard error is closed.
    let _ = writeln!(stderr(), "{line}");
}
