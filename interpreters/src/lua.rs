//! Runs the Lua scripts of ResourceInterpreterCustomizations, with the rules of Karmada's engine. See
//! docs/concepts/lua.md.
//!
//! A script runs within bounds: instructions, memory, size of the result. This module reads no clock. The caller sets a
//! [`StopFlag`] when the time of a call is over.

mod budget;
mod customization;
mod diff;
mod kube;
mod library;
mod node_claim;
mod numbers;
mod object;
mod pattern;
mod quantity;
mod results;
mod sandbox;
mod values;
mod vm;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use api::karmada::ResourceInterpreterCustomization;
use jiff::Timestamp;
use mlua::{MultiValue, Table, Value};
use serde_json::Value as Json;

pub use budget::{Limits, SCRIPT_TIME, StopFlag};
pub use customization::{CustomizationError, script_field};

use crate::error::InterpretError;
use crate::patch::Patch;
use crate::review::{
    self, InterpretRequest, Interpretation, MalformedReview, Operation, OperationOutcome,
};
use customization::{PlacedScript, Scripts};
use values::{JsonReader, NotJson};
use vm::{Argument, CallContext, CallError, Vm};

/// How many idle states of Lua are kept. More calls at once create more states.
const IDLE_MAX: usize = 8;

/// Answers requests with the scripts of customizations.
pub struct LuaInterpreter {
    scripts: Scripts,
    limits: Limits,
    idle: Mutex<Vec<Vm>>,
}

impl fmt::Debug for LuaInterpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LuaInterpreter")
            .field("scripts", &self.scripts)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl LuaInterpreter {
    /// Compiles the scripts of these customizations.
    ///
    /// # Errors
    ///
    /// Every script that does not compile, and every customization without a target.
    pub fn new(
        customizations: &[ResourceInterpreterCustomization],
        limits: Limits,
    ) -> Result<Self, Vec<CustomizationError>> {
        Ok(Self {
            scripts: Scripts::compile(customizations)?,
            limits,
            idle: Mutex::default(),
        })
    }

    /// Returns the `apiVersion` and the kind of every object that a script is for, sorted.
    pub fn kinds(&self) -> Vec<(String, String)> {
        self.scripts.kinds().cloned().collect()
    }

    /// Returns the names of the customizations whose scripts answer this operation for a kind, sorted.
    pub fn customizations_for(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
    ) -> Vec<&str> {
        let numbers = self.scripts.of(api_version, kind, operation);
        let all = numbers.unwrap_or_default().iter();
        let named = all.filter_map(|number| self.scripts.all.get(*number));
        let named = named.map(|placed| placed.customization.as_str());
        match operation {
            Operation::InterpretDependency => named.collect(),
            _ => named.take(1).collect(),
        }
    }

    /// Answers one `ResourceInterpreterContext`. `now` is the time that scripts see. The script ends when `stop` is
    /// set.
    ///
    /// # Errors
    ///
    /// The same errors as [`interpret`](crate::interpret).
    pub fn interpret(
        &self,
        body: &[u8],
        now: Timestamp,
        stop: &StopFlag,
    ) -> Result<Interpretation, MalformedReview> {
        let request = review::decode(review::text(body)?)?;
        let outcome = self.outcome(&request, now, stop);
        Ok(review::encode(&request.meta(), outcome))
    }

    fn outcome<'a>(
        &self,
        request: &InterpretRequest<'a>,
        now: Timestamp,
        stop: &StopFlag,
    ) -> Result<OperationOutcome<'a>, InterpretError> {
        let operation = request.operation()?;
        let (api_version, kind) = request.target();
        let numbers = self.scripts.of(&api_version, kind, operation);
        let numbers =
            numbers.map_err(|problem| InterpretError::new("request.operation", problem))?;
        let call = Call {
            interpreter: self,
            request,
            context: CallContext {
                limits: &self.limits,
                stop,
                now,
            },
        };
        call.answer(operation, numbers)
    }
}

/// One request to the scripts.
struct Call<'c, 'a> {
    interpreter: &'c LuaInterpreter,
    request: &'c InterpretRequest<'a>,
    context: CallContext<'c>,
}

