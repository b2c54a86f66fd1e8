//! The objects that a Pod of a template uses. Rules: docs/concepts/lua.md#the-library-kube.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

/// The fields of a volume that name a Secret.
const SECRETS_OF_VOLUMES: [&str; 10] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/csi/nodePublishSecretRef/name",
    "/flexVolume/secretRef/name",
    "/iscsi/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/secret/secretName",
    "/storageos/secretRef/name",
];
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The names of one kind. They are sorted.
type Names<'t> = BTreeSet<&'t str>;

/// Returns the ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims, in this order, as Karmada's
/// `DependentObjectReference`.
pub(super) fn of_template(template: &Json, namespace: &str) -> Vec<Json> {
    let Some(spec) = template.get("spec") else {
        return Vec::new();
    };
    let (mut config_maps, mut secrets) = (Names::new(), Names::new());
    let (mut accounts, mut claims) = (Names::new(), Names::new());
    for secret in list(spec, "imagePullSecrets") {
        add(&mut secrets, secret, "/name");
    }
    for container in CONTAINERS.into_iter().flat_map(|field| list(spec, field)) {
        for source in list(container, "envFrom") {
            add(&mut config_maps, source, "/configMapRef/name");
            add(&mut secrets, source, "/secretRef/name");
        }
        for variable in list(container, "env") {
            add(
                &mut config_maps,
                variable,
                "/valueFrom/configMapKeyRef/name",
            );
            add(&mut secrets, variable, "/valueFrom/secretKeyRef/name");
        }
    }
    for volume in list(spec, "volumes") {
        add(&mut config_maps, volume, "/configMap/name");
        add(&mut claims, volume, "/persistentVolumeClaim/claimName");
        for field in SECRETS_OF_VOLUMES {
            add(&mut secrets, volume, field);
        }
        for source in volume
            .get("projected")
            .map_or(&[][..], |it| list(it, "sources"))
        {
            add(&mut config_maps, source, "/configMap/name");
            add(&mut secrets, source, "/secret/name");
        }
    }
    add(&mut accounts, spec, "/serviceAccountName");
    accounts.remove("default");
    let kinds = [
        ("ConfigMap", config_maps),
        ("Secret", secrets),
        ("ServiceAccount", accounts),
        ("PersistentVolumeClaim", claims),
    ];
    let references = kinds.into_iter().flat_map(|(kind, names)| {
        names.into_iter().map(move |name| {
            json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name})
        })
    });
    references.collect()
}

fn list<'t>(object: &'t Json, field: &str) -> &'t [Json] {
    let list = object.get(field).and_then(Json::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Adds the name at a JSON pointer. An empty name is no reference.
fn add<'t>(names: &mut Names<'t>, object: &'t Json, pointer: &str) {
    let name = object.pointer(pointer).and_then(Json::as_str);
    names.extend(name.filter(|name| !name.is_empty()));
}
