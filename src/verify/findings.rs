//! Counts differences, grouped by their cause.

use std::collections::BTreeMap;

use interpreters::comparison::{Difference, Law, Subject};
use interpreters::{InterpretedKind, Operation};
use serde::Serialize;

/// Most groups without an explanation. Scripts of another purpose can differ in any number of fields.
const UNEXPLAINED_MAX: usize = 100;

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Hub,
    /// A variation with this seed.
    Generated(u64),
}

impl Origin {
    fn seed(self) -> Option<u64> {
        match self {
            Self::Hub => None,
            Self::Generated(seed) => Some(seed),
        }
    }
}

/// The cause of a difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// No law intends it. Such differences are grouped by the path of the field.
    Unexplained(String),
    /// The name of the law.
    Law(&'static str),
}

/// Differences with one cause.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    pub(super) law: Option<&'static Law>,
    /// Number of objects with such a difference.
    pub(super) objects: u64,
    pub(super) example: Example,
}

/// A difference of one object. The first one of a group is shown: the order of threads does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Example {
    /// The seed, if the object is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) field: String,
    pub(super) now: String,
    pub(super) native: String,
}

impl Example {
    /// Returns whether every example of this other object comes later.
    fn is_before(&self, origin: Origin, subject: &Subject) -> bool {
        let (namespace, name) = subject.key();
        let own = (self.seed, self.namespace.as_str(), self.name.as_str());
        own < (origin.seed(), namespace, name)
    }
}

/// Numbers of compared objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Number of objects whose answers were compared.
    pub(super) compared: u64,
    /// Number of objects whose answers differ.
    pub(super) different: u64,
}

/// Groups by kind, operation and cause.
pub(super) type Groups = BTreeMap<(InterpretedKind, Operation, Cause), Group>;

/// The result of the comparison of many objects.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// Number of objects.
    pub(super) objects: BTreeMap<InterpretedKind, u64>,
    pub(super) counts: BTreeMap<(InterpretedKind, Operation), Counts>,
    pub(super) groups: Groups,
    /// Whether there are more groups without an explanation than are kept.
    pub(super) has_more: bool,
}

impl Findings {
    pub(super) fn add_object(&mut self, kind: InterpretedKind) {
        *self.objects.entry(kind).or_default() += 1;
    }

    /// Adds the differences of the answers about one object.
    pub(super) fn add(
        &mut self,
        kind: InterpretedKind,
        operation: Operation,
        (origin, subject): (Origin, &Subject),
        differences: Vec<Difference>,
    ) {
        let counts = self.counts.entry((kind, operation)).or_default();
        counts.compared += 1;
        counts.different += u64::from(!differences.is_empty());
        let mut of_object = BTreeMap::new();
        for difference in differences {
            let cause = match difference.law {
                Some(law) => Cause::Law(law.name),
                None => Cause::Unexplained(difference.path.without_indexes().to_string()),
            };
            of_object.entry(cause).or_insert(difference);
        }
        for (cause, difference) in of_object {
            let key = (kind, operation, cause);
            // The example of nearly every object is dropped, so it is not made.
            if let Some(known) = self.groups.get_mut(&key)
                && known.example.is_before(origin, subject)
            {
                known.objects += 1;
                continue;
            }
            let group = Group {
                law: difference.law,
                objects: 1,
                example: example(origin, subject, &difference),
            };
            self.insert(key, group);
        }
    }

    fn insert(&mut self, key: (InterpretedKind, Operation, Cause), group: Group) {
        if let Some(known) = self.groups.get_mut(&key) {
            known.objects += group.objects;
            if group.example < known.example {
                known.example = group.example;
            }
            return;
        }
        let is_unexplained = group.law.is_none();
        self.groups.insert(key, group);
        // The least keys stay, so that the order of threads does not matter.
        if is_unexplained && self.unexplained().count() > UNEXPLAINED_MAX {
            self.has_more = true;
            let mut groups = self.groups.iter().rev();
            let last = groups.find(|(_, group)| group.law.is_none());
            if let Some(last) = last.map(|(key, _)| key.clone()) {
                self.groups.remove(&last);
            }
        }
    }

