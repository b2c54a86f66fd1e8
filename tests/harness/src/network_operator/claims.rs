//! The controller of NetworkInterfaceClaims.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::store::{find, key, stated, text};
use super::{API_VERSION, Pass};

const CLAIM_FINALIZER: &str = "networking.datumapis.com/networkinterfaceclaim-release";
const INTERFACE_FINALIZER: &str = "networking.datumapis.com/networkinterface-release";

/// Looks at all claims and interfaces.
pub(super) async fn reconcile(pass: &mut Pass<'_>) -> anyhow::Result<()> {
    let claims = pass.store.list("NetworkInterfaceClaim").await?;
    let interfaces = pass.store.list("NetworkInterface").await?;
    for claim in &claims {
        let (namespace, _) = key(claim);
        let interface = match text(claim, "/status/networkInterfaceRef/name") {
            // It may have been created, and the claim was changed before it was bound.
            "" => find(&interfaces, &namespace, &claim.name_any()).filter(|it| is_of(it, claim)),
            name => find(&interfaces, &namespace, name),
        };
        if claim.metadata.deletion_timestamp.is_some() {
            release(pass, claim, interface).await?;
        } else if !has_finalizer(claim, CLAIM_FINALIZER) {
            let finalizers = [claim.finalizers(), &[CLAIM_FINALIZER.to_owned()]].concat();
            pass.store.set_finalizers(claim, &finalizers).await?;
        } else {
            advance(pass, claim, interface).await?;
        }
    }
    // What an interface holds in the network is released before it ends.
    for interface in &interfaces {
        if interface.metadata.deletion_timestamp.is_some() {
            without_finalizer(pass, interface, INTERFACE_FINALIZER).await?;
        }
    }
    Ok(())
}

fn is_of(interface: &DynamicObject, claim: &DynamicObject) -> bool {
    text(interface, "/spec/claimRef/name") == claim.name_any()
}

fn has_finalizer(object: &DynamicObject, finalizer: &str) -> bool {
    object.finalizers().iter().any(|it| it == finalizer)
}

async fn without_finalizer(
    pass: &Pass<'_>,
    object: &DynamicObject,
    finalizer: &str,
) -> anyhow::Result<()> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|it| it != finalizer);
    pass.store.set_finalizers(object, &finalizers).await
}

/// Ends a claim: its interface ends with it, or is free.
async fn release(
    pass: &Pass<'_>,
    claim: &DynamicObject,
    interface: Option<&DynamicObject>,
) -> anyhow::Result<()> {
    match interface {
        Some(interface) if text(claim, "/spec/reclaimPolicy") == "Retain" => {
            if is_of(interface, claim) {
                let spec = json!({"claimRef": null});
                pass.store.set_spec(interface, &spec).await?;
            }
            if text(interface, "/status/phase") != "Available" {
                let phase = json!({"phase": "Available"});
                // The write of the spec has changed the version. The next pass writes the status.
                let freed = find_again(pass, interface).await?;
                pass.store.set_status(&freed, phase, &[]).await?;
            }
            without_finalizer(pass, claim, CLAIM_FINALIZER).await
        }
        // The claim ends after its interface.
        Some(interface) if interface.metadata.deletion_timestamp.is_none() => {
            pass.store.delete(interface).await
        }
        Some(_) => Ok(()),
        None => without_finalizer(pass, claim, CLAIM_FINALIZER).await,
    }
}

async fn find_again(pass: &Pass<'_>, interface: &DynamicObject) -> anyhow::Result<DynamicObject> {
    let (namespace, name) = key(interface);
    let interfaces = pass.store.list("NetworkInterface").await?;
    let found = find(&interfaces, &namespace, &name).cloned();
    anyhow::Context::context(found, "the interface is gone")
}

