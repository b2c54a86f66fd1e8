//! The objects that a Pod of a template uses. Rules: docs/concepts/lua.md#the-library-kube.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value as Json, json};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
    image_pull_secrets: Vec<Named>,
    service_account_name: String,
    volumes: Vec<VolumeSource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    env: Vec<Variable>,
    env_from: Vec<Variables>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Variable {
    value_from: ValueSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueSource {
    config_map_key_ref: Named,
    secret_key_ref: Named,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Variables {
    config_map_ref: Named,
    secret_ref: Named,
}

/// The sources of a volume. All of them but `configMap`, `persistentVolumeClaim` and `projected` name a Secret.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSource {
    azure_file: SecretVolume,
    cephfs: WithSecret,
    cinder: WithSecret,
    config_map: Named,
    csi: CsiVolume,
    flex_volume: WithSecret,
    iscsi: WithSecret,
    persistent_volume_claim: ClaimVolume,
    projected: ProjectedVolume,
    rbd: WithSecret,
    #[serde(rename = "scaleIO")]
    scale_io: WithSecret,
    secret: SecretVolume,
    storageos: WithSecret,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretVolume {
    secret_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WithSecret {
    secret_ref: Named,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiVolume {
    node_publish_secret_ref: Named,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimVolume {
    claim_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectedVolume {
    sources: Vec<ProjectedSource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProjectedSource {
    config_map: Named,
    secret: Named,
}

/// A reference. Without a name, it is none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

/// The names of one kind. They are sorted.
type Names<'t> = BTreeSet<&'t str>;

#[derive(Default)]
struct Dependencies<'t> {
    config_maps: Names<'t>,
    secrets: Names<'t>,
}

impl<'t> Dependencies<'t> {
    fn add_container(&mut self, container: &'t Container) {
        for source in &container.env_from {
            self.config_maps.insert(&source.config_map_ref.name);
            self.secrets.insert(&source.secret_ref.name);
        }
        for variable in &container.env {
            let source = &variable.value_from;
            self.config_maps.insert(&source.config_map_key_ref.name);
            self.secrets.insert(&source.secret_key_ref.name);
        }
    }

    fn add_volume(&mut self, volume: &'t VolumeSource) {
        self.config_maps.insert(&volume.config_map.name);
        for source in &volume.projected.sources {
            self.config_maps.insert(&source.config_map.name);
            self.secrets.insert(&source.secret.name);
        }
        self.secrets.extend([
            volume.azure_file.secret_name.as_str(),
            &volume.cephfs.secret_ref.name,
            &volume.cinder.secret_ref.name,
            &volume.csi.node_publish_secret_ref.name,
            &volume.flex_volume.secret_ref.name,
            &volume.iscsi.secret_ref.name,
            &volume.rbd.secret_ref.name,
            &volume.scale_io.secret_ref.name,
            &volume.secret.secret_name,
            &volume.storageos.secret_ref.name,
        ]);
    }
}

/// Returns the ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims, in this order, as Karmada's
/// `DependentObjectReference`.
pub(super) fn of_template(template: &Template, namespace: &str) -> Vec<Json> {
    let spec = &template.spec;
    let mut found = Dependencies::default();
    let secrets = spec.image_pull_secrets.iter();
    found.secrets.extend(secrets.map(|it| it.name.as_str()));
    let containers = spec.containers.iter().chain(&spec.init_containers);
    for container in containers.chain(&spec.ephemeral_containers) {
        found.add_container(container);
    }
    for volume in &spec.volumes {
        found.add_volume(volume);
    }
    let account = Names::from([spec.service_account_name.as_str()]);
    let account = account.into_iter().filter(|name| *name != "default");
    let claims = spec.volumes.iter();
    let claims = claims.map(|volume| volume.persistent_volume_claim.claim_name.as_str());
    let kinds = [
        ("ConfigMap", found.config_maps),
        ("Secret", found.secrets),
        ("ServiceAccount", account.collect()),
        ("PersistentVolumeClaim", claims.collect()),
    ];
    let references = kinds.into_iter().flat_map(|(kind, names)| {
        let names = names.into_iter().filter(|name| !name.is_empty());
        names.map(move |name| {
            json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name})
        })
    });
    references.collect()
}
