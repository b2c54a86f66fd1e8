//! Selects the objects of a list or a watch, and renders objects in the representation that the client requests.

use bytes::Bytes;
use serde_json::Value;

use crate::kinds::KindId;
use crate::refusal::Refusal;
use crate::state::Stored;

/// Fields of Events that selectors can have, and their places.
const OF_EVENTS: [(&str, &str); 3] = [
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("type", "/type"),
];

/// The objects that a list or a watch selects, and their representation in the response. Responses with one object use
/// only the representation.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) kind: KindId,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Vec<Requirement>,
    pub(crate) fields: Vec<Requirement>,
    pub(crate) metadata_only: bool,
}

/// One requirement of a selector: a key and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    key: String,
    wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wants {
    Value(String),
    NotValue(String),
    Present,
    Absent,
}

impl Requirement {
    /// Parses a selector. Supports only equality and existence.
    pub(crate) fn parse(selector: &str) -> Result<Vec<Self>, Refusal> {
        let terms = selector.split(',').filter(|term| !term.is_empty());
        terms.map(Self::parse_one).collect()
    }

    fn parse_one(term: &str) -> Result<Self, Refusal> {
        if term.contains(['(', ' ']) {
            return Err(Refusal::bad(format!(
                "the in-memory API server supports only equality and existence in selectors, not {term:?}"
            )));
        }
        let (key, wants) = if let Some((key, value)) = term.split_once("!=") {
            (key, Wants::NotValue(value.to_owned()))
        } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (key, Wants::Value(value.to_owned()))
        } else if let Some(key) = term.strip_prefix('!') {
            (key, Wants::Absent)
        } else {
            (term, Wants::Present)
        };
        Ok(Self {
            key: key.to_owned(),
            wants,
        })
    }

    fn accepts(&self, value: Option<&str>) -> bool {
        match &self.wants {
            Wants::Value(wanted) => value == Some(wanted),
            Wants::NotValue(other) => value != Some(other),
            Wants::Present => value.is_some(),
            Wants::Absent => value.is_none(),
        }
    }
}

impl Query {
    /// Checks the field selectors. This API server supports only some fields.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let of_event = self.kind.kind().name == "Event";
        let is_known = |it: &&Requirement| match it.key.as_str() {
            "metadata.name" | "metadata.namespace" => true,
            key => of_event && OF_EVENTS.iter().any(|(known, _)| *known == key),
        };
        match self.fields.iter().find(|it| !is_known(it)) {
            Some(unknown) => Err(Refusal::bad(format!(
                "field label not supported: {}",
                unknown.key
            ))),
            None => Ok(()),
        }
    }

    /// Returns whether the request selects this object.
    pub(crate) fn selects(&self, object: &Stored) -> bool {
        let (namespace, name) = &object.key;
        let is_there = self
            .namespace
            .as_ref()
            .is_none_or(|wanted| wanted == namespace);
        let has_fields = self.fields.iter().all(|field| match field.key.as_str() {
            "metadata.name" => field.accepts(Some(name)),
            "metadata.namespace" => field.accepts(Some(namespace)),
            key => {
                let body: Value = serde_json::from_slice(&object.body).unwrap_or_default();
                let place = OF_EVENTS.iter().find(|(known, _)| *known == key);
                let value = place.and_then(|(_, place)| body.pointer(place)?.as_str());
                field.accepts(value)
            }
        });
        is_there && has_fields && self.has_labels(object)
    }

    fn has_labels(&self, object: &Stored) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let metadata: Value = serde_json::from_slice(&object.metadata).unwrap_or_default();
        let value = |key: &str| metadata["labels"][key].as_str();
        self.labels
            .iter()
            .all(|label| label.accepts(value(&label.key)))
    }

    /// Returns the object as JSON, in the requested representation.
    pub(crate) fn show(&self, object: &Stored) -> Bytes {
        if !self.metadata_only {
            return object.body.clone();
        }
        let metadata = String::from_utf8_lossy(&object.metadata);
        let partial =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        format!("{partial}{metadata}}}").into()
    }

    /// Returns the kind and the API version of the objects in the requested representation.
    pub(crate) fn form(&self) -> (&'static str, String) {
        let kind = self.kind.kind();
        match self.metadata_only {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            false => (kind.name, kind.api_version()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_know_equality_and_existence() {
        let accepts = |selector: &str, value: Option<&str>| {
            Requirement::parse(selector).unwrap()[0].accepts(value)
        };
        for (selector, of_a, of_b, of_none) in [
            ("k=a", true, false, false),
            ("k==a", true, false, false),
            ("k!=a", false, true, true),
            ("k", true, true, false),
            ("!k", false, false, true),
        ] {
            let found = [Some("a"), Some("b"), None].map(|value| accepts(selector, value));
            assert_eq!(found, [of_a, of_b, of_none], "{selector}");
        }
        assert!(Requirement::parse("k in (a,b)").is_err());
    }
}
