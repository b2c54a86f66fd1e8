//! A gate between the front and an API server. A closed gate holds or refuses requests.

use std::sync::Arc;

use futures::stream;
use http::Method;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::watch;

use crate::serve::BoxedBody;
use crate::status_error::StatusError;

/// How the gate handles requests.
#[derive(Clone, Debug, Default)]
enum Behaviour {
    #[default]
    Passes,
    Hangs,
    Refuses(StatusError),
    RefusesWrites(StatusError),
}

/// Lets requests pass, or holds them, or refuses them.
#[derive(Default)]
pub(super) struct Gate(watch::Sender<Behaviour>);

impl Gate {
    pub(super) fn open(&self) {
        self.0.send_replace(Behaviour::Passes);
    }

    pub(super) fn hang(&self) {
        self.0.send_replace(Behaviour::Hangs);
    }

    pub(super) fn refuse(&self, error: StatusError) {
        self.0.send_replace(Behaviour::Refuses(error));
    }

    /// Refuses creates and updates, and passes all other requests.
    pub(super) fn refuse_writes(&self, error: StatusError) {
        self.0.send_replace(Behaviour::RefusesWrites(error));
    }

    /// Waits while the gate hangs.
    ///
    /// # Errors
    ///
    /// The error response, if the gate refuses the request.
    pub(super) async fn pass(&self, method: &Method) -> Result<(), StatusError> {
        let mut behaviour = self.0.subscribe();
        let current = behaviour
            .wait_for(|behaviour| !matches!(behaviour, Behaviour::Hangs))
            .await;
        match current.as_deref() {
            Ok(Behaviour::Refuses(error)) => Err(error.clone()),
            Ok(Behaviour::RefusesWrites(error))
                if [Method::POST, Method::PUT, Method::PATCH].contains(method) =>
            {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }

    /// Pauses the stream of a response body while the gate hangs. Refusal affects only new requests.
    pub(super) fn hold(self: &Arc<Self>, body: kube::client::Body) -> BoxedBody {
        let frames = stream::unfold((body, Arc::clone(self)), |(mut body, gate)| async move {
            let frame = body.frame().await?;
            let _ = gate.pass(&Method::GET).await;
            Some((frame, (body, gate)))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}
