//! Makes the networks of the Instances of a cell, and opens their gate `Network` (docs/concepts/flow.md#networks).
//!
//! The network operator of the cell does the work. This controller asks it with objects of its kinds, as the config
//! file says, and reports in the condition `NetworkReady` of the Instance.

mod bindings;
mod interface_claims;
mod observe;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;
use std::time::Duration;

use api::instance::LocationReference;
use api::reasons::network_ready as reason;
use api::{Instance, WorkloadDeployment, labels};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use multicluster::{Cache, Metrics, Outcome};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::cell::CellCaches;
use crate::cell::location::is_namespaced;
use crate::cell::networks::Networking;
use crate::gate;
use crate::objects::{controller_name, controller_uid};
use crate::runtime::error::FirstError;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Object, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use crate::waiting::WaitingInstances;
use observe::{ObjectsOfBindings, is_listed, listed};
use plan::{
    HolderReport, NetworkStep, Networks, ObjectStep, Plan, Verdict, is_managed, plan, waiting_since,
};

/// The most steps of one reconciliation. An Instance needs fewer. The limit ends a loop that two writers of one field
/// would cause.
const STEPS_MAX: usize = 16;
/// The wait after [`STEPS_MAX`].
const DISPUTED: Duration = Duration::from_mins(1);
/// The wait of an Instance that is gone for the first list of a kind. No event triggers it.
const UNLISTED: Duration = Duration::from_secs(10);

pub(crate) struct NetworkController {
    cell: Arc<CellCaches>,
    writer: Writer,
    waiting: WaitingInstances<ObjectKey>,
}

impl Controller for NetworkController {
    const NAME: &'static str = "network";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        // An older CRD of Instances stores only a part of their interfaces, so they are written once.
        let mut has_copied = false;
        // The caches contain the results of the writes, so each plan follows from what is stored.
        for _ in 0..STEPS_MAX {
            let Some(instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
                self.waiting.note(&key, None);
                return self.release(context, &key.namespace).await;
            };
            self.waiting.note(&key, waiting_since(&instance));
            if !is_managed(&instance) {
                return Ok(Outcome::Settled);
            }
            let mut networks = self.networks(context, &instance);
            networks.interfaces.take_if(|_| has_copied);
            let Plan { step, look_again } = plan(&instance, networks, context.now());
            let Some(step) = step else {
                return Ok(look_again.map_or(Outcome::Settled, Outcome::Again));
            };
            let is_object = matches!(step, NetworkStep::Object(_));
            has_copied |= step.copies_interfaces();
            match self.take(context, &instance, step).await {
                Ok(true) => {}
                Ok(false) => return Ok(Outcome::Settled),
                Err(error) => {
                    if let Some(refusal) = error.refusal().filter(|_| is_object) {
                        self.show(context, &instance, refusal).await?;
                    }
                    return Err(error);
                }
            }
        }
        warn!(?key, "the networks of the Instance do not settle");
        Ok(Outcome::Again(DISPUTED))
    }
}

