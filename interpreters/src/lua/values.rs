//! Conversion between JSON and values of Lua, with Karmada's rules (docs/concepts/lua.md#values).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::fmt;

use mlua::{Lua, Table, Value};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value as Json};

use super::budget::Budget;
use super::numbers;

/// Maximum depth of a result. JSON decoders have this limit, too.
const LEVELS_MAX: usize = 120;

/// Memory of a value without its text as JSON, in bytes, rounded up.
pub(super) const SCALAR: usize = 64;
/// Memory of a table as JSON, in bytes, rounded up.
pub(super) const TABLE: usize = 640;
const GAPS: &str = "is a list with gaps";
const MIXED: &str = "is a table with keys that are not all texts, and not all numbers";

/// Reads a JSON value as a value of Lua. A `null` is absent in Lua, and every number is a float. The budget is that of the
/// call. It is not spent, but reading ends with the time of the call: equal hashes can make many texts slow.
#[derive(Clone, Copy)]
pub(super) struct LuaSeed<'l>(pub(super) &'l Lua, pub(super) &'l Budget);

impl<'de> DeserializeSeed<'de> for LuaSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "every number of Lua is a float, also in Karmada's engine"
)]
impl<'de> Visitor<'de> for LuaSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.require_time()?;
        let text = self.0.create_string(value);
        text.map(Value::String).map_err(E::custom)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let table = self.0.create_table().map_err(A::Error::custom)?;
        while let Some(element) = elements.next_element_seed(self)? {
            if !element.is_nil() {
                table.raw_push(element).map_err(A::Error::custom)?;
            }
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut table = None;
        let mut waiting = Vec::new();
        while let Some(FieldName(name)) = fields.next_key()? {
            let value = fields.next_value_seed(self)?;
            if value.is_nil() {
                continue;
            }
            waiting.push((name, value));
            if waiting.len() == FIELDS_AT_ONCE {
                table = Some(self.add(table, &waiting)?);
                waiting.clear();
            }
        }
        Ok(Value::Table(self.add(table, &waiting)?))
    }
}

/// Number of fields that are put into a table at once. Until then they are outside of the memory of Lua, which has a
/// limit.
const FIELDS_AT_ONCE: usize = 32;

