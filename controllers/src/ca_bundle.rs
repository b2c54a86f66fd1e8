//! Updates the `caBundle` of our webhook registrations from the mounted `ca.crt`. Karmada does not update the
//! `caBundle` of its registrations. For admission webhooks, Kubernetes does not update it either without an add-on.
//! Also keeps the rules of the registration for the kinds of customizations, which change with their files.

mod names;
mod plan;
#[cfg(test)]
mod reconcile_tests;
mod rules;
mod trust;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Status};
use kube::{Api, Client, ResourceExt};
use multicluster::absence::is_definitive_not_found_of;
use multicluster::queue::Failure;
use multicluster::{Metrics, Tasks};
use pem::{EncodeConfig, LineEnding};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::hub_in_use::{HubCheck, HubVerdict};
use crate::runtime::{Clock, ReconcileError};
use names::CallerNames;
pub use plan::{Authorities, Delays};
use plan::{BundleHistory, Observed, Plan, plan};
pub use rules::WEBHOOK_OF_CUSTOMIZATIONS;
use trust::Trust;

const NAME: &str = "ca-bundle";
const FIELD_MANAGER: &str = "compute-federation-ca-bundle";
/// Interval between checks of a registration while a change is in progress, or after an error that may soon disappear.
const SOON: Duration = Duration::from_millis(500);
/// Interval between checks in all other cases.
const LATER: Duration = Duration::from_secs(5);

/// Longest wait that an API server can ask for with a Retry-After header.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The dependencies of the controller.
pub struct Config {
    /// The objects that register our webhooks. Callers are considered to trust an authority only if all of these
    /// objects contain the authority.
    pub registrations: Vec<Maintained>,
    /// Whether callers reach the webhook server by these registrations only.
    pub are_all: bool,
    /// The authorities of the served certificate and of the certificate in the files.
    pub certificates: watch::Receiver<Mounted>,
    /// Receives the authorities that callers trust.
    pub trusted: watch::Sender<Authorities>,
    /// Receives the names at which callers reach the webhook server.
    pub names: watch::Sender<BTreeSet<String>>,
    /// How long callers take to notice a change of a bundle.
    pub delays: Delays,
    /// The metrics that count writes.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// The source of the current time.
    pub clock: Clock,
}

/// A registration to maintain.
pub struct Maintained {
    /// The registration.
    pub registration: Registration,
    /// Reaches the API server that has it.
    pub client: Client,
    /// The wanted `rules` of [`WEBHOOK_OF_CUSTOMIZATIONS`], or `None` while they are not known. Without a receiver, the
    /// rules are those of the deployment.
    ///
    /// Such a registration is optional, and only a process with customizations maintains it. So callers that reach the
    /// server by it do not count for the trust before its bundle had our authorities once. Otherwise a process would wait
    /// for a leader that does not maintain it.
    pub rules: Option<watch::Receiver<Option<Value>>>,
    /// The check of the hub that has the registration. The registration is written only if the hub is not one of another
    /// installation. `None` if the registration is not on a hub, or if this process knows no records.
    pub hub: Option<HubCheck>,
}

impl Maintained {
    /// Maintains the `caBundle` alone.
    pub fn ca_bundle(registration: Registration, client: Client) -> Self {
        Self {
            registration,
            client,
            rules: None,
            hub: None,
        }
    }
}

/// An object that gives callers the address of a webhook and the authorities to trust. Its name is the name in
/// `deploy/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    name: &'static str,
}

impl Registration {
    /// The interpreter, on the hub.
    pub const INTERPRETER: Self = Self {
        group: "config.karmada.io",
        version: "v1alpha1",
        kind: "ResourceInterpreterWebhookConfiguration",
        name: "compute-federation",
    };
    /// The interpreter of the kinds of customizations, on the hub.
    pub const CUSTOMIZATIONS: Self = Self {
        name: "compute-federation-customizations",
        ..Self::INTERPRETER
    };
    /// The mutating admission webhooks of the project API servers.
    pub const MUTATING: Self = Self {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "MutatingWebhookConfiguration",
        name: "compute-mutating",
    };
    /// The validating admission webhooks of the project API servers.
    pub const VALIDATING: Self = Self {
        kind: "ValidatingWebhookConfiguration",
        name: "compute-validating",
        ..Self::MUTATING
    };