    /// Joins what two threads have found.
    pub(super) fn merge(mut self, other: Self) -> Self {
        for (kind, objects) in other.objects {
            *self.objects.entry(kind).or_default() += objects;
        }
        for (key, counts) in other.counts {
            let sum = self.counts.entry(key).or_default();
            sum.compared += counts.compared;
            sum.different += counts.different;
        }
        for (key, group) in other.groups {
            self.insert(key, group);
        }
        self.has_more |= other.has_more;
        self
    }

    /// Returns the groups without an explanation.
    pub(super) fn unexplained(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|group| group.law.is_none())
    }

    /// Returns the number of objects.
    pub(super) fn total(&self) -> u64 {
        self.objects.values().sum()
    }

    /// Returns the number of compared answers.
    pub(super) fn answers(&self) -> u64 {
        self.counts.values().map(|counts| counts.compared).sum()
    }
}

fn example(origin: Origin, subject: &Subject, difference: &Difference) -> Example {
    let (namespace, name) = subject.key();
    Example {
        seed: origin.seed(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        field: difference.path.to_string(),
        now: difference.former.to_string(),
        native: difference.native.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use interpreters::comparison::{FieldPath, LAWS, Side};
    use serde_json::json;

    use super::*;

    const KIND: InterpretedKind = InterpretedKind::WorkloadDeployment;

    fn subject(name: &str) -> Subject {
        let object = json!({"metadata": {"namespace": "ns", "name": name}});
        Subject::of_hub(object, Vec::new(), None)
    }

    fn difference(law: Option<&'static Law>, value: u64) -> Difference {
        Difference {
            path: FieldPath::default(),
            former: Side::Absent,
            native: Side::Value(json!(value)),
            law,
        }
    }

    fn found(name: &str, laws: &[Option<&'static Law>]) -> Findings {
        let mut findings = Findings::default();
        findings.add_object(KIND);
        let differences = laws.iter().map(|law| difference(*law, 1)).collect();
        let subject = subject(name);
        findings.add(
            KIND,
            Operation::Retain,
            (Origin::Hub, &subject),
            differences,
        );
        findings
    }

    #[test]
    fn an_object_counts_once_for_each_cause() {
        let law = LAWS.first().copied();
        let findings = found("b", &[law, law, None])
            .merge(found("a", &[law]))
            .merge(found("c", &[]));
        let groups: Vec<_> = findings.groups.values().collect();
        let shown: Vec<_> = groups
            .iter()
            .map(|it| (it.objects, it.example.name.as_str()))
            .collect();
        assert_eq!(shown, [(1, "b"), (2, "a")]);
        let counts = findings.counts.get(&(KIND, Operation::Retain)).copied();
        assert_eq!(
            counts,
            Some(Counts {
                compared: 3,
                different: 2
            })
        );
        assert_eq!((findings.total(), findings.answers()), (3, 3));
        assert_eq!(findings.unexplained().count(), 1);
    }

    #[test]
    fn threads_find_the_same_in_any_order() {
        let law = LAWS.first().copied();
        let all = || {
            [
                found("a", &[law]),
                found("b", &[law, None]),
                found("c", &[None]),
            ]
        };
        let forwards = all().into_iter().fold(Findings::default(), Findings::merge);
        let backwards = all()
            .into_iter()
            .rev()
            .fold(Findings::default(), Findings::merge);
        assert_eq!(forwards, backwards);
    }

    #[test]
    fn the_number_of_unexplained_groups_is_limited() {
        let mut findings = Findings::default();
        for operation in Operation::ALL {
            for field in 0..50 {
                let key = (KIND, operation, Cause::Unexplained(field.to_string()));
                let example = example(Origin::Hub, &subject("a"), &difference(None, 1));
                findings.insert(
                    key,
                    Group {
                        law: None,
                        objects: 1,
                        example,
                    },
                );
            }
        }
        assert_eq!(findings.unexplained().count(), UNEXPLAINED_MAX);
        assert!(findings.has_more);
    }
}
