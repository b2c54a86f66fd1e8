//! What a script can use: the libraries of Karmada's engine, without anything that reads or keeps something outside the
//! call (docs/concepts/lua.md#libraries).

mod date;
mod text;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};

use super::budget::Budget;
use super::kube;

/// Name of a script in the messages of Lua, as in Karmada's engine.
pub(super) const CHUNK: &str = "<string>";
/// Functions of the base library that a script does not have.
const UNSUPPORTED: [&str; 15] = [
    "collectgarbage",
    "dofile",
    "gcinfo",
    "getfenv",
    "getmetatable",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "newproxy",
    "rawequal",
    "rawget",
    "rawset",
    "setfenv",
    "setmetatable",
];
const LIBRARIES: [&str; 5] = [KUBE, "math", "os", "string", "table"];
/// The library that a script must load with `require`.
const KUBE: &str = "kube";

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
    fail_at(lua, 1, problem)
}

/// Returns the error of a function. `level` is the number of functions between it and the script, plus 1.
fn fail_at(lua: &Lua, level: usize, problem: impl fmt::Display) -> mlua::Error {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is for one lifetime, and the closure for any"
    )]
    let line = lua.inspect_stack(level, |caller| caller.current_line());
    match line.flatten() {
        Some(line) => mlua::Error::runtime(format_args!("{CHUNK}:{line}: {problem}")),
        None => mlua::Error::runtime(problem),
    }
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

/// The globals of a call. Each call has its own, so a script can change them, and the next call does not see it.
pub(super) struct Sandbox {
    /// Returns new globals.
    globals: Function,
    /// What a script has as globals while it does not run.
    none: Table,
}

impl Sandbox {
    /// Creates a state of Lua.
    pub(super) fn create() -> mlua::Result<(Lua, Self)> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(false),
        )?;
        let globals = lua.globals();
        for name in UNSUPPORTED {
            globals.raw_set(name, unsupported(&lua, name.to_owned())?)?;
        }
        for name in ["_G", "coroutine", "debug", "io", "package"] {
            globals.raw_set(name, Value::Nil)?;
        }
        globals.raw_set("print", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        let original: Function = globals.raw_get("tostring")?;
        globals.raw_set("tostring", text::to_string(&lua, original)?)?;
        protect_calls(&lua, &globals)?;
        text::install(&lua, &globals.raw_get("string")?)?;
        sort_within_budget(&lua, &globals.raw_get("table")?)?;
        let math: Table = globals.raw_get("math")?;
        for name in ["random", "randomseed"] {
            math.raw_set(name, unsupported(&lua, format!("math.{name}"))?)?;
        }
        globals.raw_set("os", date::library(&lua)?)?;
        globals.raw_set("kube", kube::library(&lua)?)?;
        let sandbox = Self {
            globals: globals_of_calls(&lua, &globals)?,
            none: lua.create_table()?,
        };
        Ok((lua, sandbox))
    }

    /// Makes a script forget the globals of its call.
    pub(super) fn forget(&self, chunk: &Function) {
        // Setting the environment of a function of Lua cannot fail.
        let _ = chunk.set_environment(self.none.clone());
    }

    /// Returns the globals of one call.
    pub(super) fn globals_of_call(&self) -> mlua::Result<Table> {
        self.globals.call(())
    }
}

/// Returns a function that returns a copy of the globals and of the libraries. One function of Lua makes the copies,
/// because this is several times as fast as a call for each entry.
fn globals_of_calls(lua: &Lua, globals: &Table) -> mlua::Result<Function> {
    let copied = |table: &Table, from: &str| -> mlua::Result<String> {
        let mut fields = Vec::new();
        for pair in table.pairs::<String, Value>() {
            let (name, value) = pair?;
            if !value.is_table() {
                // Every name of a library is an identifier of Lua.
                fields.push(format!("{name}={from}.{name}"));
            }
        }
        Ok(format!("{{{}}}", fields.join(",")))
    };
    let mut lines = vec!["local base, unknown = ...".to_owned()];
    lines.extend(LIBRARIES.map(|name| format!("local {name} = base.{name}")));
    lines.push("return function() local loaded = {}".to_owned());
    lines.push(format!("local globals = {}", copied(globals, "base")?));
    for name in LIBRARIES {
        let library = copied(&globals.raw_get(name)?, name)?;
        lines.push(match name {
            // Few scripts need it.
            KUBE => {
                format!("local function load_kube() loaded.kube = {library} return loaded.kube end")
            }
            _ => format!("loaded.{name} = {library} globals.{name} = loaded.{name}"),
        });
    }
    lines.push(
        "globals._G = globals
        function globals.require(name)
            if loaded[name] then return loaded[name] end
            if name == 'kube' then return load_kube() end
            unknown(name)
        end
        return globals end"
            .to_owned(),
    );
    let unknown = lua.create_function(|lua, name: Value| -> mlua::Result<()> {
        let name = name.to_string()?;
        let known = LIBRARIES.join(", ");
        let problem = format!("module {name} not found; known are {known}");
        Err(fail_at(lua, 2, problem))
    })?;
    lua.load(lines.join("\n")).call((globals, unknown))
}

/// Returns a function that only says that it is not there.
fn unsupported(lua: &Lua, name: String) -> mlua::Result<Function> {
    lua.create_function(move |lua, _: MultiValue| -> mlua::Result<()> {
        let problem = format_args!("{name} is not supported in a customization");
        Err(fail(lua, problem))
    })
}

/// Replaces `pcall` and `xpcall`: they must not catch the end of a budget. An error of a function that is written in
/// Rust becomes a text, as in Karmada's engine. The handler of `xpcall` runs after the failed call: inside it, Lua would
/// not count the instructions of the handler if the budget is what ended the call.
fn protect_calls(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let check = lua.create_function(|lua, mut results: Variadic<Value>| {
        if let Some(exceeded) = budget(lua)?.exceeded() {
            return Err(mlua::Error::runtime(format!("{exceeded:?}")));
        }
        if let Some(error) = results.get_mut(1)
            && let Value::Error(cause) = error
        {
            let text = message(cause);
            *error = Value::String(lua.create_string(text)?);
        }
        Ok(results)
    })?;
    let wrap = r"
        local pcall, check = ...
        local function handle(handler, ok, ...)
            if ok then return ok, ... end
            return false, select(2, check(pcall(handler, ...)))
        end
        return function(...) return check(pcall(...)) end,
            function(f, handler) return handle(handler, check(pcall(f))) end
    ";
    let original: Function = globals.raw_get("pcall")?;
    let (pcall, xpcall): (Function, Function) = lua.load(wrap).call((original, check))?;
    globals.raw_set("pcall", pcall)?;
    globals.raw_set("xpcall", xpcall)
}

/// Makes `table.sort` count its work: without a function of the script, it runs in C, where nothing counts.
fn sort_within_budget(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let count = lua.create_function(|lua, list: Value| {
        let length = list.as_table().map_or(0, Table::raw_len);
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let work = length.saturating_mul(u64::from(length.checked_ilog2().unwrap_or_default()));
        let spent = budget(lua)?.spend(work);
        spent.map_err(|exceeded| mlua::Error::runtime(format!("{exceeded:?}")))
    })?;
    let wrap = r"
        local sort, count = ...
        return function(list, ...) count(list) return sort(list, ...) end
    ";
    let sort: Function = table.raw_get("sort")?;
    let sort: Function = lua.load(wrap).call((sort, count))?;
    table.raw_set("sort", sort)
}

/// Returns the message of an error, without the stack.
pub(super) fn message(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return message(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    match text.split_once("\nstack traceback:") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}
