//! Views of the fields of a Workload that the rules read, borrowed from the request (docs/concepts/api.md).
//!
//! Each type decodes one part of the Workload. Unknown fields are ignored. The decoder requires no field. The rules
//! report missing fields.

use std::borrow::Cow;

use api::Quantity;
use api::text::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::nullable::or_default;

/// `spec` of a Workload.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadSpecView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) placements: Vec<PlacementView<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) template: TemplateView<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlacementView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) city_codes: Vec<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) scale_settings: ScaleSettingsView<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleSettingsView<'a> {
    #[serde(default)]
    pub(crate) min_replicas: i32,
    pub(crate) max_replicas: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) metrics: Vec<MetricView<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct MetricView<'a> {
    #[serde(borrow)]
    pub(crate) resource: Option<Box<MetricResourceView<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct MetricResourceView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) target: MetricTargetView,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricTargetView {
    pub(crate) value: Option<Quantity>,
    pub(crate) average_value: Option<Quantity>,
    pub(crate) average_utilization: Option<i32>,
}

#[derive(Default, Deserialize)]
pub(crate) struct TemplateView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) metadata: TemplateMetadataView<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) spec: InstanceSpecView<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct TemplateMetadataView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) annotations: AnnotationsView<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct AnnotationsView<'a> {
    /// The key is [`api::annotations::SSH_KEYS`].
    #[serde(rename = "compute.datumapis.com/ssh-keys", borrow)]
    pub(crate) ssh_keys: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceSpecView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) runtime: RuntimeView<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) network_interfaces: Vec<NetworkInterfaceView<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volumes: Vec<VolumeView<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) resources: RuntimeResourcesView<'a>,
    #[serde(borrow)]
    pub(crate) sandbox: Option<SandboxView<'a>>,
    #[serde(borrow)]
    pub(crate) virtual_machine: Option<VirtualMachineView<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeResourcesView<'a> {
    #[serde(borrow, default)]
    pub(crate) instance_type: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) requests: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) containers: Vec<ContainerView<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) image_pull_secrets: Vec<ReferenceView<'a>>,
}

/// A container. The lists of variables are boxed slices, because a hostile object can have many containers without
/// variables. A boxed slice is smaller than a `Vec`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) image: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resources: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) env: Box<[EnvVarView<'a>]>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) env_from: Box<[EnvFromView<'a>]>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volume_attachments: Vec<VolumeAttachmentView<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<PortView<'a>>,
}

/// An environment variable. The source is boxed, because most variables have none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvVarView<'a> {
    #[serde(borrow)]
    pub(crate) value_from: Option<Box<EnvVarSourceView<'a>>>,
}

/// The source of a variable. A reference without a name is none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvVarSourceView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) config_map_key_ref: ReferenceView<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) secret_key_ref: ReferenceView<'a>,
}

/// The source of several variables. A reference without a name is none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvFromView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) config_map_ref: ReferenceView<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) secret_ref: ReferenceView<'a>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VirtualMachineView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) volume_attachments: Vec<VolumeAttachmentView<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<PortView<'a>>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeAttachmentView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) mount_path: Option<Text<'a>>,
}

#[derive(Deserialize, Hash)]
pub(crate) struct PortView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default)]
    pub(crate) port: i32,
}

#[derive(Deserialize)]
pub(crate) struct NetworkInterfaceView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) network: ReferenceView<'a>,
}

/// A volume. The sources are boxed, because a hostile object can have many volumes without a source. A box keeps such a
/// volume small.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) disk: Option<Box<DiskView<'a>>>,
    #[serde(borrow)]
    pub(crate) config_map: Option<Box<ConfigMapView<'a>>>,
    #[serde(borrow)]
    pub(crate) secret: Option<Box<SecretView<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiskView<'a> {
    #[serde(borrow)]
    pub(crate) device_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) template: Option<DiskTemplateView<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct DiskTemplateView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) spec: DiskSpecView<'a>,
}

#[derive(Default, Deserialize)]
pub(crate) struct DiskSpecView<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) type_: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) populator: Option<PopulatorView<'a>>,
    pub(crate) resources: Option<DiskResourcesView>,
}

#[derive(Deserialize)]
pub(crate) struct PopulatorView<'a> {
    #[serde(borrow)]
    pub(crate) image: Option<ReferenceView<'a>>,
    #[serde(borrow)]
    pub(crate) filesystem: Option<FilesystemView<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct FilesystemView<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) type_: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(crate) struct DiskResourcesView {
    pub(crate) requests: Option<StorageRequestView>,
}

#[derive(Deserialize)]
pub(crate) struct StorageRequestView {
    pub(crate) storage: Option<Quantity>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigMapView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    optional: Option<bool>,
    pub(crate) default_mode: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) items: Vec<KeyToPathView<'a>>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretView<'a> {
    #[serde(rename = "secretName", borrow, default)]
    pub(crate) name: Cow<'a, str>,
    optional: Option<bool>,
    pub(crate) default_mode: Option<i32>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(crate) items: Vec<KeyToPathView<'a>>,
}

/// One key of a ConfigMap or Secret, and the file with its value (Kubernetes `KeyToPath`).
#[derive(Deserialize, Hash)]
pub(crate) struct KeyToPathView<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    mode: Option<i32>,
    #[serde(borrow, default)]
    path: Cow<'a, str>,
}

/// A reference by name to another object or to an image.
#[derive(Default, Deserialize)]
pub(crate) struct ReferenceView<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
}

impl DiskTemplateView<'_> {
    /// Returns whether an operating system image is written to the disk.
    pub(crate) fn has_image(&self) -> bool {
        let populator = self.spec.populator.as_ref();
        populator.is_some_and(|populator| populator.image.is_some())
    }
}

impl VolumeView<'_> {
    /// Returns the device name of the disk, if the volume sets one.
    pub(crate) fn device(&self) -> Option<&str> {
        let name = self.disk.as_ref()?.device_name.as_ref()?;
        Some(&name.0)
    }

    /// Returns whether the volume is a disk with an operating system image.
    pub(crate) fn has_image(&self) -> bool {
        let template = self.disk.as_ref().and_then(|disk| disk.template.as_ref());
        template.is_some_and(DiskTemplateView::has_image)
    }
}