impl<'a> Call<'_, 'a> {
    /// Returns the answer of the first of these scripts, or for InterpretDependency of all of them.
    fn answer(
        &self,
        operation: Operation,
        numbers: &[usize],
    ) -> Result<OperationOutcome<'a>, InterpretError> {
        let &[number, ..] = numbers else {
            return Err(InterpretError::missing("request.operation"));
        };
        let object = self.request.object()?;
        let object_argument = Argument::Json("request.object", object);
        let limit = self.interpreter.limits.output;
        let items = || match self.request.reported_status() {
            Some(items) => Argument::Json("request.aggregatedStatus", items),
            None => Argument::Absent,
        };
        match operation {
            Operation::InterpretHealth => self.run(number, &[object_argument], |results| {
                match results.front() {
                    Some(Value::Boolean(healthy)) => Ok(OperationOutcome::Health(*healthy)),
                    other => Err(unexpected(other, "a boolean")),
                }
            }),
            Operation::InterpretReplica => self.run(number, &[object_argument], |results| {
                let replicas = replicas(results.front())?;
                let requirements = match results.get(1) {
                    None | Some(Value::Nil) => None,
                    Some(Value::Table(table)) => {
                        let requirements = fields(table, limit, &[])?;
                        results::check_requirements(&requirements).map_err(wrong)?;
                        Some(requirements)
                    }
                    other => return Err(unexpected(other, "a table or nil as second result")),
                };
                Ok(OperationOutcome::ScriptReplicas {
                    replicas,
                    requirements,
                })
            }),
            Operation::InterpretComponent => self.run(number, &[object_argument], |results| {
                let components = match results.front() {
                    None | Some(Value::Nil) => Vec::new(),
                    other => list(table(other)?, limit, results::check_component)?,
                };
                Ok(OperationOutcome::ScriptComponents(components))
            }),
            Operation::InterpretStatus => self.run(number, &[object_argument], |results| {
                let status = fields(table(results.front())?, limit, &[])?;
                Ok(OperationOutcome::Status(status.to_string().into()))
            }),
            Operation::ReviseReplica => {
                let before = object::read("request.object", object, limit)?;
                let share = Argument::Number(self.request.replicas());
                self.run(number, &[object_argument, share], |results| {
                    patch(results.front(), limit, &before, &[&before])
                })
            }
            Operation::Retain => {
                let observed = self.request.observed_object()?;
                let before = object::read("request.object", object, limit)?;
                let in_cell = object::read("request.observedObject", observed, limit)?;
                let observed = Argument::Json("request.observedObject", observed);
                self.run(number, &[object_argument, observed], |results| {
                    patch(results.front(), limit, &before, &[&before, &in_cell])
                })
            }
            Operation::AggregateStatus => {
                let before = object::read("request.object", object, limit)?;
                self.run(number, &[object_argument, items()], |results| {
                    patch(results.front(), limit, &before, &[])
                })
            }
            Operation::InterpretDependency => self.dependencies(numbers),
        }
    }

    /// Returns the dependencies that any of the scripts names, sorted.
    fn dependencies(&self, numbers: &[usize]) -> Result<OperationOutcome<'a>, InterpretError> {
        let limit = self.interpreter.limits.output;
        // The key of a dependency is its place in the answer. The text tells two dependencies with label selectors
        // apart.
        let mut all = BTreeMap::new();
        for &number in numbers {
            let object = Argument::Json("request.object", self.request.object()?);
            let found = self.run(number, &[object], |results| {
                list(table(results.front())?, limit, results::check_dependency)
            })?;
            for dependency in found {
                let names = ["apiVersion", "kind", "namespace", "name"].map(|field| {
                    let text = dependency.get(field).and_then(Json::as_str);
                    text.unwrap_or_default().to_owned()
                });
                all.insert((names, dependency.to_string()), dependency);
            }
        }
        let all = all.into_values().collect();
        Ok(OperationOutcome::ScriptDependencies(all))
    }

    /// Runs a script in a state of Lua that no other call uses.
    fn run<R>(
        &self,
        number: usize,
        arguments: &[Argument<'_>],
        read: impl FnOnce(MultiValue) -> Result<R, CallError>,
    ) -> Result<R, InterpretError> {
        let interpreter = self.interpreter;
        let Some(placed) = interpreter.scripts.all.get(number) else {
            return Err(InterpretError::missing("request.operation"));
        };
        let named = |error| named(error, placed);
        let idle = || {
            interpreter
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let kept = idle().pop();
        let mut vm = match kept {
            Some(vm) => vm,
            None => Vm::create().map_err(named)?,
        };
        let result = vm.call(number, &placed.script, arguments, &self.context, read);
        // After an error, a part of the state may be used up.
        if result.is_ok() && vm.clean() {
            let mut idle = idle();
            if idle.len() < IDLE_MAX {
                idle.push(vm);
            }
        }
        result.map_err(named)
    }
}

fn named(error: CallError, placed: &PlacedScript) -> InterpretError {
    match error {
        CallError::Input(field, problem) => InterpretError::new(field, problem),
        CallError::Script(problem) => {
            let (customization, rule) = (&placed.customization, placed.rule);
            let field = format_args!(
                "ResourceInterpreterCustomization {customization}, spec.customizations.{rule}.luaScript"
            );
            InterpretError::new(field, problem)
        }
    }
}

fn unexpected(given: Option<&Value>, expected: &str) -> CallError {
    let given = given.unwrap_or(&Value::Nil).type_name();
    CallError::Script(format!(
        "the script returns {given}, must return {expected}"
    ))
}

fn table(result: Option<&Value>) -> Result<&Table, CallError> {
    match result {
        Some(Value::Table(table)) => Ok(table),
        other => Err(unexpected(other, "a table")),
    }
}

/// Returns the fields of a result.
fn fields(table: &Table, limit: usize, references: &[&Json]) -> Result<Json, CallError> {
    JsonReader::read_object(table, limit, references).map_err(not_json)
}

fn not_json(error: NotJson) -> CallError {
    let (path, problem) = (error.path, error.problem);
    CallError::Script(match path.is_empty() {
        true => format!("the result {problem}"),
        false => format!("the result: {} {problem}", path.trim_start_matches('.')),
    })
}

/// Returns a list. `check` checks each element.
fn list(
    table: &Table,
    limit: usize,
    check: impl Fn(&Json) -> Result<(), String>,
) -> Result<Vec<Json>, CallError> {
    match JsonReader::read(table, limit, &[]).map_err(not_json)? {
        Json::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                check(element).map_err(|problem| wrong(format!("[{index}]: {problem}")))?;
            }
            Ok(elements)
        }
        _ => Err(CallError::Script(
            "the script returns a table with names, must return a list".to_owned(),
        )),
    }
}

