//! The annotations that the interpreter reads.

use std::fmt;

use api::AssignedReplicas;
use api::annotations::{
    ASSIGNED_REPLICAS, CELL_RULES_STAMP, EXPECTED_REFERENCED_DATA, RESOURCE_TEMPLATE_GENERATION,
};
use api::text::Text;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A view of `metadata.annotations`. All values must be strings. Only four of the values are stored.
#[derive(Default)]
pub(crate) struct AnnotationsView<'a> {
    /// Whether the object has `metadata.annotations`.
    pub(crate) are_present: bool,
    assigned_replicas: Option<Text<'a>>,
    cell_rules_stamp: Option<Text<'a>>,
    expected_referenced_data: Option<Text<'a>>,
    resource_template_generation: Option<Text<'a>>,
}

impl AnnotationsView<'_> {
    /// Returns the value of `compute.datumapis.com/assigned-replicas`. Returns `None` if the annotation is absent or not
    /// valid.
    pub(crate) fn assigned_replicas(&self) -> Option<AssignedReplicas> {
        let Text(text) = self.assigned_replicas.as_ref()?;
        AssignedReplicas::parse(text)
    }

    /// Returns the value of `compute.datumapis.com/cell-rules-stamp`. Returns 0 if the annotation is absent or not a
    /// number.
    pub(crate) fn cell_rules_stamp(&self) -> i64 {
        let text = self.cell_rules_stamp.as_ref();
        text.and_then(|Text(text)| text.parse().ok())
            .unwrap_or_default()
    }

    /// Returns the value of `compute.datumapis.com/expected-referenced-data`. The value is empty if the annotation is
    /// absent.
    pub(crate) fn expected_referenced_data(&self) -> &str {
        let text = self.expected_referenced_data.as_ref();
        text.map(|Text(text)| text.as_ref()).unwrap_or_default()
    }

    /// Returns the value of `resourcetemplate.karmada.io/generation`. Returns `None` if the annotation is absent or not
    /// a number.
    pub(crate) fn resource_template_generation(&self) -> Option<i64> {
        let Text(text) = self.resource_template_generation.as_ref()?;
        text.parse().ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for AnnotationsView<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnnotationsVisitor(Self::default()))
    }
}

struct AnnotationsVisitor<'a>(AnnotationsView<'a>);

impl<'de: 'a, 'a> Visitor<'de> for AnnotationsVisitor<'a> {
    type Value = AnnotationsView<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let Self(mut annotations) = self;
        annotations.are_present = true;
        while let Some(Text(name)) = fields.next_key()? {
            let value = fields.next_value()?;
            match name.as_ref() {
                ASSIGNED_REPLICAS => annotations.assigned_replicas = Some(value),
                CELL_RULES_STAMP => annotations.cell_rules_stamp = Some(value),
                EXPECTED_REFERENCED_DATA => annotations.expected_referenced_data = Some(value),
                RESOURCE_TEMPLATE_GENERATION => {
                    annotations.resource_template_generation = Some(value);
                }
                _ => {}
            }
        }
        Ok(annotations)
    }
}
