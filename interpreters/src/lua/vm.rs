//! A state of Lua that runs scripts, one call at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, MultiValue, Table, Value, VmState};
use serde::de::DeserializeSeed;

use super::budget::{Budget, Exceeded, Limits, StopFlag};
use super::library::{CHUNK, CallTime, ended, message};
use super::sandbox::Sandbox;
use super::values::LuaSeed;

/// After this many instructions of Lua, the bounds are checked.
const INSTRUCTIONS_BETWEEN_CHECKS: u32 = 100;
/// A state with more memory than this after a call is not used again, in bytes.
const KEPT_MAX: usize = 2 << 20;

/// Memory that a JSON text can need as a value of Lua, in bytes for each of its bytes, rounded up. Lists in lists need
/// most.
const MEMORY_PER_BYTE: usize = 64;

/// A script, compiled.
#[derive(Debug)]
pub(super) struct Script {
    bytecode: Vec<u8>,
    /// Name of the function that the script must define.
    function: &'static str,
}

impl Script {
    /// Compiles a script.
    ///
    /// # Errors
    ///
    /// The message of Lua, which names the line.
    pub(super) fn compile(source: &str, function: &'static str) -> Result<Self, String> {
        let lua = Lua::new();
        let chunk = lua.load(source).set_name(format!("={CHUNK}"));
        let chunk = chunk.set_mode(ChunkMode::Text).into_function();
        let chunk = chunk.map_err(|error| problem(&error))?;
        Ok(Self {
            bytecode: chunk.dump(false),
            function,
        })
    }
}

/// An argument of a script.
pub(super) enum Argument<'a> {
    /// A JSON text, and its field in the request.
    Json(&'static str, &'a str),
    Number(i32),
    Absent,
}

impl Argument<'_> {
    /// Returns the memory that the argument can need in Lua, in bytes.
    fn memory(&self) -> usize {
        match self {
            Self::Json(_, text) => text.len().saturating_mul(MEMORY_PER_BYTE),
            Self::Number(_) | Self::Absent => 0,
        }
    }
}

/// Why a call of a script has no result.
#[derive(Debug, PartialEq)]
pub(super) enum CallError {
    /// The input is no JSON that Lua can have.
    Input(&'static str, String),
    /// The script failed. The message names the line.
    Script(String),
}

/// The bounds and the time of one call.
pub(super) struct CallContext<'c> {
    pub(super) limits: &'c Limits,
    pub(super) stop: &'c StopFlag,
    pub(super) now: Timestamp,
}

pub(super) struct Vm {
    lua: Lua,
    sandbox: Sandbox,
    /// The scripts that this state has loaded, by number.
    loaded: BTreeMap<usize, Function>,
}

impl Vm {
    pub(super) fn create() -> Result<Self, CallError> {
        let (lua, sandbox) = Sandbox::create().map_err(|error| script_error(&error))?;
        Ok(Self {
            lua,
            sandbox,
            loaded: BTreeMap::new(),
        })
    }

    /// Calls the function of a script, and passes its results to `read`.
    pub(super) fn call<R>(
        &mut self,
        number: usize,
        script: &Script,
        arguments: &[Argument<'_>],
        context: &CallContext<'_>,
        read: impl FnOnce(MultiValue) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let budget = Arc::new(Budget::new(
            context.limits.instructions,
            context.stop.clone(),
        ));
        self.lua.set_app_data(Arc::clone(&budget));
        self.lua.set_app_data(CallTime(context.now));
        let limit = self.lua.used_memory().saturating_add(context.limits.memory);
        let result = self
            .values(arguments, limit, &budget)
            .and_then(|values| self.run(number, script, values, &budget))
            .and_then(read);
        // Without a limit, nothing fails while the state is cleaned.
        let _ = self.lua.set_memory_limit(0);
        self.lua.remove_hook();
        if let Some(chunk) = self.loaded.get(&number) {
            self.sandbox.forget(chunk);
        }
        result.map_err(|error| match budget.exceeded() {
            Some(Exceeded::Instructions) => CallError::Script(format!(
                "exceeds the limit of {} instructions",
                context.limits.instructions
            )),
            Some(Exceeded::Time) => {
                CallError::Script("exceeds the time limit of the call".to_owned())
            }
            None => error,
        })
    }

    fn run(
        &mut self,
        number: usize,
        script: &Script,
        arguments: MultiValue,
        budget: &Arc<Budget>,
    ) -> Result<MultiValue, CallError> {
        let failed = |error: mlua::Error| script_error(&error);
        let globals = self.sandbox.globals_of_call().map_err(failed)?;
        let chunk = self.chunk(number, script).map_err(failed)?;
        chunk.set_environment(globals.clone()).map_err(failed)?;
        let counted = Arc::clone(budget);
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_BETWEEN_CHECKS);
        let hook = self.lua.set_hook(every, move |_, _| {
            let spent = counted.spend(u64::from(INSTRUCTIONS_BETWEEN_CHECKS));
            spent.map_err(ended).map(|()| VmState::Continue)
        });
        hook.map_err(failed)?;
        chunk.call::<()>(()).map_err(failed)?;
        let function = function(&globals, script.function)?;
        function.call(arguments).map_err(failed)
    }

