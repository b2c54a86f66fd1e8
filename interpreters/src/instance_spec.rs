//! Views of the fields of an Instance's spec that the interpreter reads, borrowed from the request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A view of `InstanceTemplateSpec`.
#[derive(Default, Deserialize)]
pub(crate) struct InstanceTemplateView<'a> {
    #[serde(borrow, default)]
    pub(crate) spec: InstanceSpecView<'a>,
}

/// A view of `InstanceSpec`.
#[derive(Default, Deserialize)]
pub(crate) struct InstanceSpecView<'a> {
    #[serde(borrow)]
    pub(crate) controller: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) runtime: RuntimeView<'a>,
    #[serde(borrow, default)]
    pub(crate) volumes: Vec<VolumeView<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeView<'a> {
    #[serde(borrow, default)]
    pub(crate) resources: RuntimeResourcesView<'a>,
    #[serde(borrow)]
    pub(crate) sandbox: Option<SandboxView<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeResourcesView<'a> {
    #[serde(borrow, default)]
    pub(crate) instance_type: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) requests: Quantities<'a>,
}

/// Quantities by resource name.
pub(crate) type Quantities<'a> = BTreeMap<Cow<'a, str>, api::Quantity>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxView<'a> {
    #[serde(borrow, default)]
    pub(crate) containers: Vec<ContainerView<'a>>,
    #[serde(borrow, default)]
    pub(crate) image_pull_secrets: Vec<NameRef<'a>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ContainerView<'a> {
    #[serde(borrow, default)]
    pub(crate) env: Vec<EnvVarView<'a>>,
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
pub(crate) struct EnvVarView<'a> {
    #[serde(borrow, default)]
    pub(crate) value_from: EnvVarSourceView<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvVarSourceView<'a> {
    #[serde(borrow, default)]
    pub(crate) config_map_key_ref: NameRef<'a>,
    #[serde(borrow, default)]
    pub(crate) secret_key_ref: NameRef<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeView<'a> {
    #[serde(borrow, default)]
    pub(crate) config_map: NameRef<'a>,
    #[serde(borrow, default)]
    pub(crate) secret: SecretVolumeView<'a>,
}

/// A reference by name. An empty name means that there is no reference.
#[derive(Default, Deserialize)]
pub(crate) struct NameRef<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretVolumeView<'a> {
    #[serde(borrow, default)]
    pub(crate) secret_name: Cow<'a, str>,
}