    /// Returns the name of the object.
    pub const fn name(self) -> &'static str {
        self.name
    }

    fn api(self, client: Client) -> Api<DynamicObject> {
        Api::all_with(client, &self.resource())
    }

    fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk(&kind)
    }

    /// Returns whether the answer proves that the registration does not exist.
    fn is_absent(self, answer: &Status) -> bool {
        let plural = self.resource().plural;
        is_definitive_not_found_of(self.group, &plural, self.name, answer)
    }
}

/// The certificate authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// The authorities of the certificate in the files.
    pub mounted: Authorities,
    /// The authorities of the served certificate.
    pub served: Authorities,
}

/// Starts the controller. Every replica observes which authorities callers trust. Only the replica that may write
/// updates the bundles.
pub fn start(tasks: &Tasks, config: Config) {
    let Config {
        registrations,
        are_all,
        certificates,
        trusted,
        names,
        delays,
        metrics,
        may_write,
        clock,
    } = config;
    let trust = Arc::new(Trust::new(registrations.len(), trusted));
    let names = Arc::new(CallerNames::new(registrations.len(), are_all, names));
    for (index, maintained) in registrations.into_iter().enumerate() {
        let Maintained {
            registration,
            client,
            rules,
            hub,
        } = maintained;
        let keeper = Keeper {
            registration,
            api: registration.api(client),
            certificates: certificates.clone(),
            rules,
            hub,
            trust: Arc::clone(&trust),
            names: Arc::clone(&names),
            index,
            delays,
            metrics: metrics.clone(),
            may_write: may_write.clone(),
            clock,
            is_found: false,
            counts: false,
            history: None,
            problem: None,
        };
        let stop = tasks.stop();
        tasks.spawn(NAME, async move {
            stop.run_until_cancelled(keeper.run()).await;
            Ok::<_, std::convert::Infallible>(())
        });
    }
}

/// Maintains one registration.
struct Keeper {
    registration: Registration,
    api: Api<DynamicObject>,
    certificates: watch::Receiver<Mounted>,
    /// As in [`Maintained`].
    rules: Option<watch::Receiver<Option<Value>>>,
    /// As in [`Maintained`].
    hub: Option<HubCheck>,
    trust: Arc<Trust>,
    names: Arc<CallerNames>,
    /// The position of the registration in the list of all registrations.
    index: usize,
    delays: Delays,
    metrics: Metrics,
    may_write: CancellationToken,
    clock: Clock,
    /// Whether the registration has been found, and no answer has proved since that it does not exist.
    is_found: bool,
    /// Whether the callers of this registration count for the trust.
    counts: bool,
    /// `None` before the first check.
    history: Option<BundleHistory>,
    /// The last error. It is kept so that the same error is not reported again.
    problem: Option<String>,
}

impl Keeper {
    async fn run(mut self) {
        let mut after_error = Duration::ZERO;
        loop {
            let outcome = self.look().await;
            let wait = pause(&outcome, after_error);
            after_error = match outcome {
                Ok(_) => Duration::ZERO,
                Err(_) => wait,
            };
            let problem = outcome.as_ref().err().map(ToString::to_string);
            if let Some(problem) = &problem
                && self.problem.as_ref() != Some(problem)
            {
                let kind = self.registration.kind;
                let name = self.registration.name;
                warn!(kind, name, %problem, "the registration is not maintained");
            }
            self.problem = problem;
            tokio::select! {
                () = sleep(wait) => {}
                changed = self.certificates.changed() => {
                    if changed.is_err() {
                        sleep(LATER).await;
                    }
                }
                () = rules::changed(self.rules.as_mut()) => {}
            }
        }
    }

