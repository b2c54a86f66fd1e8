//! The parts of an Instance's spec that interpretation reads, borrowed from the request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// `InstanceTemplateSpec`.
#[derive(Default, Deserialize)]
pub(crate) struct Template<'a> {
    #[serde(borrow, default)]
    pub(crate) spec: Spec<'a>,
}

/// `InstanceSpec`.
#[derive(Default, Deserialize)]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) controller: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) runtime: Runtime<'a>,
    #[serde(borrow, default)]
    pub(crate) volumes: Vec<Volume<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Runtime<'a> {
    #[serde(borrow, default)]
    pub(crate) resources: Resources<'a>,
    #[serde(borrow)]
    pub(crate) sandbox: Option<Sandbox<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resources<'a> {
    #[serde(borrow, default)]
    pub(crate) instance_type: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) requests: Quantities<'a>,
}

/// Amounts by resource name.
pub(crate) type Quantities<'a> = BTreeMap<Cow<'a, str>, api::Quantity>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sandbox<'a> {
    #[serde(borrow, default)]
    pub(crate) containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    pub(crate) image_pull_secrets: Vec<Named<'a>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Container<'a> {
    #[serde(borrow, default)]
    pub(crate) env: Vec<EnvVar<'a>>,
    #[serde(borrow, default)]
    pub(crate) resources: ContainerResources<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ContainerResources<'a> {
    #[serde(borrow, default)]
    pub(crate) limits: Quantities<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvVar<'a> {
    #[serde(borrow, default)]
    pub(crate) value_from: ValueFrom<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValueFrom<'a> {
    #[serde(borrow, default)]
    pub(crate) config_map_key_ref: Named<'a>,
    #[serde(borrow, default)]
    pub(crate) secret_key_ref: Named<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Volume<'a> {
    #[serde(borrow, default)]
    pub(crate) config_map: Named<'a>,
    #[serde(borrow, default)]
    pub(crate) secret: SecretSource<'a>,
}

/// A reference by name; an empty name refers to nothing.
#[derive(Default, Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretSource<'a> {
    #[serde(borrow, default)]
    pub(crate) secret_name: Cow<'a, str>,
}
