//! The HTTP handlers of the admission webhooks (docs/reference/admission.md).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use tracing::{debug, warn};

use super::denial::{AdmittedKind, Denial};
use super::field_error::Warnings;
use super::memory::peak_bytes;
use super::project_lookup::ProjectLookup;
use super::review::{self, AdmissionRequest};
use super::validate_deployment::validate_deployment;
use super::validate_workload::validate_workload;
use crate::body::{Arrived, Arriving};
use crate::bounded::bounded;
use crate::capacity::Work;
use crate::context::HandlerContext;
use crate::http_error::HttpError;
use crate::metrics::Webhook;
use crate::panics;
use crate::status::json_response;

/// The facts and names that admission uses besides the requests.
#[derive(Clone)]
pub struct Admission {
    /// Looks up facts about the projects.
    pub projects: Arc<dyn ProjectLookup>,
    /// Names of the users that may change the annotations about referenced data.
    pub resolvers: Arc<[String]>,
}

/// The shared state of the admission handlers.
#[derive(Clone)]
pub(crate) struct AdmissionContext {
    pub(crate) server: HandlerContext,
    pub(crate) admission: Admission,
}

/// Answers the mutating webhook. The answer never changes the Workload. The Go manager does the same.
pub(crate) async fn mutate(
    State(context): State<Arc<AdmissionContext>>,
    request: Request,
) -> Response {
    respond(&context, Webhook::Mutate, request).await
}

/// Answers the validating webhook. The answer contains every error of the Workload.
pub(crate) async fn validate(
    State(context): State<Arc<AdmissionContext>>,
    request: Request,
) -> Response {
    respond(&context, Webhook::Validate, request).await
}

/// Answers the validating webhook of WorkloadDeployments.
pub(crate) async fn validate_deployments(
    State(context): State<Arc<AdmissionContext>>,
    request: Request,
) -> Response {
    respond(&context, Webhook::ValidateDeployment, request).await
}

async fn respond(context: &Arc<AdmissionContext>, webhook: Webhook, request: Request) -> Response {
    let answer = panics::caught(async move {
        match read_and_answer(context, webhook, request).await {
            Ok(body) => json_response(StatusCode::OK, body.into()),
            Err(error) => {
                let server = &context.server;
                server.refuse(&server.metrics.admission.requests, &error)
            }
        }
    });
    answer.await
}

async fn read_and_answer(
    context: &Arc<AdmissionContext>,
    webhook: Webhook,
    request: Request,
) -> Result<Bytes, HttpError> {
    let server = &context.server;
    let permit = server.admit(&server.metrics.admission.requests, &request)?;
    let arriving = Arriving::new(&server.limits, request, permit);
    let arrived = arriving.read(&server.limits).await?;
    if arrived.is_long {
        let context = Arc::clone(context);
        let answer = async move { answer(&context, webhook, arrived).await };
        return Box::pin(server.run_long(answer)).await;
    }
    answer(context, webhook, arrived).await
}

/// Answers a request whose body was read.
async fn answer(
    context: &AdmissionContext,
    webhook: Webhook,
    arrived: Arrived,
) -> Result<Bytes, HttpError> {
    let Arrived {
        body,
        mut permit,
        is_long,
        begin,
        deadline,
    } = arrived;
    let AdmissionContext { server, admission } = context;
    let metrics = &server.metrics.admission;
    // A short body is a slice of the read buffer of the connection. Without the copy, the whole buffer would stay
    // allocated until all access reviews are answered.
    let copy = move || (peak_bytes(&body), Box::<[u8]>::from(body.as_ref()));
    let (peak, body) = permit.run(is_long, copy).await?;
    // The decoded form is held until the access reviews are answered.
    permit.hold_decoded(body.len(), peak).await?;
    // Gives the slot back, because the request needs no CPU while access reviews are in flight. The bytes of the
    // request still count.
    permit.release_slot();
    let mut work = Work {
        permit: &mut permit,
        body: body.len(),
        is_long,
    };
    let request = work
        .run(|| review::decode(&body))
        .await?
        .map_err(|error| HttpError::malformed(&error))?;
    let outcome = match webhook {
        Webhook::Mutate => {
            let checked = request.expect_kind(AdmittedKind::Workload);
            checked.map(|()| Warnings::default())
        }
        Webhook::Validate => {
            validate_workload(&*admission.projects, &request, &mut work, deadline).await?
        }
        Webhook::ValidateDeployment => {
            let check = || validate_deployment(&request, &admission.resolvers);
            work.run(check).await?.map(|()| Warnings::default())
        }
    };
    let label = match &outcome {
        Ok(_) => "allowed",
        Err(denial) if denial.is_requester_error() => "denied",
        Err(_) => "error",
    };
    metrics.answered(webhook, label, begin.elapsed());
    log(server, &request, outcome.as_ref().err());
    permit.answer(review::encode(&request.uid, outcome))
}

/// Logs the outcome. If only the operator can fix the cause of a denial, the log line is a warning, once per message.
fn log(server: &HandlerContext, request: &AdmissionRequest<'_>, denial: Option<&Denial>) {
    let AdmissionRequest {
        uid,
        namespace,
        name,
        operation,
        ..
    } = request;
    let [uid, namespace, name, operation] = [uid, namespace, name, operation].map(|it| &**it);
    // The macros cut the texts off only if the line is logged.
    match denial {
        Some(denial)
            if !denial.is_requester_error()
                && server.log_dedup.is_first(denial.operator_message()) =>
        {
            warn!(
                uid = &*bounded(uid),
                operation = &*bounded(operation),
                namespace = &*bounded(namespace),
                name = &*bounded(name),
                problem = &*bounded(denial.operator_message()),
                "not admitted"
            );
        }
        Some(denial) => debug!(
            uid = &*bounded(uid),
            operation = &*bounded(operation),
            namespace = &*bounded(namespace),
            name = &*bounded(name),
            problem = &*bounded(denial.message()),
            "not admitted"
        ),
        None => debug!(
            uid = &*bounded(uid),
            operation = &*bounded(operation),
            namespace = &*bounded(namespace),
            name = &*bounded(name),
            "admitted"
        ),
    }
}