    /// Takes the next step towards the wanted bundle. Returns whether the registration is settled, so that no change is
    /// in progress.
    async fn look(&mut self) -> Result<bool, ReconcileError> {
        let Mounted { mounted, served } = self.certificates.borrow_and_update().clone();
        let needed = || mounted.union(&served).cloned().collect();
        let name = self.registration.name;
        let hub = self.hub.as_ref().map(HubCheck::verdict);
        if let Some(HubVerdict::Another(problem)) = hub {
            return Err(self.leave_to_others(needed(), problem));
        }
        let configuration = match self.api.get(name).await {
            Ok(configuration) => Ok(Some(configuration)),
            // An API server that does not serve the kind has no registration. But a registration that was there may be
            // behind a proxy that does not reach its API server.
            Err(kube::Error::Api(answer))
                if self.registration.is_absent(&answer) || answer.code == 404 && !self.is_found =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        if let Err(kube::Error::Api(status)) = &configuration
            && status.is_forbidden()
        {
            // This process may not read the registration, so it cannot update it. An operator must maintain the bundle.
            self.trust.tell(self.index, needed());
            self.names.tell(self.index, None);
        }
        let configuration =
            configuration.map_err(|error| ReconcileError::api(format!("get {name}"), error))?;
        self.is_found = configuration.is_some();
        let names = configuration.as_ref().map(names::names);
        self.names.tell(self.index, Some(names.unwrap_or_default()));
        let bundles = configuration.as_ref().map(bundles).unwrap_or_default();
        let (Some(configuration), false) = (configuration, bundles.is_empty()) else {
            // A registration that is absent or has no webhooks has no callers, so no caller must trust an authority.
            self.trust.tell(self.index, needed());
            return Ok(true);
        };
        let written = match self.history {
            Some(_) => None,
            None => last_change(&configuration),
        };
        let observed = Observed {
            mounted: &mounted,
            served: &served,
            bundles: &bundles,
            written,
            delays: self.delays,
            now: (self.clock)(),
        };
        let former = self.history.take().unwrap_or_default();
        let Plan {
            write,
            trusted,
            history,
        } = plan(&observed, &former);
        let waits = !mounted.is_subset(&trusted) || mounted != served;
        let settled = write.is_none() && !waits && history.unneeded.is_empty();
        self.history = Some(history);
        self.counts |= self.rules.is_none() || !served.is_empty() && served.is_subset(&trusted);
        // A bundle that has one of our authorities is of this installation. No project need be asked then.
        let has_ours = |bundle: &Authorities| !bundle.is_disjoint(&needed());
        let is_own = hub != Some(HubVerdict::Unknown) || bundles.iter().flatten().any(has_ours);
        let told = if self.counts { trusted } else { needed() };
        self.trust.tell(self.index, told);
        if !self.may_write.is_cancelled() || !is_own {
            return Ok(settled);
        }
        if let Some(bundle) = write {
            let changes = bundle_changes(bundles.len(), &bundle);
            self.write(&configuration, changes).await?;
            // The configuration has a new version.
            return Ok(settled);
        }
        // Rules that Karmada refuses must not delay a bundle.
        let wanted = self.rules.as_ref().and_then(|rules| rules.borrow().clone());
        let changes = wanted.map(|wanted| rules::changes(&configuration.data, &wanted));
        if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
            self.write(&configuration, changes).await?;
        }
        Ok(settled)
    }

    /// Stops to maintain the registration of another installation. Its callers are not those of this process, so they
    /// count neither for the trust nor for the names. Returns the error.
    fn leave_to_others(&mut self, needed: Authorities, problem: String) -> ReconcileError {
        let Registration { kind, name, .. } = self.registration;
        self.history = None;
        self.trust.tell(self.index, needed);
        self.names.tell(self.index, Some(BTreeSet::new()));
        ReconcileError::Contradiction {
            object: format!("{kind} {name}"),
            problem,
        }
    }

    /// Writes these changes. Fails if the configuration changed since it was read.
    async fn write(
        &self,
        configuration: &DynamicObject,
        changes: Vec<Value>,
    ) -> Result<(), ReconcileError> {
        let version = configuration.resource_version();
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
        let patch = Value::Array(std::iter::once(test).chain(changes).collect());
        let Registration { kind, name, .. } = self.registration;
        let action = || format!("patch {name}");
        let patch = serde_json::from_value(patch)
            .map_err(|error| ReconcileError::api(action(), kube::Error::SerdeError(error)))?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .api
            .patch(name, &params, &Patch::<Value>::Json(patch))
            .await;
        patched.map_err(|error| ReconcileError::api(action(), error))?;
        self.metrics.wrote(NAME, "patch", kind, None);
        info!(kind, name, "registration written");
        Ok(())
    }
}

