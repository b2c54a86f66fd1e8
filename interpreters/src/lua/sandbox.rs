//! What a script can use: the libraries of Karmada's engine, without anything that reads or keeps something outside the
//! call (docs/concepts/lua.md#libraries).

mod date;
mod text;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};

use super::kube;
use super::library::{budget, fail_at, message, unsupported};

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
/// The libraries. A script can change them, and the next call does not see it.
const LIBRARIES: [&str; 5] = [KUBE, "math", "os", "string", "table"];
/// The library that a script must load with `require`.
const KUBE: &str = "kube";

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
