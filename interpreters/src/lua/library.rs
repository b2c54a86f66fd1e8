//! The common parts of the library functions: the bounds and the time of the call, and errors.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use mlua::debug::Debug;
use mlua::{Function, Lua, MultiValue, Value};

use super::budget::{Budget, Exceeded};

/// Name of a script in the messages of Lua, as in Karmada's engine.
pub(super) const CHUNK: &str = "<string>";

/// Name of the functions that are written in Lua, in the messages of Lua.
pub(super) const LIBRARY: &str = "[library]";

/// The time of a call, for `os.time` and `os.date`.
pub(super) struct CallTime(pub(super) Timestamp);

/// Returns the bounds of the call that runs.
pub(super) fn budget(lua: &Lua) -> mlua::Result<Arc<Budget>> {
    let budget = lua.app_data_ref::<Arc<Budget>>();
    let budget = budget.ok_or_else(|| mlua::Error::runtime("no call runs"))?;
    Ok(Arc::clone(&budget))
}

/// Returns the error of a function, with the line of the script that called it.
pub(super) fn fail(lua: &Lua, problem: impl fmt::Display) -> mlua::Error {
    /// How many functions can be between the script and the function.
    const BETWEEN_MAX: usize = 8;
    let line = (1..BETWEEN_MAX).find_map(|level| {
        let line = |caller: &Debug<'_>| {
            let is_script = caller.source().short_src.as_deref() == Some(CHUNK);
            caller.current_line().filter(|_| is_script)
        };
        lua.inspect_stack(level, line).flatten()
    });
    match line {
        Some(line) => mlua::Error::runtime(format_args!("{CHUNK}:{line}: {problem}")),
        None => mlua::Error::runtime(problem),
    }
}

/// Returns the error that ends a call. The message is replaced at the end.
pub(super) fn ended(exceeded: Exceeded) -> mlua::Error {
    mlua::Error::runtime(format!("{exceeded:?}"))
}

/// Returns the error of a function whose argument has a wrong type.
pub(super) fn argument_error(
    lua: &Lua,
    function: &str,
    index: usize,
    expected: &str,
    given: &Value,
) -> mlua::Error {
    let given = given.type_name();
    let problem =
        format_args!("bad argument #{index} to {function} ({expected} expected, got {given})");
    fail(lua, problem)
}

/// Returns a function that only says that it is not there.
pub(super) fn unsupported(lua: &Lua, name: String) -> mlua::Result<Function> {
    lua.create_function(move |lua, _: MultiValue| -> mlua::Result<()> {
        let problem = format_args!("{name} is not supported in a customization");
        Err(fail(lua, problem))
    })
}

/// Returns the message of an error, without the stack. A message that names a line of the libraries names the line of
/// the script instead.
pub(super) fn message(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return message(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let Some((message, stack)) = text.split_once("\nstack traceback:") else {
        return text;
    };
    let of_library = message
        .strip_prefix(LIBRARY)
        .and_then(|it| it.strip_prefix(':'));
    let Some((_, problem)) = of_library.and_then(|it| it.split_once(": ")) else {
        return message.to_owned();
    };
    let mut lines = stack.lines().filter_map(|frame| {
        let at = frame.trim_start().strip_prefix(CHUNK)?.strip_prefix(':')?;
        at.split_once(':').map(|(line, _)| line)
    });
    match lines.next() {
        Some(line) => format!("{CHUNK}:{line}: {problem}"),
        None => problem.to_owned(),
    }
}
