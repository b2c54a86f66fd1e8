//! The annotations that interpretation reads.

use std::fmt;

use api::annotations::{EXPECTED_REFERENCED_DATA, RESOURCE_TEMPLATE_GENERATION};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use api::text::Text;

/// `metadata.annotations`: all of them must be texts, two are kept.
#[derive(Default)]
pub(crate) struct Annotations<'a> {
    expected_referenced_data: Option<Text<'a>>,
    resource_template_generation: Option<Text<'a>>,
}

impl Annotations<'_> {
    /// `compute.datumapis.com/expected-referenced-data`; empty where there is none.
    pub(crate) fn expected_referenced_data(&self) -> &str {
        let text = self.expected_referenced_data.as_ref();
        text.map(|Text(text)| text.as_ref()).unwrap_or_default()
    }

    /// `resourcetemplate.karmada.io/generation`, where it is a number.
    pub(crate) fn resource_template_generation(&self) -> Option<i64> {
        let Text(text) = self.resource_template_generation.as_ref()?;
        text.parse().ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Known(Self::default()))
    }
}

struct Known<'a>(Annotations<'a>);

impl<'de: 'a, 'a> Visitor<'de> for Known<'a> {
    type Value = Annotations<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let Self(mut annotations) = self;
        while let Some(Text(name)) = fields.next_key()? {
            let value = fields.next_value()?;
            match name.as_ref() {
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
