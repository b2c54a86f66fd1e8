//! A client whose API server, or whose credentials, can be replaced while it is in use.

use std::sync::{Arc, PoisonError, RwLock};

use api::DEFAULT_NAMESPACE;
use http::Request;
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// Sends each request with the latest client. A request that has begun, such as a watch, ends with the client with which
/// it began.
pub(crate) struct ReplaceableClient(Arc<RwLock<Client>>);

impl ReplaceableClient {
    /// Uses this client.
    pub(crate) fn new(client: Client) -> Self {
        Self(Arc::new(RwLock::new(client)))
    }

    /// Uses this client for the requests that begin after this call.
    pub(crate) fn replace(&self, client: Client) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Returns a client that always uses the latest client.
    pub(crate) fn client(&self) -> Client {
        let latest = Arc::clone(&self.0);
        let service = service_fn(move |request: Request<Body>| {
            let client = latest.read().unwrap_or_else(PoisonError::into_inner);
            let client = client.clone();
            async move { client.send(request).await.map_err(BoxError::from) }
        });
        Client::new(service, DEFAULT_NAMESPACE)
    }
}
