//! `compute-federation interpret` shows what the interpreter answers about one object (docs/operate/interpret.md).

mod hub;
mod objects;
mod render;

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::bail;
use interpreters::caller::{Answer, Request};
use interpreters::lua::{Limits, LuaInterpreter, SCRIPT_TIME, StopFlag};
use interpreters::{InterpretError, Interpretation, Operation};
use multicluster::clock;
use serde_json::Value;

use crate::args::{InterpretArgs, InterpretTask, ObjectSource};
use crate::scripts::SCRIPT_END;
use crate::terminal::{self, NO_ANSWER};
use crate::{object_files, scripts};
use objects::RequestObjects;

/// Exit code if the interpreter refuses the object.
const REFUSED: u8 = 1;

/// The result of a request to the interpreter.
enum Interpreted {
    /// The text of its answer.
    Answered(String),
    Refused(InterpretError),
}

/// Prints the answer of the interpreter, and returns the exit code.
pub(crate) fn run(args: &InterpretArgs) -> ExitCode {
    match interpret(args) {
        Ok(Interpreted::Answered(text)) => {
            let printed = terminal::print(&text, args.output, args.color);
            match printed {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => terminal::failed(&error.into(), NO_ANSWER),
            }
        }
        Ok(Interpreted::Refused(error)) => terminal::failed(&error.into(), REFUSED),
        Err(error) => terminal::failed(&error, NO_ANSWER),
    }
}

fn interpret(args: &InterpretArgs) -> anyhow::Result<Interpreted> {
    let task = args.task()?;
    let objects = objects(args, &task)?;
    let body = Request {
        operation: task.operation,
        object: &objects.object,
        observed: objects.observed.as_ref(),
        items: &objects.items,
        replicas: objects.replicas,
    }
    .body()?;
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
    let all = object_files::customizations_of(&args.customization)?;
    scripts::compile(&all, Limits::default()).map(Some)
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
    let read = |file: Option<&Path>| file.map(object_files::object).transpose();
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
        objects.items = object_files::items(file)?;
    }
    Ok(objects)
}
