//! Tests of the generated CRDs on a real API server.

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment};
use harness::{Federation, networking};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{Space, create, deployment, instance, patch_status, template, workload};

/// Returns an Instance spec that sets every field, except for mutually exclusive ones.
fn full_instance_spec() -> Value {
    json!({
        "networkInterfaces": [{
            "network": {"name": "default", "namespace": "other"},
            "networkPolicy": {"ingress": [{
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": "http", "endPort": 90}],
                "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
            }]},
        }],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2", "requests": {"cpu": "500m", "memory": "1Gi"}},
            "sandbox": {
                "containers": [{
                    "name": "app",
                    "image": "app:1",
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": true}}},
                        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                        {"name": "D", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                        {"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "app", "divisor": "1m"}}},
                    ],
                    "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
                    "volumeAttachments": [{"name": "data", "mountPath": "/data"}, {"name": "settings"}],
                    "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
                }],
                "imagePullSecrets": [{"name": "pull"}],
            },
            "virtualMachine": {
                "volumeAttachments": [{"name": "boot"}],
                "ports": [{"name": "ssh", "port": 22}],
            },
        },
        "volumes": [
            {"name": "boot", "disk": {
                "deviceName": "sda",
                "template": {
                    "metadata": {"name": "disk", "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
                    "spec": {
                        "type": "pd-standard",
                        "resources": {"requests": {"storage": "10Gi"}},
                        "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
                    },
                },
            }},
            {"name": "data", "disk": {"template": {"spec": {"type": "pd-standard", "populator": {"filesystem": {"type": "ext4"}}}}}},
            {"name": "settings", "configMap": {"name": "c", "optional": true, "defaultMode": 420, "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "secrets", "secret": {"secretName": "s", "optional": false, "defaultMode": 256, "items": [{"key": "k", "path": "p"}]}},
        ],
        "location": {"name": "dfw", "namespace": "default"},
        "controller": {"templateHash": "h", "schedulingGates": [{"name": "Network"}, {"name": "Quota"}]},
    })
}

fn full_template() -> Value {
    let metadata = json!({"name": "n", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]});
    json!({"metadata": metadata, "spec": full_instance_spec()})
}

/// Returns the template with the fields that the CRD of Workload allows.
fn full_template_of_a_workload() -> Value {
    let mut template = full_template();
    let spec = &mut template["spec"];
    for (parent, field) in [
        ("/runtime/sandbox/containers/0", "resources"),
        ("/runtime/resources", "requests"),
        ("/runtime", "virtualMachine"),
        ("/volumes/2/configMap", "items"),
    ] {
        let parent = spec.pointer_mut(parent).and_then(Value::as_object_mut);
        assert!(parent.unwrap().remove(field).is_some());
    }
    spec["volumes"][1]["disk"]["template"]["spec"]["resources"] =
        json!({"requests": {"storage": "10Gi"}});
    template
}

fn full_scale_settings() -> Value {
    let target = json!({"value": "1", "averageValue": "500m", "averageUtilization": 80});
    json!({
        "minReplicas": 1,
        "maxReplicas": 5,
        "instanceManagementPolicy": "OrderedReady",
        "metrics": [{"resource": {"name": "cpu", "target": target}}],
    })
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": "Because", "message": "m",
        "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": 1,
    })
}

fn counters() -> Value {
    json!({"replicas": 0, "currentReplicas": 0, "desiredReplicas": 1, "readyReplicas": 0})
}

fn extended(mut object: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) else {
        return object;
    };
    fields.extend(more);
    object
}

/// Creates an object and checks that the API server returns every field of the request. Checks both the JSON and our
/// types.
async fn survives<K>(api: Api<K>, object: Value, status: Value) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let spec = object["spec"].clone();
    let created = create(&api, object.clone()).await?;
    let name = created.meta().name.clone().context("no name")?;
    ensure!(
        json!(created)["spec"] == spec,
        "spec as it came back:\n{}\nas it was sent:\n{spec}",
        json!(created)["spec"]
    );
    let typed: K = serde_json::from_value(object)?;
    ensure!(
        json!(typed)["spec"] == spec,
        "spec through our types:\n{}\nas it was sent:\n{spec}",
        json!(typed)["spec"]
    );
    let updated = patch_status(&api, &name, status.clone()).await?;
    ensure!(
        json!(updated)["status"] == status,
        "status as it came back:\n{}\nas it was sent:\n{status}",
        json!(updated)["status"]
    );
    Ok(())
}

pub(crate) async fn objects_that_use_every_field_survive_the_api_server(
    federation: &Federation,
) -> anyhow::Result<()> {
    // Controllers ignore the hub namespace of this test.
    let space = Space::create(federation, "fields").await?;
    let hub = federation.hub().client();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(hub);
    create(&namespaces, json!({"metadata": {"name": space.hub_name}})).await?;

    let gateway = json!({
        "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
        "conditions": [condition("Accepted")],
        "listeners": [{
            "name": "http",
            "attachedRoutes": 1,
            "conditions": [condition("Ready")],
            "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
        }],
    });
    let mut object = workload("full", &[]);
    object["spec"] = json!({
        "template": full_template_of_a_workload(),
        "placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": full_scale_settings()}],
    });
    let placement = extended(
        counters(),
        json!({"name": "us", "conditions": [condition("Available")]}),
    );
    let status = json!({"deployments": 1, "conditions": [condition("Available")], "gateway": gateway, "placements": [placement]});
    survives::<Workload>(space.on_hub(), object, extended(counters(), status)).await?;

    let mut object = deployment("full", "DFW");
    object["spec"]["template"] = full_template();
    object["spec"]["scaleSettings"] = full_scale_settings();
    object["spec"]["replicas"] = json!(2);
    let cell = extended(
        counters(),
        json!({
            "name": "dfw1", "conditions": [condition("Available")], "resourceTemplateGeneration": 1,
            "updatedReplicas": 1,
        }),
    );
    let status = json!({
        "conditions": [condition("Available")],
        "location": {"name": "dfw", "namespace": "default"},
        "observedGeneration": 1,
        "cells": [cell],
        "selector": "compute.datumapis.com/workload-deployment-uid=u",
        "suspended": true,
        "updatedReplicas": 1,
    });
    survives::<WorkloadDeployment>(space.on_hub(), object, extended(counters(), status)).await?;

    let mut object = instance("full-0", "full");
    object["spec"] = full_instance_spec();
    let status = json!({
        "conditions": [condition("Ready")],
        "networkInterfaces": [{"assignments": {"networkIP": "10.0.0.1", "externalIP": "192.0.2.1"}}],
        "controller": {"observedTemplateHash": "h"},
        "suspended": true,
    });
    survives::<Instance>(space.on_hub(), object, status).await
}