/// Takes the next step of a claim. Each step is one write.
async fn advance(
    pass: &mut Pass<'_>,
    claim: &DynamicObject,
    interface: Option<&DynamicObject>,
) -> anyhow::Result<()> {
    let uid = claim.uid().unwrap_or_default();
    let is = |type_: &str| stated(claim, type_) == "True";
    if !is("Bound") {
        return bind(pass, claim).await;
    }
    let network = text(claim, "/spec/network/name");
    if !is("Allocated") {
        let refusal = pass.shared.refusal(network);
        let was_refused = stated(claim, "Allocated") == "False";
        if was_refused && !pass.is_due(&uid, "refused", pass.shared.delays.retry) {
            return Ok(());
        }
        pass.clock.forget(&uid, "refused");
        if let Some((reason, message)) = refusal {
            let refused = ("Allocated", "False", reason.as_str(), message.as_str());
            let ready = ("Ready", "False", "NotAllocated", message.as_str());
            pass.is_due(&uid, "refused", pass.shared.delays.retry);
            let conditions = [refused, ready];
            pass.store.set_status(claim, json!({}), &conditions).await?;
            return Ok(());
        }
        let allocated = ("Allocated", "True", "Allocated", "Addresses are allocated");
        let addresses = addresses(claim);
        pass.store
            .set_status(claim, addresses, &[allocated])
            .await?;
        return Ok(());
    }
    if !is("Prepared") {
        if pass.is_due(&uid, "provision", pass.shared.delays.provision) {
            let prepared = ("Prepared", "True", "Prepared", "The interface is prepared");
            pass.store.set_status(claim, json!({}), &[prepared]).await?;
        }
        return Ok(());
    }
    // The workload is attached when it reports itself.
    let is_held = interface.is_some_and(|it| stated(it, "HolderAvailable") == "True");
    if is_held && !is("Programmed") {
        let programmed = ("Programmed", "True", "Programmed", "Traffic flows");
        let ready = ("Ready", "True", "Ready", "The interface is ready");
        let conditions = [programmed, ready];
        pass.store.set_status(claim, json!({}), &conditions).await?;
    }
    Ok(())
}

/// Creates the interface of a claim, and binds it.
async fn bind(pass: &mut Pass<'_>, claim: &DynamicObject) -> anyhow::Result<()> {
    let uid = claim.uid().unwrap_or_default();
    // The time to provision begins with the claim.
    pass.clock
        .left(&uid, "provision", pass.shared.delays.provision);
    let (namespace, name) = key(claim);
    let spec = |field: &str| claim.data["spec"][field].clone();
    pass.store
        .create(json!({
            "apiVersion": API_VERSION, "kind": "NetworkInterface",
            "metadata": {"name": name, "namespace": namespace, "finalizers": [INTERFACE_FINALIZER]},
            "spec": {
                "network": spec("network"), "claimRef": {"name": name}, "interfaceName": spec("interfaceName"),
                "attachmentMode": spec("attachmentMode"), "reclaimPolicy": spec("reclaimPolicy"),
            },
        }))
        .await?;
    let bound = (
        "Bound",
        "True",
        "Bound",
        "The interface belongs to the claim",
    );
    let interface = json!({"networkInterfaceRef": {"name": name}});
    pass.store.set_status(claim, interface, &[bound]).await?;
    Ok(())
}

/// Returns the addresses of a claim. They depend on its UID, so they are the same at each attempt.
fn addresses(claim: &DynamicObject) -> Value {
    let uid = claim.uid().unwrap_or_default();
    let number = uid.bytes().fold(7_u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u16::from(byte))
    });
    let [high, low] = number.to_be_bytes();
    let families = claim.data["spec"]["ipFamilies"].as_array();
    let families = families.into_iter().flatten().filter_map(Value::as_str);
    let addresses: Vec<_> = families
        .enumerate()
        .map(|(index, family)| {
            let (address, gateway) = match family {
                "IPv4" => (format!("10.128.{high}.{low}/32"), "10.128.0.1"),
                _ => (format!("fd00::{number:x}/128"), "fd00::1"),
            };
            json!({"family": family, "address": address, "gateway": gateway, "primary": index == 0})
        })
        .collect();
    let classes = claim.data["spec"]["addresses"].as_array();
    let external: Vec<_> = classes
        .into_iter()
        .flatten()
        .map(|it| {
            let address = format!("203.0.113.{low}");
            json!({"family": "IPv4", "address": address, "class": it["class"]})
        })
        .collect();
    json!({"addresses": addresses, "externalAddresses": external})
}
