//! Tests with CRDs that are newer than the types of the binary.

use anyhow::ensure;
use api::{Instance, Workload, WorkloadDeployment};
use harness::{Federation, Plane, wait};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{DFW, Space, WITHIN, create, deployment, instance, workload};

/// JSON pointer of the first container, from the spec of an Instance or of a template.
const CONTAINERS: &str = "/runtime/sandbox/containers/0";
/// JSON pointer of the template's spec in a Workload or a WorkloadDeployment.
const TEMPLATE: &str = "/spec/template/spec";

fn args() -> Value {
    json!(["--verbose", "--port=80"])
}

/// Returns the JSON pointer, in a CRD, of the schema of a property. `path` is the JSON pointer of the property in an
/// object.
fn in_schema(path: &str) -> String {
    let mut pointer = "/spec/versions/0/schema/openAPIV3Schema".to_owned();
    for part in path.split('/').skip(1) {
        match part {
            "0" => pointer.push_str("/items"),
            name => pointer = pointer + "/properties/" + name,
        }
    }
    pointer
}

/// Changes the CRD of a kind with one operation of a JSON patch on the property `args` of containers.
async fn change_crd<K: CustomResourceExt>(
    plane: &Plane,
    spec: &str,
    operation: &str,
) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client());
    let path = in_schema(&format!("{spec}{CONTAINERS}/args"));
    let schema = json!({"type": "array", "items": {"type": "string"}});
    let operations = json!([{"op": operation, "path": path, "value": schema}]);
    let change = Patch::<()>::Json(serde_json::from_value(operations)?);
    crds.patch(K::crd_name(), &PatchParams::default(), &change)
        .await?;
    Ok(())
}

/// Waits until an API server keeps `args`. A changed schema takes effect with a delay.
async fn until_kept<K>(plane: &Plane, mut object: Value, spec: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    K: Serialize + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(plane.client(), "default");
    let pointer = format!("{spec}{CONTAINERS}");
    if let Some(container) = object.pointer_mut(&pointer) {
        container["args"] = args();
    }
    let object: K = serde_json::from_value(object)?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let kept = || async {
        let stored = json!(api.create(&params, &object).await?);
        ensure!(
            stored.pointer(&pointer).map(|it| &it["args"]) == Some(&args()),
            "pruned by {}",
            plane.name()
        );
        Ok(())
    };
    wait::eventually("the schema takes effect", WITHIN, kept).await
}

/// A CRD has a field that the types of the binary do not have.
pub(crate) async fn a_field_of_a_newer_crd_reaches_the_cell(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "newer-crd").await?;
    for plane in federation.planes() {
        change_crd::<Workload>(plane, TEMPLATE, "add").await?;
        change_crd::<WorkloadDeployment>(plane, TEMPLATE, "add").await?;
        change_crd::<Instance>(plane, "/spec", "add").await?;
    }
    for plane in federation.planes() {
        let web = workload("web", &[("us", &["DFW"], 1)]);
        until_kept::<Workload>(plane, web, TEMPLATE).await?;
        until_kept::<WorkloadDeployment>(plane, deployment("web", "DFW"), TEMPLATE).await?;
        until_kept::<Instance>(plane, instance("web-0", "web"), "/spec").await?;
    }
    let mut web = workload("web", &[("us", &["DFW"], 1)]);
    if let Some(container) = web.pointer_mut(&format!("{TEMPLATE}{CONTAINERS}")) {
        container["args"] = args();
    }
    create::<Workload>(&space.in_project(), web).await?;
    space.until_settled("web", 1).await?;
    let name = "web-us-dfw-0";
    for instances in [
        space.in_cell::<Instance>(DFW),
        space.on_hub(),
        space.in_project(),
    ] {
        let instance = space.until_instances(instances, &[name]).await?.remove(0);
        let spec = json!(instance.spec);
        let container = spec.pointer(CONTAINERS);
        ensure!(container.map(|it| &it["args"]) == Some(&args()), "{spec}");
    }
    space.delete_workload("web").await?;
    space.until_empty().await?;
    for plane in federation.planes() {
        change_crd::<Workload>(plane, TEMPLATE, "remove").await?;
        change_crd::<WorkloadDeployment>(plane, TEMPLATE, "remove").await?;
        change_crd::<Instance>(plane, "/spec", "remove").await?;
    }
    Ok(())
}