impl NetworkController {
    pub(crate) fn new(cell: Arc<CellCaches>, metrics: &Metrics) -> Self {
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            waiting: WaitingInstances::new(metrics, Metrics::networks_waiting),
        }
    }

    /// Returns what the networks of an Instance need.
    fn networks(&self, context: &ReconcileContext, instance: &Instance) -> Networks {
        let networks = match self.cell.networks.strategy {
            Networking::Disabled => Err(Verdict::Disabled),
            Networking::InterfaceClaims => self.by_interface_claims(context, instance),
            Networking::Bindings => self.by_bindings(instance),
        };
        // A machine that runs keeps its networks while nothing can be learned about them, and when the cell makes none
        // any more.
        networks.unwrap_or_else(|verdict| match gate::NETWORK.is_closed(instance) {
            true => Networks {
                verdict,
                ..Networks::default()
            },
            false => Networks::default(),
        })
    }

    fn by_interface_claims(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
    ) -> Result<Networks, Verdict> {
        let networks = &self.cell.networks;
        let namespace = instance.namespace().unwrap_or_default();
        let claims = listed(&networks.claims, &namespace)?;
        let own = instance.labels();
        let city = own
            .get(labels::INSTANCE_CITY_CODE)
            .map_or("", String::as_str);
        Ok(interface_claims::networks(&interface_claims::Observed {
            instance,
            location: match is_listed(&networks.serving_locations) {
                Ok(()) => self.cell.serving_location(city).map_err(Verdict::from),
                Err(verdict) => unlisted_location(instance, verdict),
            },
            claims: &claims,
            undecodable: &networks.claims.undecodable(&namespace),
            interfaces: &networks.interfaces.readable(&namespace),
            now: context.now(),
        }))
    }

    fn by_bindings(&self, instance: &Instance) -> Result<Networks, Verdict> {
        let namespace = instance.namespace().unwrap_or_default();
        let objects = ObjectsOfBindings::list(&self.cell, &namespace)?;
        let name = controller_name::<WorkloadDeployment>(instance.meta());
        let deployment = name.and_then(|name| {
            let deployment = self.cell.deployments.get(&namespace, name);
            deployment.ok().flatten()
        });
        // The Instance of a former deployment ends with it.
        let deployment =
            deployment.filter(|it| controller_uid(instance) == it.meta().uid.as_deref());
        let Some(deployment) = deployment else {
            return Ok(Networks::default());
        };
        let own = instance.spec.location.as_ref();
        if own.is_none() && !gate::NETWORK.is_closed(instance) {
            // The Go manager has started the Instance. Which location its networks are in is not known.
            return Ok(Networks::default());
        }
        let runs_in = own.filter(|_| !gate::NETWORK.is_closed(instance));
        let location = match runs_in.filter(|own| is_namespaced(own)) {
            // A machine that runs stays where it is.
            Some(own) => Ok(own.clone()),
            None => objects.location(&deployment, own),
        };
        let of_new = objects.location(&deployment, None);
        let observed = objects.of(&deployment, &of_new);
        Ok(bindings::networks(observed, instance, &location))
    }

    /// Takes back what no Instance needs any more, after the end of one.
    async fn release(
        &self,
        context: &ReconcileContext,
        namespace: &str,
    ) -> Result<Outcome, ReconcileError> {
        if self.cell.networks.strategy != Networking::Bindings {
            return Ok(Outcome::Gone);
        }
        let objects = match ObjectsOfBindings::list(&self.cell, namespace) {
            Ok(objects) => objects,
            Err(Verdict::Unlisted(_)) => return Ok(Outcome::Again(UNLISTED)),
            // The cell does not serve the kinds.
            Err(_) => return Ok(Outcome::Gone),
        };
        let mut errors = FirstError::default();
        for deployment in self.cell.deployments.readable(namespace) {
            let of_new = objects.location(&deployment, None);
            for step in bindings::leftovers(objects.of(&deployment, &of_new)) {
                errors.note(self.write(context, namespace, step).await);
                if errors.must_wait() {
                    return errors.result().map(|()| Outcome::Gone);
                }
            }
        }
        errors.result().map(|()| Outcome::Gone)
    }

    /// Shows that the API server of the cell refuses an object of the network operator.
    async fn show(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        refusal: String,
    ) -> Result<(), ReconcileError> {
        let message = self.writer.shown_refusal(context, instance, "", refusal);
        let networks = Networks {
            verdict: Verdict::Blocked {
                reason: reason::FAILED_TO_CREATE,
                message,
            },
            ..Networks::default()
        };
        match plan(instance, networks, context.now()).step {
            Some(step) => self.take(context, instance, step).await.map(drop),
            None => Ok(()),
        }
    }

    /// Takes a step. Returns whether the caches show its result.
    async fn take(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        step: NetworkStep,
    ) -> Result<bool, ReconcileError> {
        let cell = &self.cell;
        let namespace = instance.namespace().unwrap_or_default();
        let instances = Collection::new(&cell.client, &namespace, Some(&cell.instances));
        match step {
            NetworkStep::Object(step) | NetworkStep::Release(step) => {
                return self.write(context, &namespace, step).await;
            }
            NetworkStep::StampLocation(location) => {
                let field = ("/spec/location", json!(location));
                self.writer
                    .add_field(context, &instances, instance, field)
                    .await?;
            }
            NetworkStep::WriteStatus {
                conditions,
                interfaces,
            } => {
                let parts = [
                    ("conditions", conditions.map(|it| json!(it))),
                    ("networkInterfaces", interfaces.map(|it| json!(it))),
                ];
                let parts = parts.into_iter();
                let parts = parts.filter_map(|(field, value)| Some((field.to_owned(), value?)));
                let status = Value::Object(parts.collect::<Map<_, _>>());
                self.writer
                    .patch_status(context, &instances, instance, status)
                    .await?;
            }
            NetworkStep::OpenGate => {
                let opened = gate::NETWORK
                    .open(&self.writer, context, &instances, instance)
                    .await?;
                return Ok(opened.is_some());
            }
            NetworkStep::ReportHolder(HolderReport {
                interface,
                conditions,
            }) => {
                let interfaces = &cell.networks.interfaces;
                let to = Collection::new(&cell.client, &namespace, Some(interfaces));
                let status = json!({"conditions": conditions});
                self.writer
                    .patch_status(context, &to, &interface, status)
                    .await?;
            }
        }
        Ok(true)
    }

    /// Writes an object of the network operator. Returns whether the caches show the result.
    async fn write(
        &self,
        context: &ReconcileContext,
        namespace: &str,
        step: ObjectStep,
    ) -> Result<bool, ReconcileError> {
        let networks = &self.cell.networks;
        match step {
            ObjectStep::CreateInterfaceClaim(claim) => {
                self.create(context, namespace, &networks.claims, &claim)
                    .await?;
            }
            ObjectStep::CreateBinding(binding) => {
                self.create(context, namespace, &networks.bindings, &binding)
                    .await?;
            }
            ObjectStep::CreateSubnetClaim(claim) => {
                self.create(context, namespace, &networks.subnet_claims, &claim)
                    .await?;
            }
            ObjectStep::DeleteBinding(binding) => {
                let bindings = Some(&networks.bindings);
                let to = Collection::new(&self.cell.client, namespace, bindings);
                self.writer.delete(context, &to, binding.as_ref()).await?;
                // Its event triggers the next reconciliation.
                return Ok(false);
            }
            ObjectStep::DeleteSubnetClaim(claim) => {
                let claims = Some(&networks.subnet_claims);
                let to = Collection::new(&self.cell.client, namespace, claims);
                self.writer
                    .delete_unchanged(context, &to, claim.as_ref())
                    .await?;
                return Ok(false);
            }
            ObjectStep::OwnSubnetClaim(claim, owners) => {
                let claims = Some(&networks.subnet_claims);
                let to = Collection::new(&self.cell.client, namespace, claims);
                let metadata = json!({"ownerReferences": owners});
                self.writer
                    .patch_metadata(context, &to, claim.as_ref(), metadata)
                    .await?;
            }
        }
        Ok(true)
    }

    async fn create<K: Object + Resource<Scope = NamespaceResourceScope> + Serialize>(
        &self,
        context: &ReconcileContext,
        namespace: &str,
        cache: &Cache<K>,
        object: &K,
    ) -> Result<(), ReconcileError> {
        let to = Collection::new(&self.cell.client, namespace, Some(cache));
        let body = json!(object);
        self.writer
            .ensure(context, &to, None, &body, &[], |_: &K| true)
            .await
            .map(drop)
    }
}

/// Returns the location of an Instance while the ServingLocations are not known.
///
/// # Errors
///
/// The verdict about the networks of the Instance. It is this one if the Instance waits for them.
fn unlisted_location(instance: &Instance, verdict: Verdict) -> Result<LocationReference, Verdict> {
    if gate::NETWORK.is_closed(instance) {
        return Err(verdict);
    }
    // A machine that runs stays where it is. A Location with a namespace is one of the other strategy.
    let own = instance.spec.location.as_ref();
    let own = own.filter(|own| !is_namespaced(own));
    own.cloned().ok_or(Verdict::Unknown)
}
