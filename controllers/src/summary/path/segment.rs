//! The parts of a path, and what each of them selects.

use serde_json::Value;

use crate::summary::work::Work;

/// A part of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Segment {
    Step(Step),
    /// Selects the elements of a list, or the values of an object, for which all comparisons hold.
    Filter(Vec<Comparison>),
}

/// Selects one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Name(String),
    /// A negative index counts from the end.
    Index(i64),
}

/// A comparison of a value below the element with a literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) of: Vec<Step>,
    pub(super) is_equal: bool,
    pub(super) literal: Literal,
}

/// A literal of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Bool(bool),
    Integer(i64),
    Text(String),
}

impl Segment {
    /// Returns the values that the segment selects below these values.
    pub(super) fn of<'v>(&self, values: Vec<&'v Value>, work: &mut Work) -> Vec<&'v Value> {
        work.add(values.len());
        let values = values.into_iter();
        match self {
            Self::Step(step) => values.filter_map(|it| step.of(it)).collect(),
            Self::Filter(comparisons) => {
                let holds = |value: &&Value| {
                    work.add(1);
                    comparisons.iter().all(|it| {
                        work.add(1 + it.of.len());
                        it.holds(value)
                    })
                };
                values.flat_map(children).filter(holds).collect()
            }
        }
    }
}

/// Returns the elements of a list, or the values of an object.
fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

impl Step {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Name(name) => value.as_object()?.get(name),
            Self::Index(index) => {
                let items = value.as_array()?;
                let distance = usize::try_from(index.unsigned_abs()).ok()?;
                match index.is_negative() {
                    true => items.get(items.len().checked_sub(distance)?),
                    false => items.get(distance),
                }
            }
        }
    }
}

impl Comparison {
    /// Returns whether the comparison holds for an element. A missing value differs from every literal.
    fn holds(&self, element: &Value) -> bool {
        let mut steps = self.of.iter();
        let value = steps.try_fold(element, |value, step| step.of(value));
        let equal = match (value, &self.literal) {
            (Some(Value::Bool(value)), Literal::Bool(literal)) => value == literal,
            (Some(Value::Number(value)), Literal::Integer(literal)) => {
                value.as_i64() == Some(*literal)
            }
            (Some(Value::String(value)), Literal::Text(literal)) => value == literal,
            _ => false,
        };
        equal == self.is_equal
    }
}
