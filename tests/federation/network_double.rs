//! Tests of the double of the network operator. Each assertion is a fact about the network operator that
//! compute-federation relies on.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use harness::network_operator::{API_VERSION, Generation, NetworkDelays};
use harness::{Milo, NetworkOperator, networking, wait};
use kube::api::{ApiResource, DeleteParams, DynamicObject, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::fixture::{WITHIN, create, patch, patch_status};

/// The projects of the shared Milo. Nothing but these tests uses network operators in them.
const OF_CLAIMS: &str = "a";
const OF_BINDINGS: &str = "b";
const NAMESPACE: &str = api::DEFAULT_NAMESPACE;
const NETWORK: &str = "doubled";
/// Time of a wait for a write that must not occur.
const SILENCE: Duration = Duration::from_secs(2);

fn objects(client: &Client, kind: &str) -> Api<DynamicObject> {
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn body(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns status and reason of a condition.
fn stated(object: &DynamicObject, type_: &str) -> Option<(String, String)> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == type_)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

fn is(object: &DynamicObject, type_: &str, status: &str) -> bool {
    stated(object, type_).is_some_and(|it| it.0 == status)
}

async fn until(
    api: &Api<DynamicObject>,
    name: &str,
    (type_, status, reason): (&str, &str, &str),
) -> anyhow::Result<DynamicObject> {
    let expected = Some((status.to_owned(), reason.to_owned()));
    let what = format!("{type_} {status} {reason}");
    let reached = |object: &DynamicObject| stated(object, type_) == expected;
    wait::until(api, name, &what, WITHIN, reached).await
}

/// Returns the states of these conditions of an object from now on, until the last one is True.
async fn history(
    api: &Api<DynamicObject>,
    name: &str,
    types: &[&str],
) -> anyhow::Result<Vec<Vec<String>>> {
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&params, "0").await?.boxed();
    let mut states: Vec<Vec<String>> = Vec::new();
    while let Some(event) = timeout(WITHIN, events.try_next()).await?? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
            let state = types.iter();
            let state: Vec<_> = state
                .map(|type_| stated(&object, type_).unwrap_or_default().0)
                .collect();
            if states.last() != Some(&state) {
                let ends = state.last().is_some_and(|last| last == "True");
                states.push(state);
                if ends {
                    return Ok(states);
                }
            }
        }
    }
    anyhow::bail!("the watch has ended: {states:?}")
}

/// Checks that nothing is written while nothing changes.
async fn is_silent(apis: &[&Api<DynamicObject>]) -> anyhow::Result<()> {
    let versions = || async {
        let mut versions = Vec::new();
        for api in apis {
            let listed = api.list(&kube::api::ListParams::default()).await?;
            versions.extend(
                listed
                    .iter()
                    .map(|it| (it.name_any(), it.resource_version())),
            );
        }
        anyhow::Ok(versions)
    };
    let before = versions().await?;
    sleep(SILENCE).await;
    assert_eq!(versions().await?, before);
    Ok(())
}

