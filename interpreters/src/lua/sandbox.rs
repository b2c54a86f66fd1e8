//! The libraries of a script: those of Karmada's engine, without the functions that reach outside the call
//! (docs/concepts/lua.md#libraries).

mod date;
mod text;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};

use super::kube;
use super::library::{LIBRARY, budget, ended, fail, message, unsupported};

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
    /// The globals of a script that does not run.
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
        let of_texts: Table = lua.load("return getmetatable('')").eval()?;
        for name in UNSUPPORTED {
            globals.raw_set(name, unsupported(&lua, name.to_owned())?)?;
        }
        for name in ["_G", "coroutine", "debug", "io", "package"] {
            globals.raw_set(name, Value::Nil)?;
        }
        globals.raw_set("print", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        let original: Function = globals.raw_get("tostring")?;
        globals.raw_set("tostring", text::to_string(&lua, original)?)?;
        let strings = globals.raw_get("string")?;
        text::install(&lua, &strings)?;
        let begin = prelude(&lua, &globals)?;
        globals.raw_set("tonumber", text::to_number(&lua)?)?;
        let tables: Table = globals.raw_get("table")?;
        for name in ["foreach", "foreachi", "setn"] {
            tables.raw_set(name, Value::Nil)?;
        }
        let math: Table = globals.raw_get("math")?;
        for name in ["random", "randomseed"] {
            math.raw_set(name, unsupported(&lua, format!("math.{name}"))?)?;
        }
        globals.raw_set("os", date::library(&lua)?)?;
        globals.raw_set("kube", kube::library(&lua)?)?;
        let sandbox = Self {
            globals: globals_of_calls(&lua, &globals, &begin, &of_texts)?,
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
/// because this is several times as fast as a call for each entry. `of_texts` is the metatable of texts: a function that
/// a script adds to the library `string` is also a method of texts.
fn globals_of_calls(
    lua: &Lua,
    globals: &Table,
    begin: &Function,
    of_texts: &Table,
) -> mlua::Result<Function> {
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
    let mut lines = vec!["local base, unknown, begin, of_texts = ...".to_owned()];
    lines.extend(LIBRARIES.map(|name| format!("local {name} = base.{name}")));
    lines.push("return function() begin() local loaded = {}".to_owned());
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
        of_texts.__index = loaded.string
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
        Err(fail(lua, problem))
    })?;
    lua.load(lines.join("\n"))
        .call((globals, unknown, begin, of_texts))
}

/// Replaces the functions that are written in Lua. Returns the function that begins a call.
fn prelude(lua: &Lua, globals: &Table) -> mlua::Result<Function> {
    let rust = lua.create_table()?;
    // Raises the end of a budget again. An error of a function that is written in Rust becomes a text, as in Karmada's
    // engine.
    let check = lua.create_function(|lua, mut results: Variadic<Value>| {
        if let Some(exceeded) = budget(lua)?.exceeded() {
            return Err(ended(exceeded));
        }
        if let Some(error) = results.get_mut(1)
            && let Value::Error(cause) = error
        {
            let text = message(cause);
            *error = Value::String(lua.create_string(text)?);
        }
        Ok(results)
    })?;
    rust.raw_set("check", check)?;
    let spend = lua.create_function(|lua, work: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float saturates"
        )]
        let spent = budget(lua)?.spend(work as u64);
        spent.map_err(ended)
    })?;
    rust.raw_set("spend", spend)?;
    rust.raw_set("search", text::search_on(lua)?)?;
    let chunk = lua.load(include_str!("sandbox/prelude.lua"));
    chunk.set_name(format!("={LIBRARY}")).call((globals, rust))
}
