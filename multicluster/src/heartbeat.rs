//! The heartbeat of a process on another API server: a Lease that the process renews while it works, as a kubelet does
//! for its Node. It elects no leader.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::clock;

/// Pause between two renewals (the kubelet's default).
pub const BEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How long a process may send no heartbeat before it counts as silent (the default of kube-controller-manager for
/// Nodes was 40 s for long). The time is enough for three heartbeats that get lost, or for a takeover by another replica.
pub const GRACE: Duration = Duration::from_secs(40);
/// How often a process that does not work looks whether it works, which makes no request. Also the pause after a heartbeat
/// that was not sent.
const LOOK: Duration = Duration::from_secs(1);

/// Renews one Lease, which an administrator has created.
pub struct Heartbeat {
    leases: Api<Lease>,
    name: String,
    /// The last error. It is stored so that the same error is logged only once.
    problem: Option<String>,
}

impl Heartbeat {
    /// Makes the heartbeat of this Lease.
    pub fn new(client: Client, namespace: &str, name: String) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name,
            problem: None,
        }
    }

    /// Renews the Lease while `works` returns true. Never returns.
    pub async fn run(mut self, works: impl Fn() -> bool) {
        loop {
            if !works() {
                sleep(LOOK).await;
                continue;
            }
            let is_sent = self.renew().await;
            sleep(if is_sent { BEAT_INTERVAL } else { LOOK }).await;
        }
    }

    /// Renews the Lease. Returns whether this succeeded. A request that hangs must not delay the next heartbeats.
    async fn renew(&mut self) -> bool {
        // A merge patch does not create a Lease, so the process needs no right to create one.
        let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(clock::now())}}));
        let params = PatchParams::default();
        let sent = timeout(
            BEAT_INTERVAL,
            self.leases.patch(&self.name, &params, &patch),
        )
        .await;
        let problem = match sent {
            Ok(Ok(_)) => {
                if self.problem.take().is_some() {
                    info!(lease = %self.name, "heartbeat sent again");
                }
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", BEAT_INTERVAL.as_secs()),
        };
        if self.problem.as_ref() != Some(&problem) {
            warn!(lease = %self.name, problem, "heartbeat not sent; retrying");
            self.problem = Some(problem);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use apiserver::{ApiServer, Fault};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_renewed_while_the_process_works() {
        let server = ApiServer::new();
        let works = Arc::new(AtomicBool::new(false));
        let heartbeat = Heartbeat::new(server.client(), "ns", "lease".to_owned());
        tokio::spawn(heartbeat.run({
            let works = Arc::clone(&works);
            move || works.load(Ordering::Relaxed)
        }));
        let lease = || server.get::<Lease>("ns", "lease");
        let renewals = || {
            let writes = server.writes();
            server.clear_log();
            writes.len()
        };
        sleep(BEAT_INTERVAL * 3).await;
        assert_eq!(server.requests(), 0, "the process does not work");
        works.store(true, Ordering::Relaxed);
        sleep(BEAT_INTERVAL * 3).await;
        assert_eq!(lease(), None, "it may not create the Lease");
        server.put(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "ns", "name": "lease"}, "spec": {"holderIdentity": "h"},
        }));
        renewals();
        sleep(BEAT_INTERVAL * 3).await;
        assert_eq!(renewals(), 3);
        let spec = lease().unwrap().spec.unwrap();
        assert!(spec.renew_time.is_some());
        assert_eq!(spec.holder_identity.as_deref(), Some("h"));

        server.fail(Fault::refuse(403).of::<Lease>());
        sleep(BEAT_INTERVAL * 3).await;
        server.heal();
        renewals();
        sleep(BEAT_INTERVAL * 3).await;
        assert_eq!(renewals(), 3, "after an error");

        // A request that hangs is given up, and the next heartbeat follows soon.
        server.fail(Fault::hang().of::<Lease>().times(1));
        sleep(BEAT_INTERVAL * 3).await;
        assert!(renewals() >= 2, "after a request that hangs");
        server.fail(Fault::refuse(503).of::<Lease>().times(3));
        let former = lease().unwrap().spec.unwrap().renew_time;
        sleep(BEAT_INTERVAL + LOOK * 4).await;
        let renewed = lease().unwrap().spec.unwrap().renew_time;
        assert_ne!(renewed, former, "soon after an error");
        works.store(false, Ordering::Relaxed);
        sleep(BEAT_INTERVAL).await;
        renewals();
        sleep(BEAT_INTERVAL * 3).await;
        assert_eq!(renewals(), 0);
    }
}
