//! The scheduling gates of Instances (docs/concepts/flow.md#gates).
//!
//! `deployment` sets gates when it creates an Instance. Each gate has a condition and a controller. The controller
//! writes the condition, and opens the gate when the condition is stored and True.

use api::Instance;
use api::annotations::REFERENCED_DATA_VERSIONS;
use api::condition::{self, Condition};
use api::instance::{
    NETWORK_GATE, NETWORK_READY, QUOTA_GATE, QUOTA_GRANTED, REFERENCED_DATA_GATE,
    REFERENCED_DATA_READY,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// The list of gates in an Instance.
const LIST: &str = "/spec/controller/schedulingGates";

/// A scheduling gate, and the condition that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Name of the gate.
    pub(crate) name: &'static str,
    /// Type of the condition of the Instance.
    pub(crate) condition: &'static str,
    /// The annotation of the Instance that must not change between the decision and the opening of the gate.
    record: Option<&'static str>,
}

/// Opens when the networks of the Instance are there.
pub(crate) const NETWORK: Gate = Gate {
    name: NETWORK_GATE,
    condition: NETWORK_READY,
    record: None,
};
/// Opens when the quota of the project covers the Instance.
pub(crate) const QUOTA: Gate = Gate {
    name: QUOTA_GATE,
    condition: QUOTA_GRANTED,
    record: None,
};

/// Opens when the ConfigMaps and Secrets of the Instance are in the cell.
pub(crate) const REFERENCED_DATA: Gate = Gate {
    name: REFERENCED_DATA_GATE,
    condition: REFERENCED_DATA_READY,
    record: Some(REFERENCED_DATA_VERSIONS),
};

/// Returns whether an Instance has a closed gate. Such an Instance has never run.
pub(crate) fn has_gates(instance: &Instance) -> bool {
    let controller = instance.spec.controller.as_ref();
    controller.is_some_and(|controller| !controller.scheduling_gates.is_empty())
}

/// The next write of the controller of a gate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GateStep {
    /// Write these conditions of the Instance.
    Write(Vec<Condition>),
    /// Remove the gate.
    Open,
}

impl Gate {
    /// Returns the position in the list of gates.
    fn position(&self, instance: &Instance) -> Option<usize> {
        let gates = &instance.spec.controller.as_ref()?.scheduling_gates;
        gates.iter().position(|gate| gate.name == self.name)
    }

    /// Returns whether the gate still holds the Instance back.
    pub(crate) fn is_closed(&self, instance: &Instance) -> bool {
        self.position(instance).is_some()
    }

    /// Returns the stored condition.
    pub(crate) fn stored<'i>(&self, instance: &'i Instance) -> Option<&'i Condition> {
        condition::find(&instance.status.as_ref()?.conditions, self.condition)
    }

    /// Returns the next step towards this condition, and to an open gate if the condition is True. The gate opens only
    /// if the condition is stored for the generation of the Instance (I-30), and not while the Instance is suspended:
    /// nothing starts then.
    pub(crate) fn step(&self, instance: &Instance, wanted: Condition) -> Option<GateStep> {
        let opens = wanted.is_true() && self.is_closed(instance) && !instance.is_suspended();
        let write = self.write(instance, wanted);
        write.or_else(|| opens.then_some(GateStep::Open))
    }

    /// Returns the write of the condition, if it differs from the stored one. While the gate is closed, the condition
    /// must also be of the current generation. Later the generation alone is no reason for a write: the opened gate has
    /// changed it.
    fn write(&self, instance: &Instance, wanted: Condition) -> Option<GateStep> {
        let generation = instance.metadata.generation;
        let is_stored = self.stored(instance).is_some_and(|stored| {
            stored.status == wanted.status
                && stored.reason == wanted.reason
                && stored.message == wanted.message
                && (stored.observed_generation == generation || !self.is_closed(instance))
        });
        if is_stored {
            return None;
        }
        let former = instance.status.as_ref();
        let mut conditions = former.map_or_else(Vec::new, |status| status.conditions.clone());
        condition::set(&mut conditions, wanted.observed(generation));
        Some(GateStep::Write(conditions))
    }

    /// Removes the gate, and returns the Instance as it is stored. Returns `None` if the gate is open.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::remove_item`]: also if the spec of the Instance has changed since it was read, or if it was
    /// suspended meanwhile.
    pub(crate) async fn open(
        &self,
        writer: &Writer,
        context: &ReconcileContext,
        to: &Collection<'_, Instance>,
        instance: &Instance,
    ) -> Result<Option<Instance>, ReconcileError> {
        let Some(position) = self.position(instance) else {
            return Ok(None);
        };
        let item = (LIST, position, self.name);
        let suspended = instance.status.as_ref().and_then(|it| it.suspended);
        let mut unchanged = vec![("/status/suspended".to_owned(), json!(suspended))];
        let record = self.record;
        if let Some((key, value)) = record.and_then(|key| instance.annotations().get_key_value(key))
        {
            let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
            unchanged.push((path, json!(value)));
        }
        let opened = writer
            .remove_item(context, to, instance, item, &unchanged)
            .await?;
        Ok(Some(opened))
    }
}

/// Returns the list of gates of a new Instance.
pub(crate) fn list(gates: &[Gate]) -> Value {
    gates
        .iter()
        .map(|gate| json!({"name": gate.name}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::servers::{CellPlanes, HUB_NAMESPACE, context};
    use crate::fixtures::{self, instance, object};

    #[test]
    fn a_gate_stays_closed_while_the_instance_is_suspended() {
        let step = |suspended: Option<bool>| {
            let mut gated = instance("ns-1", "web-0");
            let generation = gated.metadata.generation;
            let granted = fixtures::condition(QUOTA.condition, true, generation);
            gated.spec.controller = Some(object(json!({
                "templateHash": "h", "schedulingGates": [{"name": QUOTA.name}],
            })));
            let status = json!({"conditions": [granted], "suspended": suspended});
            gated.status = Some(object(status));
            QUOTA.step(&gated, granted)
        };
        assert_eq!(step(None), Some(GateStep::Open));
        assert_eq!(step(Some(true)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_does_not_open_if_the_instance_was_suspended_meanwhile() {
        let planes = CellPlanes::start(vec![json!(instance(HUB_NAMESPACE, "web-0"))], vec![]).await;
        let cell = &planes.cell;
        let writer = Writer::new("quota", &planes.metrics);
        let to = Collection::new(&planes.caches.client, HUB_NAMESPACE, None);
        for (before, after, opens) in [
            (json!({}), json!({"suspended": true}), false),
            (json!({}), json!({}), true),
            (
                json!({"suspended": false}),
                json!({"suspended": true}),
                false,
            ),
        ] {
            cell.modify::<Instance>(HUB_NAMESPACE, "web-0", |it| {
                let gates = json!([{"name": QUOTA.name}]);
                it["spec"]["controller"] = json!({"templateHash": "h", "schedulingGates": gates});
                it["status"] = before.clone();
            });
            let seen: Instance = cell.get(HUB_NAMESPACE, "web-0").unwrap();
            cell.modify::<Instance>(HUB_NAMESPACE, "web-0", |it| it["status"] = after.clone());
            let opened = QUOTA.open(&writer, &context(), &to, &seen).await;
            assert_eq!(opened.is_ok(), opens, "{before} {after}");
            let stored: Instance = cell.get(HUB_NAMESPACE, "web-0").unwrap();
            assert_eq!(QUOTA.is_closed(&stored), !opens, "{before} {after}");
        }
    }
}
