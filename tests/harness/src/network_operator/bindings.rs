//! The controllers of NetworkBindings, NetworkContexts, SubnetClaims and Subnets, and the infrastructure provider that
//! programs contexts and subnets.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::store::{Stated, find, key, owner, stated, text};
use super::{API_VERSION, CITY_CODE, Pass};

/// Length of the prefix of each Subnet.
const PREFIX_LENGTH: i32 = 20;
/// Reason of a context that the infrastructure provider cannot create, and of the bindings to it.
const FAILED: &str = "NetworkFailedToCreate";

/// Looks at all objects.
pub(super) async fn reconcile(pass: &mut Pass<'_>) -> anyhow::Result<()> {
    let networks = pass.store.list("Network").await?;
    let locations = pass.store.list("Location").await?;
    let contexts = pass.store.list("NetworkContext").await?;
    let claims = pass.store.list("SubnetClaim").await?;
    let subnets = pass.store.list("Subnet").await?;
    for binding in &pass.store.list("NetworkBinding").await? {
        bind(pass, binding, &networks, &contexts).await?;
    }
    for context in &contexts {
        program_context(pass, context).await?;
    }
    for claim in &claims {
        claim_subnet(pass, claim, &contexts, &subnets).await?;
    }
    for subnet in &subnets {
        program_subnet(pass, subnet, &contexts, &locations).await?;
    }
    Ok(())
}

/// Gives a binding its context. A binding that has one is not looked at again.
async fn bind(
    pass: &mut Pass<'_>,
    binding: &DynamicObject,
    networks: &[DynamicObject],
    contexts: &[DynamicObject],
) -> anyhow::Result<()> {
    if !text(binding, "/status/networkContextRef/name").is_empty()
        || binding.metadata.deletion_timestamp.is_some()
    {
        return Ok(());
    }
    let uid = binding.uid().unwrap_or_default();
    let was_seen = !stated(binding, "Ready").is_empty();
    if was_seen && !pass.is_due(&uid, "polled", pass.shared.delays.poll) {
        return Ok(());
    }
    pass.clock.forget(&uid, "polled");
    pass.is_due(&uid, "polled", pass.shared.delays.poll);
    let (own, _) = key(binding);
    let namespace = match text(binding, "/spec/network/namespace") {
        "" => own.as_str(),
        namespace => namespace,
    };
    let network = text(binding, "/spec/network/name");
    // The status is not written: this is an error of the controller, which tries again.
    let Some(network) = find(networks, namespace, network) else {
        return Ok(());
    };
    let (of_location, location) = (
        text(binding, "/spec/location/namespace"),
        text(binding, "/spec/location/name"),
    );
    let name = format!("{}-{of_location}-{location}", network.name_any());
    let Some(context) = find(contexts, namespace, &name) else {
        pass.store
            .create(json!({
                "apiVersion": API_VERSION, "kind": "NetworkContext",
                "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner(network)]},
                "spec": {"network": {"name": network.name_any()}, "location": binding.data["spec"]["location"]},
            }))
            .await?;
        return not_ready(
            pass,
            binding,
            "NetworkContextNotReady",
            "Network context is not ready.",
        )
        .await;
    };
    if stated(context, "Ready") == "True" {
        let reference = json!({"networkContextRef": {"namespace": namespace, "name": name}});
        let ready = (
            "Ready",
            "True",
            "NetworkContextReady",
            "Network context is ready.",
        );
        pass.store.set_status(binding, reference, &[ready]).await?;
        return Ok(());
    }
    match pass.shared.refusal(&network.name_any()) {
        Some((_, message)) if stated(context, "Programmed") == "False" => {
            not_ready(pass, binding, FAILED, &message).await
        }
        _ => {
            not_ready(
                pass,
                binding,
                "NetworkContextNotReady",
                "Network context is not ready.",
            )
            .await
        }
    }
}

async fn not_ready(
    pass: &Pass<'_>,
    binding: &DynamicObject,
    reason: &str,
    message: &str,
) -> anyhow::Result<()> {
    let condition = ("Ready", "False", reason, message);
    pass.store
        .set_status(binding, json!({}), &[condition])
        .await
        .map(drop)
}