    /// Returns the arguments, and limits the memory of the state. If the arguments cannot reach the limit, it is set
    /// after them, because allocations take several times as long with a limit.
    fn values(
        &mut self,
        arguments: &[Argument<'_>],
        limit: usize,
        budget: &Budget,
    ) -> Result<MultiValue, CallError> {
        let limited = || {
            let former = self.lua.set_memory_limit(limit);
            former.map_err(|error| script_error(&error))
        };
        let memory = arguments.iter().map(Argument::memory);
        let most = memory.fold(self.lua.used_memory(), usize::saturating_add);
        if most > limit {
            limited()?;
        }
        let values = arguments
            .iter()
            .map(|argument| self.value(argument, budget));
        let values = values.collect::<Result<_, _>>()?;
        limited()?;
        Ok(values)
    }

    /// Returns the compiled script as a function of this state.
    fn chunk(&mut self, number: usize, script: &Script) -> mlua::Result<Function> {
        if let Some(chunk) = self.loaded.get(&number) {
            return Ok(chunk.clone());
        }
        let chunk = self.lua.load(script.bytecode.as_slice());
        let chunk = chunk.set_mode(ChunkMode::Binary).into_function()?;
        self.loaded.insert(number, chunk.clone());
        Ok(chunk)
    }

    fn value(&self, argument: &Argument<'_>, budget: &Budget) -> Result<Value, CallError> {
        match argument {
            Argument::Absent => Ok(Value::Nil),
            Argument::Number(number) => Ok(Value::Integer(i64::from(*number))),
            Argument::Json(field, text) => {
                let mut deserializer = serde_json::Deserializer::from_str(text);
                let value = LuaSeed(&self.lua, budget).deserialize(&mut deserializer);
                value.map_err(|error| CallError::Input(field, error.to_string()))
            }
        }
    }

    /// Returns the memory that this state cannot free, in bytes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.lua.gc_collect().unwrap();
        self.lua.used_memory()
    }

    /// Frees what the call has left. Returns whether the state may be used again.
    pub(super) fn clean(&mut self) -> bool {
        if self.lua.used_memory() > KEPT_MAX && self.lua.gc_collect().is_err() {
            return false;
        }
        self.lua.used_memory() <= KEPT_MAX
    }
}

fn function(globals: &Table, name: &str) -> Result<Function, CallError> {
    let value: mlua::Result<Value> = globals.raw_get(name);
    match value {
        Ok(Value::Function(function)) => Ok(function),
        Ok(Value::Nil) => Err(CallError::Script(format!(
            "does not define function {name}"
        ))),
        Ok(other) => {
            let kind = other.type_name();
            Err(CallError::Script(format!(
                "{name} is a {kind}, must be a function"
            )))
        }
        Err(error) => Err(script_error(&error)),
    }
}

fn script_error(error: &mlua::Error) -> CallError {
    CallError::Script(problem(error))
}

/// Returns the message of an error. The line of the script comes first.
pub(super) fn problem(error: &mlua::Error) -> String {
    let text = message(error);
    let at_line = text
        .strip_prefix(CHUNK)
        .and_then(|rest| rest.strip_prefix(':'));
    let at_line = at_line.and_then(|rest| rest.split_once(':'));
    match at_line {
        Some((line, rest)) => format!("line {line}: {}", rest.trim_start()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this bound, arguments could exceed the memory of the call.
    #[test]
    fn no_text_needs_more_memory_for_each_byte() {
        let list = |element: &str| {
            let elements = vec![element; (64 << 10) / element.len()];
            format!("[{}]", elements.join(","))
        };
        let deep = "[".repeat(100) + &"]".repeat(100);
        let named = (0..8000).map(|number| format!(r#""{number:x}":[]"#));
        let fields = format!("{{{}}}", named.collect::<Vec<_>>().join(","));
        let distinct = (0..9000).map(|number| format!(r#""{number:x}""#));
        let distinct = format!("[{}]", distinct.collect::<Vec<_>>().join(","));
        let elements = ["1", "[]", "{}", "[1]", r#"{"":1}"#, r#"[{"":[]}]"#, &deep];
        let lists = elements.map(list);
        for text in lists.iter().chain([&fields, &distinct]) {
            let vm = Vm::create().unwrap();
            vm.lua.gc_stop();
            let before = vm.lua.used_memory();
            let budget = Budget::new(1, StopFlag::default());
            let value = vm.value(&Argument::Json("object", text), &budget).unwrap();
            let needed = vm.lua.used_memory() - before;
            // While a table grows, a part of it exists twice.
            let most = needed + needed / 2;
            let begin = text.get(..20);
            assert!(most <= text.len() * MEMORY_PER_BYTE, "{begin:?}: {most}");
            drop(value);
        }
    }
}