#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl LuaSeed<'_> {
    /// Adds at most [`FIELDS_AT_ONCE`] fields to a table. A new table gets its fields in one step, which takes much less
    /// time.
    fn add<E: de::Error>(
        &self,
        table: Option<Table>,
        fields: &[(Cow<'_, str>, Value)],
    ) -> Result<Table, E> {
        // Names with the same hash take much longer than others.
        self.require_time()?;
        let fields = fields.iter().map(|(name, value)| (name.as_ref(), value));
        let Some(table) = table else {
            return self.0.create_table_from(fields).map_err(E::custom);
        };
        for (name, value) in fields {
            table.raw_set(name, value).map_err(E::custom)?;
        }
        Ok(table)
    }

    /// Checks that the time of the call has not ended.
    fn require_time<E: de::Error>(&self) -> Result<(), E> {
        match self.1.exceeded() {
            None => Ok(()),
            Some(exceeded) => Err(E::custom(format_args!("{exceeded:?}"))),
        }
    }
}

/// A value of Lua that is no JSON value.
#[derive(Debug)]
pub(super) struct NotJson {
    /// Path of the value in the result, such as `.status.conditions[0]`.
    pub(super) path: String,
    pub(super) problem: &'static str,
}

impl NotJson {
    fn new(problem: &'static str) -> Self {
        Self {
            path: String::new(),
            problem,
        }
    }

    fn within(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }
}

/// Converts a result to JSON.
pub(super) struct JsonReader {
    /// The tables that were read. Karmada allows each table only once in a result.
    tables: HashSet<*const c_void>,
    /// How many bytes of memory the result can still need, roughly.
    left: usize,
    has_empty_table: bool,
}

impl JsonReader {
    /// Reads a result that needs at most `limit` bytes of memory. An empty table of Lua can be a list or an object. If
    /// one of the `references` has an empty list or an empty object at the same path, the result has the same. Else it
    /// is removed, unless it is the whole result, which is an empty list.
    pub(super) fn read(table: &Table, limit: usize, references: &[&Json]) -> Result<Json, NotJson> {
        let mut reader = Self {
            tables: HashSet::new(),
            left: limit,
            has_empty_table: false,
        };
        let mut json = reader.table(table, 0)?;
        if reader.has_empty_table {
            let mut empty = EmptyFields::default();
            for reference in references {
                empty.collect(reference, EmptyFields::ROOT);
            }
            empty.restore(&mut json, Some(EmptyFields::ROOT));
        }
        Ok(json)
    }

    /// Reads a result that should be an object: an empty table is an empty object.
    pub(super) fn read_object(
        table: &Table,
        limit: usize,
        references: &[&Json],
    ) -> Result<Json, NotJson> {
        match table.is_empty() {
            true => Ok(Json::Object(Map::new())),
            false => Self::read(table, limit, references),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), NotJson> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| NotJson::new("the result is too large"))?;
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<Json, NotJson> {
        self.take(SCALAR)?;
        match value {
            Value::Nil => Ok(Json::Null),
            Value::Boolean(value) => Ok(Json::Bool(*value)),
            #[expect(clippy::cast_precision_loss, reason = "it was a float")]
            Value::Integer(value) => number(*value as f64),
            Value::Number(value) => number(*value),
            Value::String(text) => {
                self.take(written_size(&text.as_bytes()))?;
                Ok(Json::String(text.to_string_lossy()))
            }
            Value::Table(table) => self.table(table, depth),
            Value::Function(_) => Err(NotJson::new("is a function")),
            _ => Err(NotJson::new("is no table, text, number or boolean")),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Json, NotJson> {
        if depth > LEVELS_MAX {
            return Err(NotJson::new("has too many levels"));
        }
        if !self.tables.insert(table.to_pointer()) {
            return Err(NotJson::new(
                "is a table that is at another place of the result, too",
            ));
        }
        self.take(TABLE)?;
        let mut entries = Entries::default();
        let mut problem = None;
        let listed = table.for_each(|key: Value, value: Value| {
            self.entry(&key, &value, depth, &mut entries)
                .map_err(|error| {
                    problem = Some(error);
                    mlua::Error::runtime("the rest is not read")
                })
        });
        match (problem, listed) {
            (Some(problem), _) => Err(problem),
            (None, Err(_)) => Err(NotJson::new("cannot be read")),
            (None, Ok(())) => self.joined(entries),
        }
    }

    /// Reads one entry of a table.
    fn entry(
        &mut self,
        key: &Value,
        value: &Value,
        depth: usize,
        entries: &mut Entries,
    ) -> Result<(), NotJson> {
        match key {
            Value::String(key) => {
                self.take(written_size(&key.as_bytes()))?;
                let key = key.to_string_lossy();
                let value = self.value(value, depth + 1);
                let value = value.map_err(|error| error.within(&format!(".{key}")))?;
                entries.fields.insert(key, value);
                Ok(())
            }
            Value::Integer(index) => {
                let value = self.value(value, depth + 1);
                let value = value
                    .map_err(|error| error.within(&format!("[{}]", index.saturating_sub(1))))?;
                entries.elements.push((*index, value));
                Ok(())
            }
            Value::Number(_) => Err(NotJson::new(GAPS)),
            _ => Err(NotJson::new(MIXED)),
        }
    }

    fn joined(&mut self, entries: Entries) -> Result<Json, NotJson> {
        let Entries {
            fields,
            mut elements,
        } = entries;
        match (fields.is_empty(), elements.is_empty()) {
            (true, true) => {
                self.has_empty_table = true;
                return Ok(Json::Array(Vec::new()));
            }
            (false, true) => return Ok(Json::Object(fields)),
            (false, false) => return Err(NotJson::new(MIXED)),
            (true, false) => {}
        }
        elements.sort_by_key(|(index, _)| *index);
        let expected = 1_i64..;
        if elements
            .iter()
            .zip(expected)
            .any(|((index, _), expected)| *index != expected)
        {
            return Err(NotJson::new(GAPS));
        }
        Ok(Json::Array(
            elements.into_iter().map(|(_, value)| value).collect(),
        ))
    }
}

/// The entries of a table. A table with both is no JSON value.
#[derive(Default)]
struct Entries {
    fields: Map<String, Json>,
    elements: Vec<(i64, Json)>,
}

/// Returns the size of a text in JSON, in bytes, rounded up. Bytes that are no UTF-8 become a character of 3 bytes.
fn written_size(text: &[u8]) -> usize {
    let sizes = text.iter().map(|byte| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        0x80.. => 3,
        _ => 1,
    });
    sizes.sum()
}

fn number(value: f64) -> Result<Json, NotJson> {
    numbers::json(value).ok_or_else(|| NotJson::new("is not a finite number"))
}

/// The empty objects and lists in some objects, by path. Indexes of lists do not count.
#[derive(Default)]
struct EmptyFields<'r> {
    /// The number of each path, by the number of the path above it and the name of its last field.
    paths: HashMap<(usize, &'r str), usize>,
    objects: HashSet<usize>,
    lists: HashSet<usize>,
}

impl<'r> EmptyFields<'r> {
    /// The number of the path of the whole object.
    const ROOT: usize = 0;

    fn collect(&mut self, json: &'r Json, path: usize) {
        match json {
            Json::Object(fields) if fields.is_empty() => {
                self.objects.insert(path);
            }
            Json::Array(elements) if elements.is_empty() => {
                self.lists.insert(path);
            }
            Json::Object(fields) => {
                for (field, value) in fields {
                    let next = self.paths.len() + 1;
                    let below = *self.paths.entry((path, field)).or_insert(next);
                    self.collect(value, below);
                }
            }
            Json::Array(elements) => {
                for element in elements {
                    self.collect(element, path);
                }
            }
            _ => {}
        }
    }

    /// Restores the values below a path. `None` is a path that no reference has.
    fn restore(&self, json: &mut Json, path: Option<usize>) {
        match json {
            Json::Object(fields) => {
                fields.retain(|field, value| {
                    let below = path.and_then(|path| self.paths.get(&(path, field.as_str())));
                    self.restore_value(value, below.copied())
                });
            }
            Json::Array(elements) => elements.retain_mut(|value| self.restore_value(value, path)),
            _ => {}
        }
    }

    /// Returns whether the value stays in the result.
    fn restore_value(&self, value: &mut Json, path: Option<usize>) -> bool {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            self.restore(value, path);
            return true;
        }
        if path.is_some_and(|path| self.objects.contains(&path)) {
            *value = Json::Object(Map::new());
            return true;
        }
        path.is_some_and(|path| self.lists.contains(&path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::budget::StopFlag;
    use super::*;

    fn to_lua(lua: &Lua, json: &str) -> Table {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let budget = Budget::new(1, StopFlag::default());
        let value = LuaSeed(lua, &budget);
        let value = value.deserialize(&mut deserializer).unwrap();
        value.as_table().unwrap().clone()
    }

    fn round_trip(json: &str, references: &[&Json]) -> Json {
        let lua = Lua::new();
        JsonReader::read(&to_lua(&lua, json), 1 << 20, references).unwrap()
    }

    /// Texts with equal hashes take long.
    #[test]
    fn reading_ends_with_the_time_of_the_call() {
        let stop = StopFlag::default();
        let budget = Budget::new(1, stop.clone());
        let lua = Lua::new();
        let read = |text: &str| {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            LuaSeed(&lua, &budget).deserialize(&mut deserializer)
        };
        let fields = |count: usize| {
            let numbers = (0..count).map(|it| (it.to_string(), json!(it)));
            numbers.collect::<Json>().to_string()
        };
        let counts = [1, FIELDS_AT_ONCE - 1, FIELDS_AT_ONCE, FIELDS_AT_ONCE + 1];
        let objects = counts.map(fields);
        let lists = [r#"["a", "b"]"#, r#"[{"a": 1}, {"b": 2}]"#];
        let texts: Vec<_> = objects.iter().map(String::as_str).chain(lists).collect();
        assert!(texts.iter().all(|text| read(text).is_ok()));
        stop.stop();
        for text in texts {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_survives_apart_from_null_and_large_numbers() {
        let text = r#"{"a":[1,2.5,"x",true],"b":{"c":-7},"d":null,"e":[null,1]}"#;
        let expected = json!({"a": [1, 2.5, "x", true], "b": {"c": -7}, "e": [1]});
        assert_eq!(round_trip(text, &[]), expected);
        let large = round_trip("[9007199254740993, 1e300, 18446744073709551615]", &[]);
        assert_eq!(large[0], json!(9_007_199_254_740_992_i64));
        assert_eq!(large[1], json!(1e300));
        assert_eq!(large[2].as_f64(), Some(18_446_744_073_709_551_616.0));
    }

    #[test]
    fn an_empty_table_is_what_the_reference_has_at_its_path() {
        let object = json!({
            "a": {}, "b": [], "c": [{"d": {}}, {"d": [1]}], "e": {"f": []}, "g": [[]],
        });
        let text = object.to_string();
        assert_eq!(round_trip(&text, &[&object]), object);
        let removed = json!({"c": [{}, {"d": [1]}], "e": {}, "g": []});
        assert_eq!(round_trip(&text, &[]), removed);
        // An object wins over a list at the same path.
        let both = json!({"a": [], "x": 1});
        assert_eq!(
            round_trip(r#"{"a":[]}"#, &[&object, &both]),
            json!({"a": {}})
        );
        assert_eq!(round_trip("{}", &[]), json!([]));
        let lua = Lua::new();
        let object = |text| JsonReader::read_object(&to_lua(&lua, text), 1 << 20, &[]).unwrap();
        assert_eq!(object("[]"), json!({}));
        // A list of empty tables is a list.
        assert_eq!(object("[[]]"), json!([]));
    }

    #[test]
    fn what_is_no_json_is_named_with_its_path() {
        let lua = Lua::new();
        for (script, path, problem) in [
            (
                "return {a = {b = {1, nil, 3}}}",
                ".a.b",
                "is a list with gaps",
            ),
            (
                "return {a = {1, x = 2}}",
                ".a",
                "is a table with keys that are not all texts, and not all numbers",
            ),
            (
                "return {[true] = 1}",
                "",
                "is a table with keys that are not all texts, and not all numbers",
            ),
            ("return {[1.5] = 1}", "", "is a list with gaps"),
            ("return {a = {print}}", ".a[0]", "is a function"),
            ("return {a = 0/0}", ".a", "is not a finite number"),
            (
                "local t = {1} return {a = t, b = {t}}",
                "",
                "is a table that is at another place of the result, too",
            ),
            (
                "local t = {} t[1] = t return t",
                "[0]",
                "is a table that is at another place of the result, too",
            ),
            (
                "local t = {} for i = 1, 200 do t = {t} end return t",
                "",
                "has too many levels",
            ),
            (
                "return {string.rep('x', 300000)}",
                "[0]",
                "the result is too large",
            ),
        ] {
            let table: Table = lua.load(script).eval().unwrap();
            let error = JsonReader::read(&table, 200_000, &[]).unwrap_err();
            assert_eq!(error.problem, problem, "{script}");
            assert!(error.path.starts_with(path), "{script}: {}", error.path);
        }
    }
}
