//! The functions of the library `string` that search for patterns, and texts of numbers.

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use crate::lua::budget::Budget;
use crate::lua::library::{argument_error, budget, ended, fail, unsupported};
use crate::lua::numbers;
use crate::lua::pattern::{Capture, Match, PatternError, find, find_plain};

/// Longest text that is searched, in bytes, as in Karmada's engine.
const SEARCHED_MAX: usize = 1_000_000;

/// Replaces the functions of the library that cannot be interrupted, and those that Karmada's engine does not have.
pub(super) fn install(lua: &Lua, library: &Table) -> mlua::Result<()> {
    for name in ["dump", "gsub", "rep"] {
        library.raw_set(name, unsupported(lua, format!("string.{name}"))?)?;
    }
    library.raw_set(
        "find",
        lua.create_function(|lua, given: MultiValue| find_in_text(lua, &given))?,
    )?;
    library.raw_set(
        "match",
        lua.create_function(|lua, given: MultiValue| match_in_text(lua, &given))?,
    )?;
    Ok(())
}

/// Returns the function `search(text, pattern, from)`: the position after the next match, and its captures. Without a
/// match, there is no result.
pub(super) fn search_on(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, given: MultiValue| {
        let (text, pattern, from) = searched(lua, "gmatch", &given)?;
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let found = match from {
            Some(from) => search(lua, &text, &pattern, from)?,
            None => None,
        };
        let Some(found) = found else {
            return Ok(MultiValue::new());
        };
        // After an empty match, the search goes on behind the next byte.
        let is_empty = found.start == found.end;
        let mut results = captures(lua, &text, &found)?;
        results.push_front(position(found.end + usize::from(is_empty)));
        Ok(results)
    })
}

/// Returns the function `tostring`, which prints numbers as Karmada's engine does. `original` prints other values.
pub(super) fn to_string(lua: &Lua, original: Function) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        match values.front().and_then(numbers::text) {
            Some(text) => lua.create_string(text).map(Value::String),
            None => original.call(values),
        }
    })
}

/// Returns the function `tonumber`, which reads texts as Karmada's engine does.
pub(super) fn to_number(lua: &Lua) -> mlua::Result<Function> {
    const NAME: &str = "tonumber";
    lua.create_function(|lua, arguments: MultiValue| {
        let base = match arguments.get(1) {
            None | Some(Value::Nil) => None,
            Some(base) => {
                let number = lua.coerce_integer(base.clone())?;
                let number = number.ok_or_else(|| argument_error(lua, NAME, 2, "number", base))?;
                // Base 0 is none.
                Some(u32::try_from(number).unwrap_or_default())
            }
        };
        match arguments.front() {
            None => Err(argument_error(lua, NAME, 1, "value", &Value::Nil)),
            Some(number @ (Value::Integer(_) | Value::Number(_))) => Ok(number.clone()),
            Some(Value::String(text)) => {
                let number = text.to_str().ok();
                let number = number.and_then(|text| numbers::parse(&text, base));
                Ok(number.map_or(Value::Nil, Value::Number))
            }
            Some(_) => Ok(Value::Nil),
        }
    })
}

/// `string.find(text, pattern [, init [, plain]])`
fn find_in_text(lua: &Lua, arguments: &MultiValue) -> mlua::Result<MultiValue> {
    let (text, pattern, from) = searched(lua, "find", arguments)?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let is_plain = arguments
        .get(3)
        .is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
    let Some(from) = from else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    let found = if is_plain {
        find_plain(&text, &pattern, from).map(|start| Match {
            start,
            end: start + pattern.len(),
            captures: Vec::new(),
        })
    } else {
        search(lua, &text, &pattern, from)?
    };
    let Some(found) = found else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    let mut results = MultiValue::from_iter([position(found.start), integer(found.end)]);
    for capture in &found.captures {
        results.push_back(captured(lua, &text, *capture)?);
    }
    Ok(results)
}

/// `string.match(text, pattern [, init])`. Without a match, there is no result, as in Karmada's engine.
fn match_in_text(lua: &Lua, arguments: &MultiValue) -> mlua::Result<MultiValue> {
    let (text, pattern, from) = searched(lua, "match", arguments)?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    match from {
        Some(from) => match search(lua, &text, &pattern, from)? {
            Some(found) => captures(lua, &text, &found),
            None => Ok(MultiValue::new()),
        },
        None => Ok(MultiValue::new()),
    }
}

/// Returns the text, the pattern, and the offset at which the search begins, if it is in the text.
fn searched(
    lua: &Lua,
    function: &str,
    arguments: &MultiValue,
) -> mlua::Result<(LuaString, LuaString, Option<usize>)> {
    let text = |index: usize| -> mlua::Result<LuaString> {
        let value = arguments.get(index).unwrap_or(&Value::Nil);
        let text = match value {
            Value::String(text) => text.clone(),
            other => match numbers::text(other) {
                Some(text) => lua.create_string(text)?,
                None => return Err(argument_error(lua, function, index + 1, "string", other)),
            },
        };
        if text.as_bytes().len() > SEARCHED_MAX {
            let problem = format_args!(
                "{function}: argument #{} has more than {SEARCHED_MAX} bytes",
                index + 1
            );
            return Err(fail(lua, problem));
        }
        Ok(text)
    };
    let (source, pattern) = (text(0)?, text(1)?);
    let length = source.as_bytes().len();
    let from = match arguments.get(2) {
        None | Some(Value::Nil) => 1,
        Some(value) => lua
            .coerce_integer(value.clone())?
            .ok_or_else(|| argument_error(lua, function, 3, "number", value))?,
    };
    let from = match usize::try_from(from) {
        Ok(from) => from.saturating_sub(1),
        // A negative index counts from the end.
        Err(_) => length.saturating_sub(usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    Ok((source, pattern, (from <= length).then_some(from)))
}

fn search(lua: &Lua, text: &[u8], pattern: &[u8], from: usize) -> mlua::Result<Option<Match>> {
    let budget = budget(lua)?;
    let budget: &Budget = &budget;
    find(text, pattern, from, budget).map_err(|error| match error {
        PatternError::Malformed(problem) => fail(lua, problem),
        PatternError::Exceeded(exceeded) => ended(exceeded),
    })
}

/// Returns the captures, or the whole match if there are none.
fn captures(lua: &Lua, text: &[u8], found: &Match) -> mlua::Result<MultiValue> {
    if found.captures.is_empty() {
        let whole = Capture::Range(found.start, found.end);
        return Ok(MultiValue::from_iter([captured(lua, text, whole)?]));
    }
    let captures = found.captures.iter();
    captures
        .map(|capture| captured(lua, text, *capture))
        .collect()
}

fn captured(lua: &Lua, text: &[u8], capture: Capture) -> mlua::Result<Value> {
    match capture {
        Capture::Position(at) => Ok(position(at)),
        Capture::Range(start, end) => {
            let range = text.get(start..end).unwrap_or_default();
            lua.create_string(range).map(Value::String)
        }
    }
}

/// Returns the position of an offset. The first position is 1.
fn position(offset: usize) -> Value {
    integer(offset + 1)
}

fn integer(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
