//! The fields of a Workload that the rules read, borrowed from the request (compute.md 1.1 and 1.4). Nothing is required
//! here: what is missing is for the rules to say.

use std::borrow::Cow;

use api::Quantity;
use api::text::Text;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// `spec` of a Workload.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadSpec<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) placements: Vec<Placement<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) template: Template<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Placement<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) city_codes: Vec<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) scale_settings: ScaleSettings<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleSettings<'a> {
    #[serde(default)]
    pub(crate) min_replicas: i32,
    pub(crate) max_replicas: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) metrics: Vec<Metric<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Metric<'a> {
    #[serde(borrow)]
    pub(crate) resource: Option<Box<MetricResource<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct MetricResource<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) target: MetricTarget,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricTarget {
    pub(crate) value: Option<Quantity>,
    pub(crate) average_value: Option<Quantity>,
    pub(crate) average_utilization: Option<i32>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Template<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) metadata: TemplateMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) spec: InstanceSpec<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct TemplateMetadata<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) annotations: Annotations<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Annotations<'a> {
    /// The key is [`api::annotations::SSH_KEYS`].
    #[serde(rename = "compute.datumapis.com/ssh-keys", borrow)]
    pub(crate) ssh_keys: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceSpec<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) runtime: Runtime<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) network_interfaces: Vec<NetworkInterface<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volumes: Vec<Volume<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Runtime<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) resources: RuntimeResources<'a>,
    #[serde(borrow)]
    pub(crate) sandbox: Option<Sandbox<'a>>,
    #[serde(borrow)]
    pub(crate) virtual_machine: Option<VirtualMachine<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeResources<'a> {
    #[serde(borrow, default)]
    pub(crate) instance_type: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) requests: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sandbox<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) image_pull_secrets: Vec<Named<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) image: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resources: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volume_attachments: Vec<VolumeAttachment<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<Port<'a>>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VirtualMachine<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volume_attachments: Vec<VolumeAttachment<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<Port<'a>>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeAttachment<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) mount_path: Option<Text<'a>>,
}

#[derive(Deserialize, Hash)]
pub(crate) struct Port<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default)]
    pub(crate) port: i32,
}

#[derive(Deserialize)]
pub(crate) struct NetworkInterface<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) network: Named<'a>,
}

/// A volume has one source, and a hostile object has many volumes without any: so the sources stand elsewhere.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Volume<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) disk: Option<Box<Disk<'a>>>,
    #[serde(borrow)]
    pub(crate) config_map: Option<Box<ConfigMap<'a>>>,
    #[serde(borrow)]
    pub(crate) secret: Option<Box<Secret<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Disk<'a> {
    #[serde(borrow)]
    pub(crate) device_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) template: Option<DiskTemplate<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct DiskTemplate<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) spec: DiskSpec<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct DiskSpec<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) type_: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) populator: Option<Populator<'a>>,
    pub(crate) resources: Option<DiskResources>,
}

#[derive(Deserialize)]
pub(crate) struct Populator<'a> {
    #[serde(borrow)]
    pub(crate) image: Option<Named<'a>>,
    #[serde(borrow)]
    pub(crate) filesystem: Option<Filesystem<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Filesystem<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) type_: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(crate) struct DiskResources {
    pub(crate) requests: Option<StorageRequest>,
}

#[derive(Deserialize)]
pub(crate) struct StorageRequest {
    pub(crate) storage: Option<Quantity>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigMap<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    optional: Option<bool>,
    pub(crate) default_mode: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) items: Vec<Item<'a>>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secret<'a> {
    #[serde(rename = "secretName", borrow, default)]
    pub(crate) name: Cow<'a, str>,
    optional: Option<bool>,
    pub(crate) default_mode: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) items: Vec<Item<'a>>,
}

#[derive(Deserialize, Hash)]
pub(crate) struct Item<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    mode: Option<i32>,
    #[serde(borrow, default)]
    path: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
}

/// Null is the same as nothing, as it is for Kubernetes.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    field: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(field).map(Option::unwrap_or_default)
}

impl DiskTemplate<'_> {
    /// Whether an operating system image is written to the disk.
    pub(crate) fn has_image(&self) -> bool {
        let populator = self.spec.populator.as_ref();
        populator.is_some_and(|populator| populator.image.is_some())
    }
}

impl Volume<'_> {
    /// The name of the device that the volume asks for.
    pub(crate) fn device(&self) -> Option<&str> {
        let name = self.disk.as_ref()?.device_name.as_ref()?;
        Some(&name.0)
    }

    /// Whether the volume is a disk that an operating system image is written to.
    pub(crate) fn has_image(&self) -> bool {
        let template = self.disk.as_ref().and_then(|disk| disk.template.as_ref());
        template.is_some_and(DiskTemplate::has_image)
    }
}