/// Returns the wait until the next check. `former` is the wait after the last error, or zero. After errors, the waits
/// grow, and the wait that the API server has asked for is kept. The wait is long after an error about a missing
/// permission, because an administrator rarely grants it within seconds.
fn pause(outcome: &Result<bool, ReconcileError>, former: Duration) -> Duration {
    match outcome {
        Ok(true) => LATER,
        Ok(false) => SOON,
        Err(error) if error.is_forbidden() => LATER,
        Err(error) => {
            let asked = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            (2 * former).clamp(SOON, LATER).max(asked)
        }
    }
}

/// Returns when the configuration was last changed by any writer. The API server stores whole seconds, rounded down.
/// One second is added, so that the result is never too early.
fn last_change(configuration: &DynamicObject) -> Option<Timestamp> {
    let changes = configuration.managed_fields().iter();
    let last = changes.filter_map(|change| change.time.as_ref()).max()?;
    Some(last.0.checked_add(Duration::from_secs(1)).unwrap_or(last.0))
}

/// Returns the changes of a JSON patch that give this many webhooks this bundle.
fn bundle_changes(webhooks: usize, bundle: &Authorities) -> Vec<Value> {
    let encoded = encode(bundle);
    let change = |index| {
        let path = format!("/webhooks/{index}/clientConfig/caBundle");
        json!({"op": "add", "path": path, "value": encoded})
    };
    (0..webhooks).map(change).collect()
}

/// Returns the authorities in the bundle of each webhook.
fn bundles(configuration: &DynamicObject) -> Vec<Option<Authorities>> {
    let webhooks = configuration.data.get("webhooks").and_then(Value::as_array);
    let webhooks = webhooks.map(Vec::as_slice).unwrap_or_default();
    webhooks
        .iter()
        .map(|webhook| decode(webhook.pointer("/clientConfig/caBundle")?.as_str()?))
        .collect()
}

fn decode(bundle: &str) -> Option<Authorities> {
    let blocks = pem::parse_many(STANDARD.decode(bundle).ok()?).ok()?;
    Some(blocks.into_iter().map(pem::Pem::into_contents).collect())
}

/// Encodes authorities as a `caBundle`. The format is PEM in base64.
pub fn encode(bundle: &Authorities) -> String {
    let blocks: Vec<_> = bundle
        .iter()
        .map(|authority| pem::Pem::new("CERTIFICATE", authority.as_slice()))
        .collect();
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    STANDARD.encode(pem::encode_many_config(&blocks, lines))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn a_forbidden_request_is_retried_late() {
        let refused = |reason: &str, code: u16| {
            let status = Status::failure("no", reason).with_code(code).boxed();
            Err(ReconcileError::api("get x", kube::Error::Api(status)))
        };
        let busy = || {
            let mut status = Status::failure("no", "ServiceUnavailable").with_code(503);
            status.details = Some(StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 20,
            });
            Err(ReconcileError::api(
                "get x",
                kube::Error::Api(status.boxed()),
            ))
        };
        for (outcome, former, expected) in [
            (Ok(true), SOON, LATER),
            (Ok(false), LATER, SOON),
            (refused("Forbidden", 403), SOON, LATER),
            (refused("Conflict", 409), Duration::ZERO, SOON),
            (refused("Conflict", 409), SOON, 2 * SOON),
            (refused("ServiceUnavailable", 503), LATER, LATER),
            (refused("ServiceUnavailable", 503), Duration::ZERO, SOON),
            (busy(), SOON, Duration::from_secs(20)),
        ] {
            assert_eq!(pause(&outcome, former), expected, "{outcome:?}");
        }
    }

    #[test]
    fn bundles_are_read_as_they_are_written() {
        let bundle = Authorities::from([b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(decode(&encode(&bundle)), Some(bundle));
        assert_eq!(decode("no base64!"), None);
        let configuration = |bundle: Value| {
            let webhooks = json!([{"clientConfig": {"caBundle": bundle}}, {"clientConfig": {}}]);
            let object = json!({"metadata": {"name": "x"}, "webhooks": webhooks});
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        assert_eq!(
            bundles(&configuration(json!(""))),
            [Some(Authorities::new()), None]
        );
        assert_eq!(bundles(&configuration(json!(3))), [None, None]);
    }
}