/// Returns the error of a result that Karmada does not accept.
fn wrong(problem: impl fmt::Display) -> CallError {
    CallError::Script(format!("the result: {problem}"))
}

/// Returns the number of replicas, without its fraction.
fn replicas(result: Option<&Value>) -> Result<i32, CallError> {
    match result {
        Some(Value::Integer(number)) => {
            Ok(i32::try_from(*number).unwrap_or(if *number < 0 { i32::MIN } else { i32::MAX }))
        }
        #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
        Some(Value::Number(number)) => Ok(*number as i32),
        other => Err(unexpected(other, "a number")),
    }
}

/// Returns the patch that makes the object of a script out of the object of the request.
fn patch<'a>(
    result: Option<&Value>,
    limit: usize,
    before: &Json,
    references: &[&Json],
) -> Result<OperationOutcome<'a>, CallError> {
    let after = fields(table(result)?, limit, references)?;
    let kind = after.get("kind").and_then(Json::as_str);
    if kind.is_none_or(str::is_empty) {
        let problem = "the result: kind is missing; the script must return the whole object";
        return Err(CallError::Script(problem.to_owned()));
    }
    let operations = diff::diff(before, after, limit);
    let operations = operations.map_err(|diff::TooLarge| {
        CallError::Script("the script changes too many fields".to_owned())
    })?;
    Ok(OperationOutcome::Patch(Patch::of_operations(&operations)))
}

#[cfg(test)]
mod tests;