pub(crate) async fn interface_claims_behave_as_documented(milo: &Milo) -> anyhow::Result<()> {
    let client = milo.project(OF_CLAIMS)?.client();
    let delays = NetworkDelays {
        provision: Duration::from_secs(1),
        ..NetworkDelays::default()
    };
    let operator = NetworkOperator::start(&client, Generation::InterfaceClaims, delays).await?;
    let claims = objects(&client, "NetworkInterfaceClaim");
    let interfaces = objects(&client, "NetworkInterface");
    let network = json!({"network": {"name": NETWORK}});

    // A new claim has its defaults, and nothing is decided.
    let claim = create(&claims, body("NetworkInterfaceClaim", "plain", &network)).await?;
    let spec = &claim.data["spec"];
    assert_eq!(
        (
            &spec["interfaceName"],
            &spec["attachmentMode"],
            &spec["ipFamilies"],
            &spec["reclaimPolicy"]
        ),
        (
            &json!("eth0"),
            &json!("Netns"),
            &json!(["IPv6"]),
            &json!("Delete")
        )
    );
    let all = ["Bound", "Allocated", "Prepared", "Programmed", "Ready"];
    let pending = Some(("Unknown".to_owned(), "Pending".to_owned()));
    for type_ in all {
        assert_eq!(stated(&claim, type_), pending, "{type_}");
    }

    // It becomes Bound, Allocated and Prepared one after the other, and not Programmed.
    let steps = history(&claims, "plain", &all[..3]).await?;
    let steps: Vec<_> = steps.iter().map(|it| it.join(" ")).collect();
    let expected = [
        "Unknown Unknown Unknown",
        "True Unknown Unknown",
        "True True Unknown",
        "True True True",
    ];
    // The watch may begin after the first steps.
    ensure!(
        expected.ends_with(&steps.iter().map(String::as_str).collect::<Vec<_>>()),
        "{steps:?}"
    );
    let claim = claims.get("plain").await?;
    assert_eq!(stated(&claim, "Programmed"), pending);
    let address = claim.data["status"]["addresses"][0].clone();
    assert_eq!(
        (&address["family"], &address["primary"]),
        (&json!("IPv6"), &json!(true))
    );
    let reference = &claim.data["status"]["networkInterfaceRef"]["name"];
    let held = reference.as_str().context("no interface")?.to_owned();
    is_silent(&[&claims, &interfaces]).await?;

    // It is Programmed when its holder is available.
    let status = interfaces.get(&held).await?.data["status"].clone();
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({
        "type": "HolderAvailable", "status": "True", "reason": "Available", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    patch_status(&interfaces, &held, json!({"conditions": conditions})).await?;
    until(&claims, "plain", ("Programmed", "True", "Programmed")).await?;

    // Its spec is immutable.
    let change = json!({"spec": {"network": {"name": "another"}}});
    let refused = patch(&claims, "plain", change).await;
    ensure!(refused.is_err(), "the spec was changed");

    // A refused claim says why, and is tried again.
    operator.refuse(NETWORK, "AddressPoolExhausted", "no address is left");
    create(&claims, body("NetworkInterfaceClaim", "refused", &network)).await?;
    until(
        &claims,
        "refused",
        ("Allocated", "False", "AddressPoolExhausted"),
    )
    .await?;
    is_silent(&[&claims, &interfaces]).await?;
    operator.accept(NETWORK);
    until(&claims, "refused", ("Prepared", "True", "Prepared")).await?;

    // With Delete, the interface ends with its claim. With Retain, it is free.
    let mut kept = network.clone();
    kept["reclaimPolicy"] = json!("Retain");
    create(&claims, body("NetworkInterfaceClaim", "kept", &kept)).await?;
    until(&claims, "kept", ("Prepared", "True", "Prepared")).await?;
    for name in ["plain", "refused", "kept"] {
        claims.delete(name, &DeleteParams::default()).await?;
        wait::gone(&claims, name, WITHIN).await?;
    }
    wait::gone(&interfaces, &held, WITHIN).await?;
    let kept = interfaces.get("kept").await?;
    assert_eq!(kept.data["status"]["phase"], "Available");
    assert_eq!(kept.data["spec"]["claimRef"], Value::Null);
    interfaces.delete("kept", &DeleteParams::default()).await?;
    wait::gone(&interfaces, "kept", WITHIN).await
}

pub(crate) async fn bindings_behave_as_documented(milo: &Milo) -> anyhow::Result<()> {
    let client = milo.project(OF_BINDINGS)?.client();
    let delays = NetworkDelays {
        provision: Duration::from_secs(1),
        ..NetworkDelays::default()
    };
    let operator = NetworkOperator::start(&client, Generation::Bindings, delays).await?;
    operator.locate("dfw", "DFW").await?;
    let [bindings, contexts, claims, subnets] =
        ["NetworkBinding", "NetworkContext", "SubnetClaim", "Subnet"]
            .map(|kind| objects(&client, kind));
    let location = json!({"name": "dfw", "namespace": NAMESPACE});
    let spec = json!({"network": {"name": NETWORK}, "location": location});

    // Without its Network, a binding has no status.
    create(&bindings, body("NetworkBinding", "web-net-0", &spec)).await?;
    is_silent(&[&bindings, &contexts]).await?;
    assert_eq!(bindings.get("web-net-0").await?.data["status"], Value::Null);

    // The context belongs to the Network. It is Ready after it is Programmed, and the binding follows.
    networking::create_network(&client, NAMESPACE, NETWORK).await?;
    until(
        &bindings,
        "web-net-0",
        ("Ready", "False", "NetworkContextNotReady"),
    )
    .await?;
    let name = format!("{NETWORK}-{NAMESPACE}-dfw");
    let context = contexts.get(&name).await?;
    let owners = context.owner_references();
    assert_eq!(
        (owners[0].kind.as_str(), owners[0].controller),
        ("Network", Some(true))
    );
    let steps = history(&contexts, &name, &["Programmed", "Ready"]).await?;
    ensure!(
        steps.iter().all(|it| it[1].is_empty() || it[0] == "True"),
        "{steps:?}"
    );
    let binding = until(
        &bindings,
        "web-net-0",
        ("Ready", "True", "NetworkContextReady"),
    )
    .await?;
    let reference = json!({"namespace": NAMESPACE, "name": name});
    assert_eq!(binding.data["status"]["networkContextRef"], reference);

    // A later change of the binding has no effect.
    let change = json!({"spec": {"network": {"name": "another"}}});
    patch(&bindings, "web-net-0", change).await?;
    is_silent(&[&bindings, &contexts]).await?;

    // A Subnet has the name of its claim and belongs to the context. Its prefix is that of the city.
    let claimed = json!({
        "subnetClass": "private", "networkContext": {"name": name}, "location": location, "ipFamily": "IPv4",
    });
    let claim = format!("{name}-0");
    create(&claims, body("SubnetClaim", &claim, &claimed)).await?;
    until(&claims, &claim, ("Ready", "False", "SubnetNotReady")).await?;
    let ready = until(&claims, &claim, ("Ready", "True", "SubnetReady")).await?;
    assert_eq!(ready.data["status"]["subnetRef"]["name"], json!(claim));
    let subnet = subnets.get(&claim).await?;
    assert_eq!(subnet.owner_references()[0].kind, "NetworkContext");
    assert_eq!(subnet.data["status"]["startAddress"], "10.128.0.0");
    assert_eq!(subnet.data["status"]["prefixLength"], 20);
    assert!(
        ["Allocated", "Programmed", "Ready"]
            .iter()
            .all(|it| is(&subnet, it, "True"))
    );
    is_silent(&[&bindings, &contexts, &claims, &subnets]).await?;

    // A network that cannot be created says so in its bindings.
    networking::create_network(&client, NAMESPACE, "failing").await?;
    operator.refuse("failing", "", "the cloud has no room");
    let spec = json!({"network": {"name": "failing"}, "location": location});
    create(&bindings, body("NetworkBinding", "failing-net-0", &spec)).await?;
    let failed = until(
        &bindings,
        "failing-net-0",
        ("Ready", "False", "NetworkFailedToCreate"),
    )
    .await?;
    ensure!(
        failed.data.to_string().contains("the cloud has no room"),
        "{failed:?}"
    );
    operator.accept("failing");
    until(
        &bindings,
        "failing-net-0",
        ("Ready", "True", "NetworkContextReady"),
    )
    .await?;
    for (api, name) in [
        (&bindings, "web-net-0"),
        (&bindings, "failing-net-0"),
        (&claims, claim.as_str()),
    ] {
        api.delete(name, &DeleteParams::default()).await?;
        wait::gone(api, name, WITHIN).await?;
    }
    Ok(())
}
