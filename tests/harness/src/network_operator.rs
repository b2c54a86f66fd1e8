//! A double of the network operator of a cell: its kinds, and its controllers. The controllers are tasks of this
//! process. There are two generations of the network operator, and a cell has one of them.
//!
//! As in the network operator that has NetworkInterfaceClaims ([`Generation::InterfaceClaims`]):
//!
//! - A new claim has the conditions Bound, Allocated, Prepared, Programmed and Ready, all Unknown with the reason
//!   Pending. Its spec is immutable.
//! - The claim becomes Bound, then Allocated, then Prepared, in separate writes. It becomes Programmed only after the
//!   holder of its NetworkInterface has reported that it is available.
//! - A refused claim is Allocated=False with a reason, and is tried again after a while.
//! - Claim and interface have finalizers. A claim that ends releases its interface: with `Delete` the interface ends
//!   too, with `Retain` it stays and is free.
//!
//! As in version 0.21 and earlier, whose NetworkBindings cells create ([`Generation::Bindings`]):
//!
//! - A binding without `networkContextRef` gets the NetworkContext `<network>-<namespace of the location>-<location>`,
//!   owned by its Network. The binding is looked at again at intervals, because contexts are not watched for it. Later
//!   changes of the binding have no effect.
//! - The infrastructure provider programs contexts and subnets. They are Ready when they are Programmed.
//! - A SubnetClaim gets a Subnet of the same name, owned by the context. The prefix depends on the city of the
//!   Location.
//!
//! Unlike the network operator, addresses come from a counter, and no traffic flows.

#![expect(
    clippy::indexing_slicing,
    reason = "an index of a JSON value does not panic when a field is missing"
)]

mod bindings;
mod claims;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::federation::parts::crd_of_others;
use crate::objects::{apply, apply_crds};
use crate::wait::SteadyBackoff;
use store::Store;

/// Group and version of all kinds.
pub const API_VERSION: &str = "networking.datumapis.com/v1alpha";
/// Key in the topology of a location.
const CITY_CODE: &str = api::networking::CITY_CODE;
/// How often the controllers work without a change, so that a write that failed is repeated.
const RESYNC: Duration = Duration::from_secs(5);

/// A generation of the network operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Up to version 0.21.
    Bindings,
    /// The one with NetworkInterfaceClaims.
    InterfaceClaims,
}

impl Generation {
    /// Returns the paths of the CRDs.
    pub(crate) fn crds(self) -> Vec<PathBuf> {
        let kinds = self.kinds().iter();
        kinds
            .map(|(_, plural)| crd_of_others(&format!("networking.datumapis.com_{plural}.yaml")))
            .collect()
    }

    /// Returns the kinds and their plural names.
    fn kinds(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Bindings => &[
                ("Network", "networks"),
                ("Location", "locations"),
                ("NetworkBinding", "networkbindings"),
                ("NetworkContext", "networkcontexts"),
                ("SubnetClaim", "subnetclaims"),
                ("Subnet", "subnets"),
            ],
            Self::InterfaceClaims => &[
                ("Network", "networks"),
                ("ServingLocation", "servinglocations"),
                ("NetworkInterfaceClaim", "networkinterfaceclaims"),
                ("NetworkInterface", "networkinterfaces"),
            ],
        }
    }
}

/// How long the network operator and the infrastructure provider take.
#[derive(Clone, Copy, Debug)]
pub struct NetworkDelays {
    /// Time between a change and the reaction of the network operator.
    pub reaction: Duration,
    /// Time from the creation of a claim, a context or a subnet until it is prepared or programmed.
    pub provision: Duration,
    /// Time after which a binding whose context is not ready is looked at again. 5 s in the network operator.
    pub poll: Duration,
    /// Time after which a refused claim is tried again. A minute in the network operator.
    pub retry: Duration,
}

impl Default for NetworkDelays {
    fn default() -> Self {
        Self {
            reaction: Duration::from_millis(50),
            provision: Duration::from_millis(100),
            poll: Duration::from_millis(500),
            retry: Duration::from_secs(1),
        }
    }
}

/// A running network operator. Its controllers end when the value is dropped. Its objects stay.
pub struct NetworkOperator {
    client: Client,
    shared: Arc<Shared>,
    _controllers: JoinSet<()>,
}

/// What the controllers and the test share.
struct Shared {
    delays: NetworkDelays,
    /// Networks that are refused, with reason and message.
    refused: Mutex<BTreeMap<String, (String, String)>>,
    changes: watch::Sender<()>,
}

impl Shared {
    /// Returns why a Network is refused.
    fn refusal(&self, network: &str) -> Option<(String, String)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(network).cloned()
    }
}

/// Installs the kinds of a generation.
///
/// # Errors
///
/// When the API server refuses a CRD, or does not establish it in time.
pub async fn install(client: &Client, generation: Generation) -> anyhow::Result<()> {
    apply_crds(client, &generation.crds()).await
}

