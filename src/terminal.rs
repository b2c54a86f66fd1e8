//! The output of commands for people.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice as Colors};

use crate::args::{ColorChoice, OutputForm};

/// Exit code if there is no answer: wrong flags, something that cannot be read, or a script that does not end.
pub(crate) const NO_ANSWER: u8 = 2;

/// Prints a text. Only [`OutputForm::Text`] can have colours.
///
/// # Errors
///
/// If the text cannot be written. A reader that has read enough is no error.
pub(crate) fn print(text: &str, form: OutputForm, color: ColorChoice) -> io::Result<()> {
    let choice = match (form, color) {
        // The other forms must be written as they are.
        (OutputForm::Json | OutputForm::Yaml, _) | (_, ColorChoice::Always) => Colors::AlwaysAnsi,
        (OutputForm::Text, ColorChoice::Auto) => AutoStream::choice(&io::stdout()),
        (OutputForm::Text, ColorChoice::Never) => Colors::Never,
    };
    let mut stdout = AutoStream::new(io::stdout(), choice);
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints an error, and returns the exit code.
pub(crate) fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    // A line of the log would hide the message from a person.
    let _ = writeln!(anstream::stderr(), "error: {error:#}");
    code.into()
}
