//! The library `os`: the time of the call. The time zone is UTC.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use mlua::{Lua, Table, Value};

use crate::lua::library::{CallTime, fail};

/// Longest format of a date, in bytes. Each directive can be many times as long in the result.
const FORMAT_MAX: usize = 256;
/// The directives of `os.date` that Karmada's engine knows.
const DIRECTIVES: &[u8] = b"aAbBcdFHIjmMpSwxXyYzZ";

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("time", lua.create_function(time)?)?;
    library.raw_set("date", lua.create_function(date)?)?;
    Ok(library)
}

fn now(lua: &Lua) -> mlua::Result<Timestamp> {
    let time = lua.app_data_ref::<CallTime>();
    let time = time.ok_or_else(|| mlua::Error::runtime("no call runs"))?;
    Ok(time.0)
}

/// `os.time([table])`: seconds since 1970.
fn time(lua: &Lua, fields: Option<Table>) -> mlua::Result<i64> {
    let Some(fields) = fields else {
        return Ok(now(lua)?.as_second());
    };
    let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
        let value: Value = fields.raw_get(name)?;
        let number = lua.coerce_integer(value)?.or(default);
        number.ok_or_else(|| fail(lua, format_args!("field '{name}' missing in date table")))
    };
    let invalid = |error: jiff::Error| fail(lua, format_args!("os.time: {error}"));
    let narrow = |number: i64| i16::try_from(number).unwrap_or(i16::MAX);
    let first = Date::new(narrow(field("year", None)?), 1, 1).map_err(invalid)?;
    // A month or a day outside its range continues in the next or former one, as in C.
    let months = (field("month", None)? - 1)
        .clamp(-100_000, 100_000)
        .months();
    let days = (field("day", None)? - 1)
        .clamp(-1_000_000, 1_000_000)
        .days();
    let date = first
        .checked_add(months)
        .and_then(|date| date.checked_add(days));
    let midnight = date.map_err(invalid)?.to_datetime(Time::midnight());
    let midnight = midnight.to_zoned(TimeZone::UTC).map_err(invalid)?;
    let (hours, minutes) = (field("hour", Some(12))?, field("min", Some(0))?);
    let seconds = hours
        .saturating_mul(60)
        .saturating_add(minutes)
        .saturating_mul(60)
        .saturating_add(field("sec", Some(0))?);
    Ok(midnight.timestamp().as_second().saturating_add(seconds))
}

/// `os.date([format [, time]])`
fn date(lua: &Lua, (format, seconds): (Option<String>, Option<f64>)) -> mlua::Result<Value> {
    let format = format.unwrap_or_else(|| "%c".to_owned());
    if format.len() > FORMAT_MAX {
        return Err(fail(
            lua,
            format_args!("os.date: the format has more than {FORMAT_MAX} bytes"),
        ));
    }
    #[expect(clippy::cast_possible_truncation, reason = "out of range is an error")]
    let time = match seconds {
        Some(seconds) => Timestamp::from_second(seconds as i64)
            .map_err(|error| fail(lua, format_args!("os.date: {error}")))?,
        None => now(lua)?,
    };
    let time = time.to_zoned(TimeZone::UTC);
    let format = format.strip_prefix('!').unwrap_or(&format);
    if format.starts_with("*t") {
        return fields(lua, &time).map(Value::Table);
    }
    let mut text = String::new();
    let mut rest = format;
    while let Some((literal, directive)) = rest.split_once('%') {
        text.push_str(literal);
        let Some(name) = directive.chars().next() else {
            rest = "%";
            break;
        };
        rest = directive.get(name.len_utf8()..).unwrap_or_default();
        let is_known = u8::try_from(name).is_ok_and(|name| DIRECTIVES.contains(&name));
        match name {
            '%' => text.push('%'),
            'c' => text.push_str(&formatted(&time, "%d %b %y %H:%M UTC")),
            'x' => text.push_str(&formatted(&time, "%m/%d/%y")),
            'X' => text.push_str(&formatted(&time, "%H:%M:%S")),
            'Z' => text.push_str("UTC"),
            _ if is_known => text.push_str(&formatted(&time, &format!("%{name}"))),
            _ => {
                text.push('%');
                text.push(name);
            }
        }
    }
    text.push_str(rest);
    lua.create_string(text).map(Value::String)
}

fn formatted(time: &Zoned, format: &str) -> String {
    jiff::fmt::strtime::format(format, time).unwrap_or_default()
}

/// Returns the fields of `os.date("*t")`.
fn fields(lua: &Lua, time: &Zoned) -> mlua::Result<Table> {
    let fields = lua.create_table()?;
    let weekday = time.weekday().to_sunday_one_offset();
    for (name, value) in [
        ("year", i32::from(time.year())),
        ("month", i32::from(time.month())),
        ("day", i32::from(time.day())),
        ("hour", i32::from(time.hour())),
        ("min", i32::from(time.minute())),
        ("sec", i32::from(time.second())),
        ("wday", i32::from(weekday)),
        ("yday", i32::from(time.day_of_year())),
    ] {
        fields.raw_set(name, value)?;
    }
    fields.raw_set("isdst", false)?;
    Ok(fields)
}
