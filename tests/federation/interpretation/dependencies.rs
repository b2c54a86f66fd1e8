//! Tests of dependencies. Karmada propagates the ConfigMaps and Secrets of a template with the deployment, and removes
//! them with the deployment.

use api::WorkloadDeployment;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::deployment_fixture::{NAME, placed};
use super::{DFW1, DFW2, ORD1, in_dfw};
use crate::fixture::{WITHIN, create, deployment, patch};

pub(crate) async fn dependencies_follow_the_deployment(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = placed(federation, "uses", &in_dfw()).await?;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"a": "1"}});
    create::<ConfigMap>(&space.on_hub(), settings).await?;
    let unused = json!({"metadata": {"name": "unused"}, "data": {"a": "1"}});
    create::<ConfigMap>(&space.on_hub(), unused).await?;
    let mut object = deployment(NAME, "DFW");
    let spec = &mut object["spec"]["template"]["spec"];
    spec["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]);
    spec["volumes"] = json!([{"name": "keys", "secret": {"secretName": "keys"}}]);
    create::<WorkloadDeployment>(&space.on_hub(), object).await?;

    let settings = |expected: &'static str| {
        move |settings: &ConfigMap| {
            let data = settings.data.as_ref();
            data.and_then(|data| data.get("a")).map(String::as_str) == Some(expected)
        }
    };
    for cell in [DFW1, DFW2] {
        wait::until(
            &space.in_cell(cell),
            "settings",
            "there",
            WITHIN,
            settings("1"),
        )
        .await?;
    }
    // The test creates one dependency later, and changes another dependency.
    let keys = json!({"metadata": {"name": "keys"}, "stringData": {"k": "of the test"}});
    create::<Secret>(&space.on_hub(), keys).await?;
    patch::<ConfigMap>(&space.on_hub(), "settings", json!({"data": {"a": "2"}})).await?;
    let keys = |secret: &Secret| {
        let data = secret.data.as_ref();
        data.and_then(|data| data.get("k"))
            .is_some_and(|value| value.0 == b"of the test")
    };
    for cell in [DFW1, DFW2] {
        wait::until(
            &space.in_cell(cell),
            "settings",
            "changed",
            WITHIN,
            settings("2"),
        )
        .await?;
        wait::until(&space.in_cell(cell), "keys", "there", WITHIN, keys).await?;
        let config_maps: Api<ConfigMap> = space.in_cell(cell);
        assert_eq!(config_maps.get_opt("unused").await?, None);
    }
    assert_eq!(
        space.in_cell::<ConfigMap>(ORD1).get_opt("settings").await?,
        None
    );
    assert_eq!(space.in_cell::<Secret>(ORD1).get_opt("keys").await?, None);

    space
        .on_hub::<WorkloadDeployment>()
        .delete(NAME, &DeleteParams::default())
        .await?;
    for cell in [DFW1, DFW2] {
        wait::gone(&space.in_cell::<ConfigMap>(cell), "settings", WITHIN).await?;
        wait::gone(&space.in_cell::<Secret>(cell), "keys", WITHIN).await?;
        wait::gone(&space.in_cell::<WorkloadDeployment>(cell), NAME, WITHIN).await?;
    }
    // The original objects stay on the hub.
    space.on_hub::<ConfigMap>().get("settings").await?;
    space.on_hub::<Secret>().get("keys").await?;
    Ok(())
}
