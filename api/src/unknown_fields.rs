//! Fields that a CRD has and the Rust types do not. Controllers copy them from plane to plane, or read them to detect
//! fields that others added.

use serde::ser::Serializer;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The fields of an object that its Rust type does not name. Flatten this type into the type of the object:
///
/// ```ignore
/// #[serde(flatten)]
/// #[schemars(skip)]
/// pub others: UnknownFields,
/// ```
///
/// The schema does not contain these fields. The empty value needs one word of memory and serializes to nothing, so an
/// object without unknown fields keeps its JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownFields(Option<Box<Map<String, Value>>>);

impl UnknownFields {
    /// Returns whether the object has no unknown fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Serialize for UnknownFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().flat_map(|fields| fields.iter()))
    }
}

impl<'de> Deserialize<'de> for UnknownFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        Ok(Self((!fields.is_empty()).then(|| Box::new(fields))))
    }
}

#[cfg(test)]
mod tests {
    use apiserver::objects;
    use serde_json::json;

    use super::*;
    use crate::{InstanceTemplateSpec, Workload, WorkloadDeployment};

    #[test]
    fn every_object_of_a_template_keeps_unknown_fields() {
        for template in [objects::complete_template(), objects::later_template()] {
            let decoded = InstanceTemplateSpec::deserialize(&template).unwrap();
            assert_eq!(json!(decoded), template);
            let text = template.to_string();
            let decoded: InstanceTemplateSpec = serde_json::from_str(&text).unwrap();
            assert_eq!(json!(decoded), template);
        }
    }

    /// A number that changed on its way would be written again and again.
    #[test]
    fn unknown_numbers_keep_their_digits() {
        let template = objects::complete_template().to_string();
        for number in ["0.9999999999999999", "1.8643444977327771e-7", "1e300"] {
            let template = template.replacen('{', &format!(r#"{{"later":{number},"#), 1);
            let decoded: InstanceTemplateSpec = serde_json::from_str(&template).unwrap();
            let exact: f64 = number.parse().unwrap();
            assert_eq!(json!(decoded)["later"], json!(exact), "{number}");
        }
    }

    #[test]
    fn specs_and_scale_settings_keep_unknown_fields() {
        let mut scale = objects::scale(2);
        scale["metrics"] = json!([{
            "later": 1,
            "resource": {
                "later": 1, "name": "cpu",
                "target": {"averageUtilization": 5, "averageValue": "1", "later": 1, "value": "2"},
            },
        }]);
        scale["later"] = json!(1);
        let mut workload = objects::workload("ns", "web", &[("us", &["DFW"])]);
        workload["spec"]["placements"][0]["scaleSettings"] = scale.clone();
        let decoded = Workload::deserialize(&workload).unwrap();
        assert_eq!(json!(decoded.spec), workload["spec"]);
        let mut deployment = objects::deployment("ns", "web", "DFW", 1);
        deployment["spec"]["scaleSettings"] = scale;
        deployment["spec"]["later"] = json!(1);
        deployment["spec"]["workloadRef"]["later"] = json!(1);
        let decoded = WorkloadDeployment::deserialize(&deployment).unwrap();
        assert_eq!(json!(decoded.spec), deployment["spec"]);
    }

    #[test]
    fn no_unknown_fields_need_one_word() {
        assert_eq!(size_of::<UnknownFields>(), size_of::<usize>());
    }
}
