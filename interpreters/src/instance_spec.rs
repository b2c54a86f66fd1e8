//! Views of the fields of an Instance's spec that the interpreter reads, borrowed from the request.
//!
//! A hostile spec can have a million empty elements in a list. The elements are therefore not kept. Each list keeps only
//! the values that an operation needs.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::quantities::{ContainerLimits, Quantities};
use api::decode::for_each;

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
    /// The ConfigMaps and Secrets of the volumes.
    #[serde(borrow, default, deserialize_with = "volumes")]
    pub(crate) volumes: References<'a>,
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxView<'a> {
    #[serde(borrow, default)]
    pub(crate) containers: Containers<'a>,
    #[serde(borrow, default, deserialize_with = "pull_secrets")]
    pub(crate) image_pull_secrets: References<'a>,
}

/// The names of ConfigMaps and Secrets. A name can be in a list several times.
#[derive(Default)]
pub(crate) struct References<'a> {
    pub(crate) config_maps: Vec<Cow<'a, str>>,
    pub(crate) secrets: Vec<Cow<'a, str>>,
}

impl<'a> References<'a> {
    /// Adds two names. An empty name means that there is no reference.
    fn add(&mut self, config_map: Cow<'a, str>, secret: Cow<'a, str>) {
        for (names, name) in [
            (&mut self.config_maps, config_map),
            (&mut self.secrets, secret),
        ] {
            if !name.is_empty() {
                names.push(name);
            }
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        append(&mut self.config_maps, other.config_maps);
        append(&mut self.secrets, other.secrets);
    }
}

fn append<T>(list: &mut Vec<T>, mut other: Vec<T>) {
    if list.is_empty() {
        *list = other;
    } else {
        list.append(&mut other);
    }
}

/// The parts of all containers that an operation needs.
#[derive(Default)]
pub(crate) struct Containers<'a> {
    /// The ConfigMaps and Secrets of the environment variables.
    pub(crate) variables: References<'a>,
    pub(crate) limits: ContainerLimits,
}

impl<'de: 'a, 'a> Deserialize<'de> for Containers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut containers = Self::default();
        for_each(deserializer, |container: ContainerView<'a>| {
            containers.variables.append(container.env);
            containers.limits.add(&container.resources.limits);
        })?;
        Ok(containers)
    }
}

#[derive(Default, Deserialize)]
struct ContainerView<'a> {
    #[serde(borrow, default, deserialize_with = "variables")]
    env: References<'a>,
    #[serde(borrow, default)]
    resources: ContainerResources<'a>,
}

#[derive(Default, Deserialize)]
struct ContainerResources<'a> {
    #[serde(borrow, default)]
    limits: Quantities<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVarView<'a> {
    #[serde(borrow, default)]
    value_from: EnvVarSourceView<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVarSourceView<'a> {
    #[serde(borrow, default)]
    config_map_key_ref: NameRef<'a>,
    #[serde(borrow, default)]
    secret_key_ref: NameRef<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeView<'a> {
    #[serde(borrow, default)]
    config_map: NameRef<'a>,
    #[serde(borrow, default)]
    secret: SecretVolumeView<'a>,
}

/// A reference by name. An empty name means that there is no reference.
#[derive(Default, Deserialize)]
struct NameRef<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretVolumeView<'a> {
    #[serde(borrow, default)]
    secret_name: Cow<'a, str>,
}

fn volumes<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    let mut references = References::default();
    for_each(list, |volume: VolumeView<'a>| {
        references.add(volume.config_map.name, volume.secret.secret_name);
    })?;
    Ok(references)
}

fn variables<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    let mut references = References::default();
    for_each(list, |variable: EnvVarView<'a>| {
        let from = variable.value_from;
        references.add(from.config_map_key_ref.name, from.secret_key_ref.name);
    })?;
    Ok(references)
}

fn pull_secrets<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    let mut references = References::default();
    for_each(list, |secret: NameRef<'a>| {
        references.add(Cow::default(), secret.name);
    })?;
    Ok(references)
}