impl NetworkOperator {
    /// Installs the kinds of this generation in a cell and starts the controllers. The client needs all rights.
    ///
    /// # Errors
    ///
    /// When the API server refuses an object, or does not serve the kinds in time.
    pub async fn start(
        client: &Client,
        generation: Generation,
        delays: NetworkDelays,
    ) -> anyhow::Result<Self> {
        let installed = install(client, generation).await;
        installed.context("install the kinds of the network operator")?;
        let shared = Arc::new(Shared {
            delays,
            refused: Mutex::default(),
            changes: watch::Sender::new(()),
        });
        let mut controllers = JoinSet::new();
        for (kind, _) in generation.kinds() {
            let changes = shared.changes.clone();
            controllers.spawn(observe(client.clone(), kind, changes));
        }
        controllers.spawn(run(client.clone(), generation, Arc::clone(&shared)));
        Ok(Self {
            client: client.clone(),
            shared,
            _controllers: controllers,
        })
    }

    /// Creates or updates the ServingLocation of a cell.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn serve(&self, name: &str, city: &str) -> anyhow::Result<()> {
        let location = json!({
            "apiVersion": API_VERSION, "kind": "ServingLocation", "metadata": {"name": name},
            "spec": {"topology": {CITY_CODE: city}},
        });
        apply(&self.client, &location).await.map(drop)
    }

    /// Creates or updates a Location in the namespace `default`.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn locate(&self, name: &str, city: &str) -> anyhow::Result<()> {
        let location = json!({
            "apiVersion": API_VERSION, "kind": "Location",
            "metadata": {"name": name, "namespace": api::DEFAULT_NAMESPACE},
            "spec": {"locationClassName": "datum-managed", "provider": {}, "topology": {CITY_CODE: city}},
        });
        apply(&self.client, &location).await.map(drop)
    }

    /// Refuses all networks of this name from now on. Objects that are ready stay so.
    pub fn refuse(&self, network: &str, reason: &str, message: &str) {
        let refusal = (reason.to_owned(), message.to_owned());
        self.change(|refused| drop(refused.insert(network.to_owned(), refusal)));
    }

    /// Undoes [`refuse`](Self::refuse).
    pub fn accept(&self, network: &str) {
        self.change(|refused| drop(refused.remove(network)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, (String, String)>)) {
        let refused = &self.shared.refused;
        change(&mut refused.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.changes.send_replace(());
    }

    /// Returns `Kind namespace/name` of all objects of these kinds, sorted.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn objects(&self, kinds: &[&str]) -> anyhow::Result<Vec<String>> {
        let store = Store::new(&self.client);
        let mut names = Vec::new();
        for kind in kinds {
            let objects = store.list(kind).await?;
            names.extend(objects.iter().map(|object| {
                let (namespace, name) = store::key(object);
                format!("{kind} {namespace}/{name}")
            }));
        }
        names.sort();
        Ok(names)
    }
}

/// Reports all changes of a kind.
async fn observe(client: Client, kind: &'static str, changes: watch::Sender<()>) {
    let api = Store::new(&client).all(kind);
    let mut events = watcher::<DynamicObject>(api, watcher::Config::default())
        .backoff(SteadyBackoff)
        .boxed();
    while let Some(event) = events.next().await {
        // A broken watch restarts with a list, whose events report what changed meanwhile.
        if event.is_ok() {
            changes.send_replace(());
        }
    }
}

/// When an object was first seen in a state, by its UID and the name of the state.
#[derive(Default)]
struct Clock(BTreeMap<(String, &'static str), Instant>);

impl Clock {
    /// Returns how long the object still has to be in the state until it has been there for `wait`.
    fn left(&mut self, uid: &str, state: &'static str, wait: Duration) -> Option<Duration> {
        let since = self.0.entry((uid.to_owned(), state));
        let since = since.or_insert_with(Instant::now).elapsed();
        wait.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// Forgets a state, so that its time begins again.
    fn forget(&mut self, uid: &str, state: &'static str) {
        self.0.remove(&(uid.to_owned(), state));
    }
}

/// One look at all objects.
struct Pass<'p> {
    store: Store,
    shared: &'p Shared,
    clock: &'p mut Clock,
    /// When to look again, if nothing changes.
    again: Duration,
}

impl Pass<'_> {
    /// Returns whether the object has been in the state for this time. If not, the next look is in time for it.
    fn is_due(&mut self, uid: &str, state: &'static str, wait: Duration) -> bool {
        match self.clock.left(uid, state, wait) {
            None => true,
            Some(left) => {
                self.again = self.again.min(left);
                false
            }
        }
    }
}

/// Reacts to each change with a look at all objects. What fails is repeated.
async fn run(client: Client, generation: Generation, shared: Arc<Shared>) {
    let mut changes = shared.changes.subscribe();
    let mut clock = Clock::default();
    let mut last = String::new();
    loop {
        changes.mark_unchanged();
        let mut pass = Pass {
            store: Store::new(&client),
            shared: &shared,
            clock: &mut clock,
            again: RESYNC,
        };
        let done = match generation {
            Generation::Bindings => bindings::reconcile(&mut pass).await,
            Generation::InterfaceClaims => claims::reconcile(&mut pass).await,
        };
        let mut again = pass.again;
        if let Err(error) = done {
            let error = format!("{error:#}");
            again = shared.delays.reaction;
            if error != last {
                eprintln!("the network operator: {error}");
                last = error;
            }
        }
        // The sender is in `shared`, so it lives as long as this task.
        let _ = timeout(again, changes.changed()).await;
        sleep(shared.delays.reaction).await;
    }
}
