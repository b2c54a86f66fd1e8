//! `compute-federation interpret` shows what the interpreter answers about one object (docs/operate/interpret.md).

mod files;
mod hub;
mod render;
mod review;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice as Colors};
use interpreters::Operation;
use multicluster::clock;

use crate::args::{ColorChoice, InterpretArgs, InterpretTask, ObjectSource};
use review::{Answer, RequestObjects};

/// Exit code if the interpreter refuses the object.
const REFUSED: u8 = 1;
/// Exit code if there is no answer: wrong flags, or an object that cannot be read.
const NO_ANSWER: u8 = 2;

/// Prints the answer of the interpreter, and returns the exit code.
pub(crate) fn run(args: &InterpretArgs) -> ExitCode {
    match answer(args) {
        Ok(Ok(text)) => match print(&text, args.color) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error.into(), NO_ANSWER),
        },
        Ok(Err(refusal)) => failed(&refusal, REFUSED),
        Err(error) => failed(&error, NO_ANSWER),
    }
}

fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    // A line of the log would hide the message from a person.
    let _ = writeln!(anstream::stderr(), "error: {error:#}");
    code.into()
}

fn print(text: &str, color: ColorChoice) -> std::io::Result<()> {
    let choice = match color {
        ColorChoice::Auto => AutoStream::choice(&std::io::stdout()),
        ColorChoice::Always => Colors::Always,
        ColorChoice::Never => Colors::Never,
    };
    let mut stdout = AutoStream::new(std::io::stdout(), choice);
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Returns the text of the answer. The inner error is the refusal of the interpreter.
fn answer(args: &InterpretArgs) -> anyhow::Result<Result<String, anyhow::Error>> {
    let task = args.task()?;
    let objects = objects(args, &task)?;
    let body = objects.body(task.operation);
    let interpretation = interpreters::interpret(&body, clock::now())?;
    if let Some(refusal) = interpretation.error {
        return Ok(Err(refusal.into()));
    }
    let answer = Answer::decode(task.operation, &interpretation.body, &objects.object)?;
    Ok(Ok(render::answer(&answer, &objects.object, args.output)?))
}

/// Reads what the request needs.
fn objects(args: &InterpretArgs, task: &InterpretTask<'_>) -> anyhow::Result<RequestObjects> {
    let read = |file: Option<&Path>| file.map(files::object).transpose();
    let mut objects = match &task.source {
        ObjectSource::Files { desired, observed } => {
            let (desired, observed) = (read(*desired)?, read(*observed)?);
            match (desired, observed) {
                (Some(object), observed) => RequestObjects {
                    object,
                    observed,
                    ..RequestObjects::default()
                },
                // The other operations have one object, wherever it is.
                (None, observed) => RequestObjects {
                    object: observed.unwrap_or_default(),
                    ..RequestObjects::default()
                },
            }
        }
        ObjectSource::Hub {
            kubeconfig,
            object,
            observed,
        } => {
            let with_items = task.operation == Operation::AggregateStatus && task.status.is_none();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let read_object = hub::read(args, kubeconfig, *object, with_items);
            RequestObjects {
                observed: read(*observed)?,
                ..runtime.block_on(read_object)?
            }
        }
    };
    objects.replicas = task.replicas;
    if let Some(file) = task.status {
        objects.items = files::items(file)?;
    }
    Ok(objects)
}
