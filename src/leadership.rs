//! Who may write: the holder of the lease, or, without leader election, this process.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use anyhow::Context;
use multicluster::connect;
use multicluster::lease::{LeaderElector, Leadership, Lost};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::args::{Args, Unset};
use crate::user_agent::user_agent;

/// Name of the lease (compute.md 5.2).
const LEASE: &str = "e98b06c6.datumapis.com";
/// File in which a pod finds its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The leadership that this process begins with.
pub(crate) fn needed(args: &Args) -> Leadership {
    match args.leader_elect {
        true => Leadership::default(),
        false => Leadership::without_election(),
    }
}

/// The lease, if one is needed.
pub(crate) struct Lease {
    candidate: Option<JoinHandle<Result<(), Lost>>>,
    release: CancellationToken,
}

impl Lease {
    /// Waits for the lease, if one is needed, so that the controllers may write.
    pub(crate) fn start(
        args: &Args,
        own: Option<kube::Config>,
        metrics: &multicluster::Metrics,
        leadership: Leadership,
    ) -> anyhow::Result<Self> {
        let release = CancellationToken::new();
        if !args.leader_elect {
            metrics.leads_without_election();
            return Ok(Self {
                candidate: None,
                release,
            });
        }
        let own = own.context("--leader-elect needs the own cluster")?;
        let client = connect::client(own, &user_agent("lease"))?;
        let Unset(namespace) = &args.leader_elect_namespace;
        let namespace = match namespace {
            Some(namespace) => namespace.clone(),
            None => std::fs::read_to_string(Path::new(POD_NAMESPACE))
                .context("--leader-elect needs --leader-elect-namespace outside a pod")?,
        };
        let hostname = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        // Pods can share a host name and a process ID.
        let identity = format!("{hostname}_{:016x}", RandomState::new().hash_one(()));
        let candidate = LeaderElector::new(client, namespace.trim(), LEASE, identity, metrics);
        let candidate = tokio::spawn(candidate.run(leadership, release.clone()));
        Ok(Self {
            candidate: Some(candidate),
            release,
        })
    }

    /// Waits until the lease is lost, for ever if there is none.
    pub(crate) async fn lost(&mut self) -> anyhow::Error {
        match &mut self.candidate {
            Some(candidate) => match candidate.await {
                Ok(Err(lost)) => lost.into(),
                Ok(Ok(())) => anyhow::anyhow!("leader election ended"),
                Err(error) => anyhow::Error::new(error).context("leader election"),
            },
            None => std::future::pending().await,
        }
    }

    /// Gives the lease up, now that nothing writes any more.
    pub(crate) async fn release(self) {
        self.release.cancel();
        if let Some(candidate) = self.candidate
            && let Ok(Err(lost)) = candidate.await
        {
            warn!(%lost, "the lease was lost while stopping");
        }
    }
}
