//! Random changes of objects.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_xorshift::XorShiftRng;
use serde_json::{Map, Value, json};

use super::values::{QUANTITIES, QUANTITY_FIELDS, TEXTS, UNKNOWN, some_numbers};

/// Changes objects at random.
pub(crate) struct Mutator<'m> {
    pub(crate) rng: &'m mut XorShiftRng,
    /// The words of the script.
    words: &'m BTreeSet<String>,
    listed_words: &'m [&'m str],
    /// Other objects of the same kind.
    others: &'m [Value],
}

/// JSON pointer (RFC 6901) of a place in an object: of the table, and the field or index in it.
type Place = (String, String);

impl<'m> Mutator<'m> {
    pub(crate) fn new(
        rng: &'m mut XorShiftRng,
        words: &'m BTreeSet<String>,
        listed_words: &'m [&'m str],
        others: &'m [Value],
    ) -> Self {
        Self {
            rng,
            words,
            listed_words,
            others,
        }
    }

    /// Changes an object of Kubernetes, up to four times. Its kind stays.
    pub(crate) fn mutate_object(&mut self, object: &mut Value) {
        let kind = ["apiVersion", "kind"].map(|field| object[field].clone());
        let times = [0, 1, 1, 1, 2, 2, 3, 4].choose(self.rng).unwrap();
        for _ in 0..*times {
            self.mutate(object);
        }
        // An object without fields can become anything.
        if !object.is_object() {
            *object = json!({});
        }
        let [api_version, kind] = kind;
        object["apiVersion"] = api_version;
        object["kind"] = kind;
    }

    /// Changes a value once. The value itself stays what it is, if it has fields or elements.
    fn mutate(&mut self, value: &mut Value) {
        let mut places = Vec::new();
        self.places(value, &mut String::new(), false, &mut places);
        let known: Vec<_> = places.iter().filter(|(_, known)| *known).collect();
        let place = match known.is_empty() || self.rng.random_bool(0.25) {
            true => places.choose(self.rng).map(|(place, _)| place.clone()),
            false => known.choose(self.rng).map(|(place, _)| place.clone()),
        };
        let Some((table, step)) = place else {
            *value = self.any_value();
            return;
        };
        let source = value.clone();
        let Some(table) = value.pointer_mut(&table) else {
            return;
        };
        match table {
            Value::Object(fields) => self.mutate_field(fields, &step, &source),
            Value::Array(elements) => self.mutate_list(elements, step.parse().unwrap_or_default()),
            _ => {}
        }
    }

    /// Collects the places of a value. The places below a field that the script names are known.
    fn places(
        &self,
        value: &Value,
        path: &mut String,
        known: bool,
        places: &mut Vec<(Place, bool)>,
    ) {
        let mut visit = |step: String, known: bool, value: &Value| {
            places.push(((path.clone(), step.clone()), known));
            let length = path.len();
            path.push('/');
            path.push_str(&step.replace('~', "~0").replace('/', "~1"));
            self.places(value, path, known, places);
            path.truncate(length);
        };
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    visit(field.clone(), self.words.contains(field), value);
                }
            }
            Value::Array(elements) => {
                for (index, value) in elements.iter().enumerate() {
                    visit(index.to_string(), known, value);
                }
            }
            _ => {}
        }
    }

    fn mutate_field(&mut self, fields: &mut Map<String, Value>, field: &str, source: &Value) {
        let Some(value) = fields.get(field).cloned() else {
            return;
        };
        let value = match self.rng.random_range(0..16) {
            0..3 => {
                fields.remove(field);
                return;
            }
            3..6 if QUANTITY_FIELDS.contains(&field) => self.any_quantity(),
            3..6 => self.any_value(),
            6..9 => self.changed(value),
            9..11 => self.of_another(field).unwrap_or(Value::Null),
            11..13 => {
                let name = self.name();
                let added = match self.rng.random_bool(0.3) {
                    true => value,
                    false => self.any_value(),
                };
                fields.insert(name, added);
                return;
            }
            13 => {
                let name = match self.rng.random_bool(0.5) {
                    true => in_another_case(field),
                    false => self.name(),
                };
                fields.remove(field);
                fields.insert(name, value);
                return;
            }
            14 => match self.rng.random_bool(0.5) {
                true => json!([value]),
                false => json!({self.name(): value}),
            },
            // Two tables are the same, or one is in the other.
            _ => {
                let mut places = Vec::new();
                self.places(source, &mut String::new(), false, &mut places);
                let Some(((table, step), _)) = places.choose(self.rng) else {
                    return;
                };
                let step = step.replace('~', "~0").replace('/', "~1");
                let found = source.pointer(&format!("{table}/{step}"));
                found.cloned().unwrap_or(Value::Null)
            }
        };
        fields.insert(field.to_owned(), value);
    }

    fn mutate_list(&mut self, elements: &mut Vec<Value>, index: usize) {
        let Some(value) = elements.get(index).cloned() else {
            return;
        };
        match self.rng.random_range(0..10) {
            0 => {
                elements.remove(index);
            }
            1 => elements.insert(index, value),
            2 => elements.reverse(),
            3 => elements.clear(),
            4 => elements.shuffle(self.rng),
            5 => elements.push(self.any_value()),
            6 => elements[index] = self.any_value(),
            7 => elements[index] = json!([value]),
            8 => elements.insert(index, self.changed(value)),
            _ => elements[index] = self.changed(value),
        }
    }

    /// Returns the value of a field with this name in another object.
    fn of_another(&mut self, field: &str) -> Option<Value> {
        let other = self.others.choose(self.rng)?;
        let mut found = Vec::new();
        collect(other, field, &mut found);
        found.choose(self.rng).map(|value| (*value).clone())
    }

    fn name(&mut self) -> String {
        let names = match self.rng.random_bool(0.2) {
            true => &UNKNOWN,
            false => self.listed_words,
        };
        (*names.choose(self.rng).unwrap_or(&"unknown")).to_owned()
    }

    /// Returns a value that is like this one.
    fn changed(&mut self, value: Value) -> Value {
        match value {
            Value::Bool(value) => json!(!value),
            Value::Number(number) => self.changed_number(number.as_f64().unwrap_or_default()),
            Value::String(text) => self.changed_text(&text),
            Value::Array(mut elements) => {
                if elements.is_empty() {
                    return json!({});
                }
                let index = self.rng.random_range(0..elements.len());
                self.mutate_list(&mut elements, index);
                Value::Array(elements)
            }
            Value::Object(fields) if fields.is_empty() => json!([]),
            Value::Object(mut fields) => {
                // A list with the same values.
                if self.rng.random_bool(0.2) {
                    return fields.into_iter().map(|(_, value)| value).collect();
                }
                let (name, value) = (self.name(), self.any_value());
                fields.insert(name, value);
                Value::Object(fields)
            }
            Value::Null => self.any_value(),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    fn changed_number(&mut self, number: f64) -> Value {
        match self.rng.random_range(0..9) {
            0 => json!((number as i64).saturating_neg()),
            1 => json!(number + 0.5),
            2 => json!((number as i64).saturating_add(1)),
            3 => json!((number as i64).saturating_sub(1)),
            4 => json!((number as i64).saturating_mul(1000)),
            5 => {
                let text = number.to_string();
                json!([&text, "010", "017", "0x1F", "1e1", " 7 "].choose(self.rng))
            }
            6 => json!((number as i64).saturating_mul(1 << 31)),
            7 => json!(number / 3.0),
            _ => self.any_number(),
        }
    }

    fn changed_text(&mut self, text: &str) -> Value {
        match self.rng.random_range(0..9) {
            0 | 1 => match text.parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => self.any_number(),
            },
            2 => json!(text.to_uppercase()),
            3 => json!(format!("{text}é")),
            4 => json!(format!("{text}0")),
            5 => json!(format!("0{text}")),
            6 => json!(format!(" {text}")),
            7 => json!(text.get(1..).unwrap_or_default()),
            _ => json!(TEXTS.choose(self.rng)),
        }
    }

    fn any_number(&mut self) -> Value {
        let numbers = some_numbers();
        numbers.choose(self.rng).cloned().unwrap_or_default()
    }

    fn any_value(&mut self) -> Value {
        match self.rng.random_range(0..20) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!([]),
            3 => json!(self.rng.random_bool(0.5)),
            4..7 | 17 => self.any_number(),
            7..11 | 18 => json!(TEXTS.choose(self.rng)),
            11 => match self.rng.random_bool(0.2) {
                true => json!([{}, {}]),
                false => json!([{}]),
            },
            12 => json!([TEXTS.choose(self.rng), self.any_number(), null]),
            13 => json!([null, {self.name(): self.any_number()}]),
            14 => json!({self.name(): {}, "name": TEXTS.choose(self.rng)}),
            _ => json!({self.name(): self.any_number()}),
        }
    }

    fn any_quantity(&mut self) -> Value {
        match self.rng.random_bool(0.5) {
            true => json!(QUANTITIES.choose(self.rng)),
            false => self.any_number(),
        }
    }

    /// Returns items of an aggregated status as Karmada's client sends them: without fields that are empty.
    pub(crate) fn items(&mut self, items: Option<Value>, others: &[Value]) -> Option<Value> {
        let Some(Value::Array(mut items)) = items else {
            return self
                .rng
                .random_bool(0.2)
                .then(|| json!(self.listed(others)));
        };
        for _ in 0..*[0, 1, 1, 2, 3].choose(self.rng).unwrap() {
            let index = self.rng.random_range(0..items.len().max(1));
            match (self.rng.random_range(0..14), items.get_mut(index)) {
                (0, _) => return None,
                (1, _) => items.clear(),
                (2, _) => items.reverse(),
                (3, Some(_)) => {
                    items.remove(index);
                }
                (4, Some(item)) => {
                    let twice = item.clone();
                    items.push(twice);
                }
                (5 | 6, Some(item)) => self.mutate_fields_of_item(item),
                (7.., Some(item)) => {
                    if let Some(status) = item.get_mut("status") {
                        self.mutate(status);
                    }
                }
                (_, _) => items.extend(others.choose(self.rng).cloned()),
            }
        }
        for item in &mut items {
            if let Some(fields) = item.as_object_mut() {
                fields.retain(|_, value| {
                    !value.is_null() && *value != json!(false) && *value != json!("")
                });
                fields.entry("clusterName").or_insert_with(|| json!(""));
            }
        }
        Some(Value::Array(items))
    }

    fn listed(&mut self, others: &[Value]) -> Vec<Value> {
        let count = self.rng.random_range(0..4);
        (0..count)
            .filter_map(|_| others.choose(self.rng).cloned())
            .collect()
    }

    fn mutate_fields_of_item(&mut self, item: &mut Value) {
        let (field, value) = match self.rng.random_range(0..7) {
            0 => ("status", Value::Null),
            1 => ("applied", json!(true)),
            2 => ("applied", json!(false)),
            3 => ("appliedMessage", json!(TEXTS.choose(self.rng))),
            4 => {
                let healths = ["Healthy", "Unhealthy", "Unknown", ""];
                ("health", json!(healths.choose(self.rng)))
            }
            5 => ("clusterName", json!(TEXTS.choose(self.rng))),
            _ => ("status", self.any_value()),
        };
        item[field] = value;
    }
}

/// Returns the name with another first letter.
fn in_another_case(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next();
    let first = first.into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

fn collect<'v>(value: &'v Value, field: &str, found: &mut Vec<&'v Value>) {
    found.extend(value.get(field));
    let below: Vec<_> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(elements) => elements.iter().collect(),
        _ => Vec::new(),
    };
    for value in below {
        collect(value, field, found);
    }
}
