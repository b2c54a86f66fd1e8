//! Milo's quota system in projects: its kinds, its admission, and its controllers. The controllers are tasks of this
//! process.
//!
//! As in Milo:
//!
//! - A new ResourceClaim is `Granted=False` with the reason `PendingEvaluation`. Only the reason tells it from a denied
//!   one.
//! - The admission refuses a claim for an unregistered resource type, for a foreign consumer or by a kind that may not
//!   claim, with 403. What the schema forbids is refused with 422. The registrations are those of `deploy`.
//! - An AllowanceBucket per resource type and consumer has the sum of the active grants and of the granted requests.
//!   Each request is decided alone: a denied claim keeps what it was granted until it is deleted.
//! - A decision is final. A grant that comes later changes no claim.
//! - Each controller acts some time after the change that it reacts to. The bucket is written first, then the
//!   allocation of the claim, then the condition `Granted`.
//!
//! Unlike Milo, the admission does not fill a missing `consumerRef`, but refuses the claim. Milo deletes claims that a
//! ClaimCreationPolicy has made and sets the owner of such claims. Nothing here makes such claims.
//!
//! The quota system of a project is in the API server of the project, so it is down when this API server is:
//!
//! - In a federation, [`Plane::pause_apiserver`](crate::Plane::pause_apiserver) of
//!   [`Federation::project`](crate::Federation::project) lets it hang, with SIGSTOP.
//! - With Milo, [`ControlPlane::hang`](crate::milo::ControlPlane::hang) and
//!   [`refuse`](crate::milo::ControlPlane::refuse) act on the requests that go through the front. The controllers do
//!   not use the front, so they continue. [`kill_apiserver`](crate::milo::ControlPlane::kill_apiserver) ends the API
//!   server.
//! - A [`Proxy`](crate::proxy::Proxy) in front of it can be cut for its clients alone. As of now, only
//!   [`Federation::put_proxies`](crate::Federation::put_proxies) starts proxies, for the management controllers.
//!
//! The controllers continue when the API server is back. [`QuotaSystem::pause`] is different: the API server answers,
//! but nothing is decided.

mod buckets;
mod claims;
mod controllers;
mod grants;
mod install;
mod kinds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{Mutex, OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinSet;

use crate::objects::apply;
pub use install::{QuotaKind, QuotaRegistration, registrations};
pub use kinds::{
    ACTIVE, API_VERSION, GRANTED, GROUP, PENDING_EVALUATION, QUOTA_AVAILABLE, QUOTA_EXCEEDED,
    QuotaAllocation, QuotaAllowance, QuotaAmount, QuotaBucket, QuotaBucketSpec, QuotaBucketStatus,
    QuotaClaim, QuotaClaimSpec, QuotaClaimStatus, QuotaContribution, QuotaDecision, QuotaGrant,
    QuotaGrantSpec, QuotaGrantStatus, QuotaReference, QuotaRequest, SYSTEM_NAMESPACE,
};

/// Resource type of the number of Instances.
pub const INSTANCES: &str = "compute.datumapis.com/instances";
/// Resource type of virtual CPUs, in millicores.
pub const VCPUS: &str = "compute.datumapis.com/vcpus";
/// Resource type of memory, in MiB.
pub const MEMORY: &str = "compute.datumapis.com/memory";

/// Time between a change and the reaction of each controller.
#[derive(Clone, Copy, Debug)]
pub struct QuotaDelays {
    /// Of the controller that activates ResourceGrants.
    pub grants: Duration,
    /// Of the controller that counts AllowanceBuckets and decides requests.
    pub buckets: Duration,
    /// Of the controller that writes the condition `Granted`.
    pub claims: Duration,
}

impl Default for QuotaDelays {
    fn default() -> Self {
        let short = Duration::from_millis(50);
        Self {
            grants: short,
            buckets: short,
            claims: short,
        }
    }
}

/// A running quota system. Its controllers end when the value is dropped. Its objects stay.
pub struct QuotaSystem {
    delays: QuotaDelays,
    projects: BTreeMap<String, QuotaProject>,
    /// A controller holds it for reading while it works.
    gate: Arc<RwLock<()>>,
    /// Holds the gate while the controllers are paused.
    paused: Mutex<Option<OwnedRwLockWriteGuard<()>>>,
}

/// The quota system of one project.
struct QuotaProject {
    client: Client,
    _controllers: JoinSet<()>,
}

impl QuotaSystem {
    /// Installs the quota system in these projects and starts its controllers. The clients need all rights. The
    /// projects have no grants yet.
    ///
    /// # Errors
    ///
    /// When an API server refuses an object, or does not enforce the admission in time.
    pub async fn start(projects: &[(&str, Client)], delays: QuotaDelays) -> anyhow::Result<Self> {
        let mut system = Self {
            delays,
            projects: BTreeMap::new(),
            gate: Arc::default(),
            paused: Mutex::default(),
        };
        for (name, client) in projects {
            system.add_project(name, client.clone()).await?;
        }
        Ok(system)
    }