/// Programs a context after some time. It is Ready then, in a second write.
async fn program_context(pass: &mut Pass<'_>, context: &DynamicObject) -> anyhow::Result<()> {
    let uid = context.uid().unwrap_or_default();
    match pass.shared.refusal(text(context, "/spec/network/name")) {
        Some((_, message)) if stated(context, "Ready") != "True" => {
            let failed = ("Programmed", "False", FAILED, message.as_str());
            pass.store.set_status(context, json!({}), &[failed]).await?;
            return Ok(());
        }
        _ => {}
    }
    program(pass, context, &uid).await
}

/// Sets Programmed when its time has come, and then Ready.
async fn program(pass: &mut Pass<'_>, object: &DynamicObject, uid: &str) -> anyhow::Result<()> {
    let step: Stated<'_> = match (stated(object, "Programmed"), stated(object, "Ready")) {
        ("True", "True") => return Ok(()),
        ("True", _) => ("Ready", "True", "Ready", "Ready"),
        _ if pass.is_due(uid, "provision", pass.shared.delays.provision) => {
            ("Programmed", "True", "Programmed", "Programmed")
        }
        _ => return Ok(()),
    };
    pass.store
        .set_status(object, json!({}), &[step])
        .await
        .map(drop)
}

/// Gives a claim its Subnet.
async fn claim_subnet(
    pass: &Pass<'_>,
    claim: &DynamicObject,
    contexts: &[DynamicObject],
    subnets: &[DynamicObject],
) -> anyhow::Result<()> {
    if stated(claim, "Ready") == "True" || claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let (namespace, name) = key(claim);
    let context = text(claim, "/spec/networkContext/name");
    let Some(context) = find(contexts, &namespace, context) else {
        return Ok(());
    };
    let subnet = find(subnets, &namespace, &name);
    let Some(subnet) = subnet.filter(|subnet| stated(subnet, "Ready") == "True") else {
        let mut spec = claim.data["spec"].clone();
        spec["startAddress"] = json!("");
        spec["prefixLength"] = json!(0);
        pass.store
            .create(json!({
                "apiVersion": API_VERSION, "kind": "Subnet",
                "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner(context)]},
                "spec": spec,
            }))
            .await?;
        return not_ready(pass, claim, "SubnetNotReady", "Subnet is not ready").await;
    };
    let status = json!({
        "subnetRef": {"name": name}, "prefixLength": subnet.data["status"]["prefixLength"],
        "startAddress": subnet.data["status"]["startAddress"],
    });
    let ready = ("Ready", "True", "SubnetReady", "Subnet ready");
    pass.store
        .set_status(claim, status, &[ready])
        .await
        .map(drop)
}

/// Allocates the prefix of a Subnet, then programs it after some time.
async fn program_subnet(
    pass: &mut Pass<'_>,
    subnet: &DynamicObject,
    contexts: &[DynamicObject],
    locations: &[DynamicObject],
) -> anyhow::Result<()> {
    let (namespace, _) = key(subnet);
    let context = text(subnet, "/spec/networkContext/name");
    let context = find(contexts, &namespace, context);
    if context.is_none_or(|context| stated(context, "Ready") != "True") {
        return Ok(());
    }
    let location = find(
        locations,
        text(subnet, "/spec/location/namespace"),
        text(subnet, "/spec/location/name"),
    );
    let topology = location.map(|location| &location.data["spec"]["topology"]);
    // Without the city, this is an error of the controller, which tries again.
    let Some(city) = topology.and_then(|topology| topology[CITY_CODE].as_str()) else {
        return Ok(());
    };
    if stated(subnet, "Allocated") != "True" {
        let start = match city {
            "DFW" => "10.128.0.0",
            "DLS" => "10.130.0.0",
            "LHR" => "10.132.0.0",
            _ => "",
        };
        let prefix = json!({"startAddress": start, "prefixLength": PREFIX_LENGTH});
        let message = "Subnet has been allocated a prefix";
        let allocated = ("Allocated", "True", "PrefixAllocated", message);
        pass.store.set_status(subnet, prefix, &[allocated]).await?;
        return Ok(());
    }
    let uid = subnet.uid().unwrap_or_default();
    program(pass, subnet, &uid).await
}
