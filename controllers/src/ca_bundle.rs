//! Keeps the `caBundle` of the hub's own ResourceInterpreterWebhookConfiguration in step with the mounted `ca.crt`:
//! nothing in a Karmada installation does.

mod plan;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use pem::{EncodeConfig, LineEnding};
use planes::{Metrics, Tasks};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{Clock, ReconcileError};
pub use plan::{Authorities, Delays};
use plan::{Memory, Observed, Plan, plan};

const NAME: &str = "ca-bundle";
const FIELD_MANAGER: &str = "compute-federation-ca-bundle";
/// Name of the configuration, as `deploy/` has it.
const CONFIGURATION: &str = "compute-federation";
/// How often the configuration is looked at while something is on its way, and else.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(5);

/// What the controller needs.
pub struct Config {
    /// The hub.
    pub hub: Client,
    /// The authorities of the certificate that is served, and of the one in the files.
    pub certificates: watch::Receiver<Mounted>,
    /// Told what callers trust.
    pub trusted: watch::Sender<Authorities>,
    /// How long changes take.
    pub delays: Delays,
    /// Where writes are counted.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// Tells the time.
    pub clock: Clock,
}

/// The authorities of certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// Of the certificate in the files.
    pub mounted: Authorities,
    /// Of the certificate that is served.
    pub served: Authorities,
}

/// Starts the controller. Every replica learns what callers trust; only the one that may write does.
pub fn start(tasks: &Tasks, config: Config) {
    let stop = tasks.stop();
    let gvk = GroupVersionKind::gvk(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
    );
    let keeper = Keeper {
        api: Api::all_with(config.hub.clone(), &ApiResource::from_gvk(&gvk)),
        config,
        memory: None,
        problem: None,
    };
    tasks.spawn(NAME, async move {
        stop.run_until_cancelled(keeper.run()).await;
        Ok::<_, std::convert::Infallible>(())
    });
}

struct Keeper {
    api: Api<DynamicObject>,
    config: Config,
    /// `None` before the first look.
    memory: Option<Memory>,
    /// The last error, so that it is reported once.
    problem: Option<String>,
}

impl Keeper {
    async fn run(mut self) {
        loop {
            let pause = match self.look().await {
                Ok(settled) => {
                    self.problem = None;
                    if settled { LATER } else { SOON }
                }
                Err(error) => {
                    let problem = error.to_string();
                    if self.problem.as_ref() != Some(&problem) {
                        warn!(%problem, "caBundle not looked after");
                        self.problem = Some(problem);
                    }
                    SOON
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                changed = self.config.certificates.changed() => {
                    if changed.is_err() {
                        sleep(LATER).await;
                    }
                }
            }
        }
    }

    /// Brings the bundle one step further, and says whether there is nothing to wait for.
    async fn look(&mut self) -> Result<bool, ReconcileError> {
        let Mounted { mounted, served } = self.config.certificates.borrow_and_update().clone();
        let configuration = self.api.get_opt(CONFIGURATION).await;
        if let Err(kube::Error::Api(status)) = &configuration
            && status.is_forbidden()
        {
            // Without the right someone else looks after the bundle.
            self.tell(mounted.clone());
        }
        let configuration = configuration
            .map_err(|error| ReconcileError::api(format!("get {CONFIGURATION}"), error))?;
        let Some(configuration) = configuration else {
            // No one calls yet, so no one has to trust anything.
            self.tell(mounted);
            return Ok(true);
        };
        let bundles = bundles(&configuration);
        let written = match self.memory {
            Some(_) => None,
            None => last_change(&configuration),
        };
        let observed = Observed {
            mounted: &mounted,
            served: &served,
            bundles: &bundles,
            written,
            delays: self.config.delays,
            now: (self.config.clock)(),
        };
        let former = self.memory.take().unwrap_or_default();
        let Plan {
            write,
            trusted,
            memory,
        } = plan(&observed, &former);
        let waits = !mounted.is_subset(&trusted) || mounted != served;
        let settled = write.is_none() && !waits && memory.unneeded.is_empty();
        self.memory = Some(memory);
        self.tell(trusted);
        if let (Some(bundle), true) = (write, self.config.may_write.is_cancelled()) {
            self.write(&configuration, bundles.len(), &bundle).await?;
        }
        Ok(settled)
    }

    fn tell(&self, trusted: Authorities) {
        self.config.trusted.send_if_modified(|known| {
            let changed = *known != trusted;
            *known = trusted;
            changed
        });
    }

    /// Fails if the configuration has changed since it was read.
    async fn write(
        &self,
        configuration: &DynamicObject,
        webhooks: usize,
        bundle: &Authorities,
    ) -> Result<(), ReconcileError> {
        let encoded = encode(bundle);
        let version = configuration.resource_version();
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
        let bundles = (0..webhooks).map(|index| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": encoded})
        });
        let patch = Value::Array(std::iter::once(test).chain(bundles).collect());
        let action = || format!("patch {CONFIGURATION}");
        let patch = serde_json::from_value(patch)
            .map_err(|error| ReconcileError::api(action(), kube::Error::SerdeError(error)))?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .api
            .patch(CONFIGURATION, &params, &Patch::<Value>::Json(patch))
            .await;
        patched.map_err(|error| ReconcileError::api(action(), error))?;
        self.config
            .metrics
            .wrote(NAME, "patch", "ResourceInterpreterWebhookConfiguration");
        info!(authorities = bundle.len(), "caBundle written");
        Ok(())
    }
}

/// When the configuration was last changed, by anyone; the API server tells it in whole seconds, rounded down.
fn last_change(configuration: &DynamicObject) -> Option<Timestamp> {
    let changes = configuration.managed_fields().iter();
    let last = changes.filter_map(|change| change.time.as_ref()).max()?;
    Some(last.0 + Duration::from_secs(1))
}

/// The authorities in the bundle of each webhook.
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

/// Authorities in the form of a `caBundle`: PEM in base64.
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
    use super::*;

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
