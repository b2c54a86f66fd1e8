//! Leader election. Only the holder of the Lease writes. Without election, this process may always write.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use anyhow::Context;
use multicluster::connect;
use multicluster::lease::{LeaderElector, Leadership, Lost};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::args::{Args, OptionalFlag};
use crate::user_agent::user_agent;

/// Name of the Lease. The Go manager uses the same name, so old and new replicas never write at the same time.
const LEASE: &str = "e98b06c6.datumapis.com";
/// The file that contains the namespace of the pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the initial leadership. With leader election this process may not write yet. Without it, the process may
/// always write.
pub(crate) fn initial(args: &Args) -> Leadership {
    match args.leader_elect {
        true => Leadership::default(),
        false => Leadership::without_election(),
    }
}

/// The task that acquires and renews the Lease. Without election there is no task.
pub(crate) struct LeaderElection {
    elector: Option<JoinHandle<Result<(), Lost>>>,
    release: CancellationToken,
}

impl LeaderElection {
    /// Starts the election if it is enabled. When this process holds the Lease, it gains `leadership`.
    ///
    /// # Errors
    ///
    /// If the own cluster or the namespace of the Lease is unknown, or if no client can be made.
    pub(crate) fn start(
        args: &Args,
        own: Option<connect::ClusterConfig>,
        metrics: &multicluster::Metrics,
        leadership: Leadership,
    ) -> anyhow::Result<Self> {
        let release = CancellationToken::new();
        if !args.leader_elect {
            metrics.leads_without_election();
            return Ok(Self {
                elector: None,
                release,
            });
        }
        let own = own.context("--leader-elect needs the own cluster")?;
        let client = connect::client(own, &user_agent("lease"))?;
        let OptionalFlag(namespace) = &args.leader_elect_namespace;
        let namespace = match namespace {
            Some(namespace) => namespace.clone(),
            None => std::fs::read_to_string(Path::new(POD_NAMESPACE))
                .context("--leader-elect needs --leader-elect-namespace outside a pod")?,
        };
        let hostname = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        // The host name alone is not unique, because two pods on the host network have the same host name.
        let identity = format!("{hostname}_{:016x}", RandomState::new().hash_one(()));
        let elector = LeaderElector::new(client, namespace.trim(), LEASE, identity, metrics);
        let elector = tokio::spawn(elector.run(leadership, release.clone()));
        Ok(Self {
            elector: Some(elector),
            release,
        })
    }

    /// Waits until the Lease is lost, and returns the reason. Without election, this method never returns.
    pub(crate) async fn lost(&mut self) -> anyhow::Error {
        match &mut self.elector {
            Some(elector) => match elector.await {
                Ok(Err(lost)) => lost.into(),
                Ok(Ok(())) => anyhow::anyhow!("leader election ended"),
                Err(error) => anyhow::Error::new(error).context("leader election"),
            },
            None => std::future::pending().await,
        }
    }

    /// Stops renewing the Lease, and does not release it. It expires when the running writes have ended.
    pub(crate) fn abandon(&self) {
        if let Some(elector) = &self.elector {
            elector.abort();
            warn!(
                "a controller still waits for an API server; the Lease is not released and expires"
            );
        }
    }

    /// Releases the Lease. Call it only after the last write.
    pub(crate) async fn release(self) {
        self.release.cancel();
        if let Some(elector) = self.elector
            && let Ok(Err(lost)) = elector.await
        {
            warn!(%lost, "the Lease was lost while stopping");
        }
    }
}
