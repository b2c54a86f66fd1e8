//! What lies between the front and an API server, and can be shut.

use std::sync::Arc;

use futures::stream;
use http::Method;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::watch;

use crate::refusal::Refusal;
use crate::serve::Body;

/// How the front treats what is for an API server.
#[derive(Clone, Debug, Default)]
enum Behaviour {
    #[default]
    Passes,
    Hangs,
    Refuses(Refusal),
    RefusesWrites(Refusal),
}

/// Lets requests pass, holds or refuses them.
#[derive(Default)]
pub(super) struct Gate(watch::Sender<Behaviour>);

impl Gate {
    pub(super) fn open(&self) {
        self.0.send_replace(Behaviour::Passes);
    }

    pub(super) fn hang(&self) {
        self.0.send_replace(Behaviour::Hangs);
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        self.0.send_replace(Behaviour::Refuses(refusal));
    }

    /// Refuses to create and to update, and lets everything else pass.
    pub(super) fn refuse_writes(&self, refusal: Refusal) {
        self.0.send_replace(Behaviour::RefusesWrites(refusal));
    }

    /// Waits for as long as the gate hangs, and says then whether a request is refused.
    pub(super) async fn pass(&self, method: &Method) -> Result<(), Refusal> {
        let mut behaviour = self.0.subscribe();
        let current = behaviour
            .wait_for(|behaviour| !matches!(behaviour, Behaviour::Hangs))
            .await;
        match current.as_deref() {
            Ok(Behaviour::Refuses(refusal)) => Err(refusal.clone()),
            Ok(Behaviour::RefusesWrites(refusal))
                if [Method::POST, Method::PUT, Method::PATCH].contains(method) =>
            {
                Err(refusal.clone())
            }
            _ => Ok(()),
        }
    }

    /// The same body, which does not go on while the gate hangs. What is refused is new requests: it ends no answer.
    pub(super) fn hold(self: &Arc<Self>, body: kube::client::Body) -> Body {
        let frames = stream::unfold((body, Arc::clone(self)), |(mut body, gate)| async move {
            let frame = body.frame().await?;
            let _ = gate.pass(&Method::GET).await;
            Some((frame, (body, gate)))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}