pub(crate) async fn the_api_server_defaults_and_refuses_as_the_schema_says(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "schema").await?;
    // The namespace has no identity labels. So the controllers do not treat an Instance of the project as a projection.
    let created: Instance = create(&space.in_project(), json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance", "metadata": {"name": "bare"}, "spec": template()["spec"],
    }))
    .await?;
    let read = space
        .in_project::<Instance>()
        .get(&created.name_any())
        .await?;
    let conditions = read.status.context("no default status")?.conditions;
    let types: Vec<_> = conditions
        .iter()
        .map(|condition| (condition.type_.as_str(), condition.reason.as_str()))
        .collect();
    assert_eq!(
        types,
        [
            ("Programmed", "Pending"),
            ("Running", "Pending"),
            ("Ready", "Pending")
        ]
    );
    assert!(
        conditions
            .iter()
            .all(|condition| condition.last_transition_time.0.as_second() == 0)
    );

    let api: Api<kube::api::DynamicObject> = crate::fixture::dynamic(
        federation.project().client(),
        &space.name,
        "compute.datumapis.com",
        "v1alpha",
        "Workload",
    );
    let mut object = workload("defaults", &[("us", &["DFW"], 1)]);
    object["spec"]["placements"][0]["scaleSettings"] = json!({"minReplicas": 1});
    let disk = json!({"template": {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}});
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "d", "disk": disk}]);
    let created = create(&api, object).await?;
    let spec = &created.data["spec"];
    assert_eq!(
        spec["placements"][0]["scaleSettings"]["instanceManagementPolicy"],
        "OrderedReady"
    );
    assert_eq!(
        spec["template"]["spec"]["volumes"][0]["disk"]["template"]["spec"]["type"],
        "pd-standard"
    );

    for (field, change) in [
        ("spec.placements", json!({"placements": []})),
        (
            "spec.template.spec.networkInterfaces",
            json!({"template": {"spec": {"networkInterfaces": []}}}),
        ),
        (
            "spec.template.spec.runtime.sandbox.containers[1]",
            json!({"template": {"spec": {"runtime": {"sandbox": {"containers": [
                {"name": "app", "image": "app:1"}, {"name": "app", "image": "app:2"},
            ]}}}}}),
        ),
        (
            "spec.placements[0].scaleSettings.minReplicas",
            json!({"placements": [{"name": "us", "cityCodes": [], "scaleSettings": {}}]}),
        ),
    ] {
        let mut object = workload("refused", &[("us", &["DFW"], 1)]);
        merge(&mut object["spec"], &change);
        let error = create(&api, object)
            .await
            .err()
            .with_context(|| format!("{change} is accepted"))?
            .to_string();
        ensure!(error.contains(field), "{field}: {error}");
    }
    Ok(())
}

fn merge(value: &mut Value, change: &Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(fields.entry(name.clone()).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change.clone(),
    }
}

pub(crate) async fn kubectl_shows_the_columns(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "columns").await?;
    networking::offer_city(&federation.project().client(), "lhr", "LHR").await?;
    create::<Workload>(
        &space.in_project(),
        workload("web", &[("nowhere", &["LHR"], 1)]),
    )
    .await?;
    create::<Instance>(
        &space.in_project(),
        json!({"metadata": {"name": "bare"}, "spec": template()["spec"]}),
    )
    .await?;
    harness::wait::until(
        &space.in_project::<WorkloadDeployment>(),
        "web-nowhere-lhr",
        "there",
        crate::fixture::WITHIN,
        |_| true,
    )
    .await?;
    for (resource, columns) in [
        (
            "workloads",
            "NAME AGE AVAILABLE REASON DEPLOYMENTS REPLICAS READY DESIRED UP-TO-DATE",
        ),
        (
            "workloaddeployments",
            "NAME AGE AVAILABLE REASON REPLICAS READY DESIRED UP-TO-DATE LOCATION NAMESPACE LOCATION NAME",
        ),
        (
            "instances",
            "NAME AGE READY REASON NETWORK IP EXTERNAL IP MESSAGE",
        ),
    ] {
        let namespace = format!("--namespace={}", space.name);
        let get = ["get", resource, &namespace, "--output=wide"];
        let kubeconfig = federation.project().kubeconfig();
        let output = crate::kubectl::kubectl(kubeconfig, &get, None).await?;
        let output = String::from_utf8(output.stdout)?;
        let header = output
            .lines()
            .next()
            .context("no output")?
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(header, columns);
    }
    Ok(())
}
