//! `compute-federation interpret` shows what the interpreter answers about one object (docs/operate/interpret.md).

mod files;
mod hub;
mod render;
mod review;

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice as Colors};
use anyhow::{anyhow, bail};
use interpreters::lua::{CustomizationError, Limits, LuaInterpreter, StopFlag};
use interpreters::{InterpretError, Interpretation, Operation};
use multicluster::clock;
use serde_json::Value;

use crate::args::{ColorChoice, InterpretArgs, InterpretTask, ObjectSource, OutputForm};
use review::{Answer, RequestObjects};

/// Exit code if the interpreter refuses the object.
const REFUSED: u8 = 1;
/// Exit code if there is no answer: wrong flags, an object that cannot be read, or a script that does not end.
const NO_ANSWER: u8 = 2;

/// Time limit of a script, as in Karmada.
const SCRIPT_TIME: Duration = Duration::from_secs(1);
/// Time in which a script that is stopped must end.
const SCRIPT_END: Duration = Duration::from_secs(5);

/// The result of a request to the interpreter.
enum Interpreted {
    /// The text of its answer.
    Answered(String),
    Refused(InterpretError),
}

/// Prints the answer of the interpreter, and returns the exit code.
pub(crate) fn run(args: &InterpretArgs) -> ExitCode {
    match interpret(args) {
        Ok(Interpreted::Answered(text)) => match print(&text, args) {
            Ok(()) => ExitCode::SUCCESS,
            // The reader has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => failed(&error.into(), NO_ANSWER),
        },
        Ok(Interpreted::Refused(error)) => failed(&error.into(), REFUSED),
        Err(error) => failed(&error, NO_ANSWER),
    }
}

fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    // A line of the log would hide the message from a person.
    let _ = writeln!(anstream::stderr(), "error: {error:#}");
    code.into()
}

fn print(text: &str, args: &InterpretArgs) -> io::Result<()> {
    let choice = match (args.output, args.color) {
        // Only the text has colours. The other forms must be written as they are.
        (OutputForm::Json | OutputForm::Yaml, _) | (_, ColorChoice::Always) => Colors::AlwaysAnsi,
        (OutputForm::Text, ColorChoice::Auto) => AutoStream::choice(&io::stdout()),
        (OutputForm::Text, ColorChoice::Never) => Colors::Never,
    };
    let mut stdout = AutoStream::new(io::stdout(), choice);
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn interpret(args: &InterpretArgs) -> anyhow::Result<Interpreted> {
    let task = args.task()?;
    let objects = objects(args, &task)?;
    let body = objects.body(task.operation);
    let interpretation = match customizations(args)? {
        Some(interpreter) => within_time_limit(interpreter, body)?,
        None => interpreters::interpret(&body, clock::now())?,
    };
    if let Some(refusal) = interpretation.error {
        return Ok(Interpreted::Refused(refusal));
    }
    let answer = Answer::decode(task.operation, &interpretation.body, &objects.object)?;
    let text = render::text(&answer, &objects.object, args.output)?;
    Ok(Interpreted::Answered(text))
}

/// Runs a script. After [`SCRIPT_TIME`], it is stopped. Lua cannot stop inside its own functions, so after
/// [`SCRIPT_END`] the process does not wait for it any more.
fn within_time_limit(interpreter: LuaInterpreter, body: Vec<u8>) -> anyhow::Result<Interpretation> {
    let stop = StopFlag::default();
    let (sender, receiver) = mpsc::channel();
    let in_thread = stop.clone();
    thread::spawn(move || {
        let interpretation = interpreter.interpret(&body, clock::now(), &in_thread);
        // Without a receiver, the process has ended with an error.
        let _ = sender.send(interpretation);
    });
    let answer = receiver.recv_timeout(SCRIPT_TIME).or_else(|_| {
        stop.stop();
        receiver.recv_timeout(SCRIPT_END)
    });
    match answer {
        Ok(interpretation) => Ok(interpretation?),
        Err(RecvTimeoutError::Timeout) => bail!("the script does not end"),
        Err(RecvTimeoutError::Disconnected) => bail!("the script has no result"),
    }
}

/// Returns the interpreter that runs the given customizations.
fn customizations(args: &InterpretArgs) -> anyhow::Result<Option<LuaInterpreter>> {
    if args.customization.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for file in &args.customization {
        all.extend(files::customizations(file)?);
    }
    let interpreter = LuaInterpreter::new(&all, Limits::default()).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(CustomizationError::to_string).collect();
        anyhow!(errors.join("\n"))
    })?;
    Ok(Some(interpreter))
}

/// Checks that the object in the cell is the desired object.
///
/// # Errors
///
/// If they have another kind, name or namespace.
fn require_same(desired: &Value, observed: &Value) -> anyhow::Result<()> {
    for field in [
        "/apiVersion",
        "/kind",
        "/metadata/namespace",
        "/metadata/name",
    ] {
        let (ours, theirs) = (desired.pointer(field), observed.pointer(field));
        if ours != theirs {
            let name = field.trim_start_matches('/').replace('/', ".");
            let text =
                |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
            bail!(
                "{name} is {} in the desired object and {} in the object of --observed: give the same object of both planes",
                text(ours),
                text(theirs)
            );
        }
    }
    Ok(())
}

/// Checks that the interpreter can see who wrote the number of replicas in the cell.
///
/// # Errors
///
/// If the object was saved without `managedFields`, as kubectl does by default.
fn require_managed_fields(observed: &Value) -> anyhow::Result<()> {
    let has_replicas = observed.pointer("/spec/replicas").is_some();
    if has_replicas && observed.pointer("/metadata/managedFields").is_none() {
        bail!(
            "the object of --observed has no metadata.managedFields, which say who wrote spec.replicas: save it with \
             kubectl get -o yaml --show-managed-fields"
        );
    }
    Ok(())
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
    if let Some(observed) = &objects.observed {
        require_same(&objects.object, observed)?;
        // Scripts have their own rules.
        if args.customization.is_empty() {
            require_managed_fields(observed)?;
        }
    }
    objects.replicas = task.replicas;
    if let Some(file) = task.status {
        objects.items = files::items(file)?;
    }
    Ok(objects)
}
