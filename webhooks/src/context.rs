//! The shared state of all request handlers.

use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::bounded::bounded;
use crate::capacity::{Capacity, RequestPermit};
use crate::http_error::HttpError;
use crate::limits::Limits;
use crate::log_dedup::LogDedup;
use crate::metrics::{Metrics, RequestMetrics};
use crate::overload::Overloaded;
use crate::scripts::Scripts;

/// The shared state of all request handlers.
#[derive(Clone)]
pub(crate) struct HandlerContext {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) capacity: Arc<Capacity>,
    pub(crate) log_dedup: Arc<LogDedup>,
    pub(crate) clock: fn() -> Timestamp,
    /// The runtime for requests with long work. `None` means the runtime of the server.
    pub(crate) long_work: Option<Handle>,
    /// Answers requests about kinds that are not native.
    pub(crate) scripts: Option<Arc<Scripts>>,
}

impl HandlerContext {
    /// Runs the part of a request after its body was read on the runtime for long work. If the future is dropped, this
    /// part ends at its next await.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        part: impl Future<Output = Result<T, HttpError>> + Send + 'static,
    ) -> Result<T, HttpError> {
        let Some(runtime) = &self.long_work else {
            return part.await;
        };
        let task = AbortOnDropHandle::new(runtime.spawn(part));
        task.await
            .unwrap_or_else(|ended| match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The process ends.
                Err(_) => Err(Overloaded.into()),
            })
    }

    /// Takes the capacity for a request.
    pub(crate) fn admit(
        &self,
        metrics: &RequestMetrics,
        request: &Request,
    ) -> Result<RequestPermit, Overloaded> {
        // The server of the connection adds the source address.
        let address = request.extensions().get::<IpAddr>().copied();
        self.capacity.admit(address, metrics.in_flight())
    }

    /// Counts and logs the error, and returns the HTTP answer. Each error message is logged only once.
    pub(crate) fn refuse(&self, metrics: &RequestMetrics, error: &HttpError) -> Response {
        let (reason, problem) = (error.reason(), error.to_string());
        metrics.refused(reason);
        if self.log_dedup.is_first(&problem) {
            let problem = &*bounded(&problem);
            warn!(reason, problem, "{} request refused", metrics.protocol);
        }
        error.response()
    }
}
