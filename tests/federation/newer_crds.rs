//! Tests with CRDs that are newer than the types of the binary.

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment};
use futures::StreamExt;
use futures::future::try_join_all;
use harness::{Federation, Plane, wait};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams, WatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fixture::{
    DFW, Space, WITHIN, create, deployment, instance, is_ready, patch, patch_status, workload,
};

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

/// Changes the CRD of a kind with one operation of a JSON patch on the property `args` of containers. Waits until the
/// API server has ended the watches of the former CRD: they report objects as this CRD stores them.
async fn change_crd<K>(plane: &Plane, spec: &str, operation: &str) -> anyhow::Result<()>
where
    K: CustomResourceExt + Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let kind: Api<K> = Api::all(plane.client());
    let mut former = kind.watch(&WatchParams::default(), "0").await?.boxed();
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client());
    let path = in_schema(&format!("{spec}{CONTAINERS}/args"));
    let schema = json!({"type": "array", "items": {"type": "string"}});
    let operations = json!([{"op": operation, "path": path, "value": schema}]);
    let change = Patch::<()>::Json(serde_json::from_value(operations)?);
    crds.patch(K::crd_name(), &PatchParams::default(), &change)
        .await?;
    let ended = async { while let Some(Ok(_)) = former.next().await {} };
    timeout(WITHIN, ended)
        .await
        .context("the watches of the former CRD do not end")
}

/// Changes all CRDs on all planes.
async fn change_crds(federation: &Federation, operation: &str) -> anyhow::Result<()> {
    let changes = federation.planes().map(|plane| async move {
        tokio::try_join!(
            change_crd::<Workload>(plane, TEMPLATE, operation),
            change_crd::<WorkloadDeployment>(plane, TEMPLATE, operation),
            change_crd::<Instance>(plane, "/spec", operation),
        )
    });
    try_join_all(changes).await.map(drop)
}

/// Waits until an API server keeps `args`. A changed schema takes effect with a delay.
async fn until_kept<K>(plane: &Plane, object: Value, spec: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    K: Serialize + Clone + std::fmt::Debug,
{
    until_stored::<K>(plane, object, spec, Some(args())).await
}

/// Waits until an API server stores this of `args`.
async fn until_stored<K>(
    plane: &Plane,
    mut object: Value,
    spec: &str,
    expected: Option<Value>,
) -> anyhow::Result<()>
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
            stored.pointer(&pointer).and_then(|it| it.get("args")) == expected.as_ref(),
            "args of {} are not {expected:?}",
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
    change_crds(federation, "add").await?;
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
    let has_args = |instance: &Instance| {
        let spec = json!(instance.spec);
        let container = spec.pointer(CONTAINERS);
        is_ready(instance) && container.map(|it| &it["args"]) == Some(&args())
    };
    for instances in [
        space.in_cell::<Instance>(DFW),
        space.on_hub(),
        space.in_project(),
    ] {
        wait::until(&instances, name, "an Instance with args", WITHIN, has_args).await?;
    }
    an_older_crd_stops_no_status(&space, name).await?;
    space.delete_workload("web").await?;
    space.until_empty().await?;
    change_crds(federation, "remove").await
}

/// Makes the hub's CRD of Instances older than that of the cell. The hub's API server then refuses a server-side apply
/// of the copy, because the Instance has a field that this CRD does not have.
async fn an_older_crd_stops_no_status(space: &Space<'_>, name: &str) -> anyhow::Result<()> {
    let hub = space.federation.hub();
    change_crd::<Instance>(hub, "/spec", "remove").await?;
    until_stored::<Instance>(hub, instance("web-0", "web"), "/spec", None).await?;
    // A changed spec is not stored without an apply.
    let in_cell = space.in_cell::<Instance>(DFW);
    let changed = json!({"spec": {"location": {"name": "dfw", "namespace": "default"}}});
    patch(&in_cell, name, changed).await?;
    let address = "203.0.113.7";
    let interfaces = json!({"networkInterfaces": [{"assignments": {"externalIP": address}}]});
    patch_status(&in_cell, name, interfaces).await?;
    let shown = |instance: &Instance| {
        let status = instance.status.iter();
        let mut interfaces = status.flat_map(|status| &status.network_interfaces);
        let location = instance.spec.location.as_ref();
        location.is_some_and(|location| location.name == "dfw")
            && interfaces.any(|it| it.assignments.external_ip.as_deref() == Some(address))
    };
    for instances in [space.on_hub(), space.in_project()] {
        wait::until(&instances, name, "as in the cell", WITHIN, shown).await?;
    }
    change_crd::<Instance>(hub, "/spec", "add").await?;
    until_kept::<Instance>(hub, instance("web-0", "web"), "/spec").await
}