    /// Installs the quota system in another project.
    ///
    /// # Errors
    ///
    /// When the project has it already, or the API server refuses an object or does not enforce the admission in time.
    pub async fn add_project(&mut self, name: &str, client: Client) -> anyhow::Result<()> {
        ensure!(
            !self.projects.contains_key(name),
            "project {name} has a quota system"
        );
        let installed = install::install(&client).await;
        installed.with_context(|| format!("install the quota system in project {name}"))?;
        let project = QuotaProject {
            _controllers: controllers::start(name, &client, self.delays, &self.gate),
            client,
        };
        self.projects.insert(name.to_owned(), project);
        Ok(())
    }

    /// Sets the limit of a project for a resource type. Creates or updates the ResourceGrant for it, and does not wait
    /// for the AllowanceBucket. Other ResourceGrants add to the limit.
    ///
    /// # Errors
    ///
    /// When there is no such project, or its API server refuses the ResourceGrant.
    pub async fn set_limit(
        &self,
        project: &str,
        resource_type: &str,
        amount: i64,
    ) -> anyhow::Result<()> {
        let grant = json!({
            "apiVersion": API_VERSION,
            "kind": "ResourceGrant",
            "metadata": {
                "name": format!("limit-{}", resource_type.replace('/', "-")),
                "namespace": SYSTEM_NAMESPACE,
            },
            "spec": {
                "consumerRef": QuotaReference::project(project),
                "allowances": [{"resourceType": resource_type, "buckets": [{"amount": amount}]}],
            },
        });
        apply(&self.client(project)?, &grant).await.map(drop)
    }

    /// Pauses the controllers of all projects. Waits until they have finished their current work, which takes up to
    /// 30 s if an API server hangs. Nothing is decided until [`resume`](Self::resume).
    pub async fn pause(&self) {
        let mut paused = self.paused.lock().await;
        if paused.is_none() {
            *paused = Some(Arc::clone(&self.gate).write_owned().await);
        }
    }

    /// Undoes [`pause`](Self::pause).
    pub async fn resume(&self) {
        *self.paused.lock().await = None;
    }

    /// Returns all claims in a project, sorted by namespace and name.
    ///
    /// # Errors
    ///
    /// When there is no such project, or its API server does not answer.
    pub async fn claims(&self, project: &str) -> anyhow::Result<Vec<QuotaClaim>> {
        let claims: Api<QuotaClaim> = Api::all(self.client(project)?);
        let listed = claims.list(&ListParams::default()).await;
        Ok(listed.context("list the claims")?.items)
    }

    /// Returns the numbers of the AllowanceBucket of a project for a resource type. `None` if there is no bucket, or no
    /// numbers yet.
    ///
    /// # Errors
    ///
    /// When there is no such project, or its API server does not answer.
    pub async fn bucket(
        &self,
        project: &str,
        resource_type: &str,
    ) -> anyhow::Result<Option<QuotaBucketStatus>> {
        let spec = QuotaBucketSpec {
            consumer_ref: QuotaReference::project(project),
            resource_type: resource_type.to_owned(),
        };
        let buckets = buckets::api(&self.client(project)?);
        let bucket = buckets.get_opt(&spec.bucket_name()).await;
        let bucket = bucket.with_context(|| format!("read the bucket of {spec}"))?;
        Ok(bucket.and_then(|bucket| bucket.status))
    }

    /// Returns what the AllowanceBucket of a project counts as allocated for a resource type. 0 if there is no bucket.
    ///
    /// # Errors
    ///
    /// When there is no such project, or its API server does not answer.
    pub async fn allocated(&self, project: &str, resource_type: &str) -> anyhow::Result<i64> {
        let bucket = self.bucket(project, resource_type).await?;
        Ok(bucket.map_or(0, |bucket| bucket.allocated))
    }

    /// Denies all requests of a claim that are granted, as an administrator can. Milo itself never does this. The
    /// condition `Granted` and the AllowanceBuckets follow.
    ///
    /// # Errors
    ///
    /// When there is no such project or claim, or its API server refuses the change.
    pub async fn revoke(&self, project: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        buckets::revoke(&self.client(project)?, namespace, name).await
    }

    fn client(&self, project: &str) -> anyhow::Result<Client> {
        let found = self.projects.get(project);
        found
            .map(|project| project.client.clone())
            .with_context(|| format!("project {project} has no quota system"))
    }
}
