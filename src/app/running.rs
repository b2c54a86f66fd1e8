//! The wired process. It runs until a signal arrives or a task ends, then it drains.

use std::time::Duration;

use anyhow::{anyhow, bail};
use multicluster::Tasks;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::leadership::LeaderElection;
use crate::serving::Servers;
use crate::signals::Signals;

/// Longest wait for the running reconciliations. An API server that does not answer must not delay the end of the
/// process. Together with [`RELEASE`], this is the default of `--shutdown-delay`, for which the servers run anyway.
const CONTROLLERS_END: Duration = Duration::from_secs(4);
/// Longest wait for the release of the Lease.
const RELEASE: Duration = Duration::from_secs(1);

/// The wired process.
pub(super) struct RunningApp {
    pub(super) controllers: Tasks,
    pub(super) servers: Servers,
    pub(super) election: LeaderElection,
    /// Time for which new connections are still served after the process began to stop.
    pub(super) shutdown_delay: Duration,
}

impl RunningApp {
    /// Waits for a signal, or for the unexpected end of a task.
    ///
    /// # Errors
    ///
    /// If the lease is lost. In this case the process must end at once, because another process may write from now on.
    pub(super) async fn run(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let (controllers_stop, servers_stop) = (self.controllers.stop(), self.servers.tasks.stop());
        tokio::select! {
            name = signals.next() => info!(signal = name, "stopping"),
            () = controllers_stop.cancelled() => {}
            () = servers_stop.cancelled() => {}
            error = self.election.lost() => return Err(error),
        }
        Ok(())
    }

    /// Stops the controllers, releases the lease, and stops the servers. Waits until the requests in flight are
    /// answered. If a controller waits for an API server for longer than [`CONTROLLERS_END`], the lease is not
    /// released: it expires, after the last write has ended.
    ///
    /// # Errors
    ///
    /// If a task failed, if the lease is lost while controllers still write, or if another signal arrives before the
    /// end.
    pub(super) async fn drain(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        self.servers.draining.cancel();
        let delay_over = Instant::now() + self.shutdown_delay;
        self.controllers.stop().cancel();
        let second = |name| anyhow!("a second {name} came before the controllers had stopped");
        let ended = tokio::select! {
            ended = timeout(CONTROLLERS_END, self.controllers.ended()) => ended,
            error = self.election.lost() => return Err(error),
            name = signals.next() => return Err(second(name)),
        };
        if ended.is_ok() {
            let released = tokio::select! {
                released = timeout(RELEASE, self.election.release()) => released,
                name = signals.next() => return Err(second(name)),
            };
            if released.is_err() {
                warn!("the Lease was not released in time; it expires");
            }
        } else {
            self.election.abandon();
        }
        let controllers_failure = self.controllers.failure();
        let servers_failure = self.servers.end(delay_over, signals).await?;
        if let Some(failure) = controllers_failure.or(servers_failure) {
            bail!(failure);
        }
        info!("stopped");
        Ok(())
    }
}
