//! The two webhooks of Workload (compute.md 3.1): decodes what is asked, finds out what the rules need to know, answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ProjectName;
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::field_errors::{FieldError, FieldErrors};
use super::identity;
use super::projects::{AccessReview, Decision, ProjectError, Projects};
use super::review::{self, Denial, Request, UserInfo};
use super::rules::{self, Cities, NetworkRefusal, Verdicts};
use super::workload::WorkloadSpec;
use crate::Shared;
use crate::body::{self, Refusal};
use crate::metrics::Webhook;
use crate::status::json_response;

/// Access reviews of one request that are under way at a time.
const REVIEWS: usize = 32;

/// The projects beside what all handlers share.
pub(crate) type Admission = (Shared, Arc<dyn Projects>);

/// Changes nothing, as the baseline does not.
pub(crate) async fn mutate(State(admission): State<Admission>, request: HttpRequest) -> Response {
    respond(&admission, Webhook::Mutate, request).await
}

/// Says everything that is wrong with a Workload.
pub(crate) async fn validate(State(admission): State<Admission>, request: HttpRequest) -> Response {
    respond(&admission, Webhook::Validate, request).await
}

async fn respond(admission: &Admission, webhook: Webhook, request: HttpRequest) -> Response {
    let (shared, _) = admission;
    match answer(admission, webhook, request).await {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(refusal) => {
            shared.metrics.admission.refused(refusal.reason());
            let message = refusal.message();
            if shared.problems.is_new(&message) {
                warn!(reason = refusal.reason(), problem = %message, "admission request refused");
            }
            refusal.response(&message)
        }
    }
}

async fn answer(
    (shared, projects): &Admission,
    webhook: Webhook,
    request: HttpRequest,
) -> Result<Vec<u8>, Refusal> {
    let deadline = Instant::now() + shared.capacity.time_for(request.uri());
    let metrics = &shared.metrics.admission;
    let _in_flight = metrics.in_flight();
    let mut part = shared.capacity.place()?;
    let body = body::read(&shared.capacity, request, &mut part).await?;
    // While others are asked, this takes no one's place; its bytes still count.
    part.leave_place();
    let begin = Instant::now();
    let request = review::decode(&body).map_err(Refusal::Malformed)?;
    let outcome = match (expect_workload(&request), webhook) {
        (Ok(()), Webhook::Validate) => validate_workload(&**projects, &request, deadline).await,
        (expected, _) => expected,
    };
    let label = match &outcome {
        Ok(()) => "allowed",
        Err(denial) if denial.is_the_requesters() => "denied",
        Err(_) => "error",
    };
    metrics.answered(webhook, label, begin.elapsed());
    tell(shared, &request, outcome.as_ref().err());
    Ok(review::encode(&request.uid, &outcome))
}

/// Reports what keeps users from their work although they did nothing wrong, once.
fn tell(shared: &Shared, request: &Request<'_>, denial: Option<&Denial>) {
    let Request {
        uid,
        namespace,
        name,
        operation,
        ..
    } = request;
    match denial {
        Some(denial) if !denial.is_the_requesters() && shared.problems.is_new(denial.message()) => {
            let problem = denial.message();
            warn!(%uid, %operation, %namespace, %name, problem, "not admitted");
        }
        Some(denial) => {
            let problem = denial.message();
            debug!(%uid, %operation, %namespace, %name, problem, "not admitted");
        }
        None => debug!(%uid, %operation, %namespace, %name, "admitted"),
    }
}

fn expect_workload(request: &Request<'_>) -> Result<(), Denial> {
    let kind = &request.kind;
    let is_workload = kind.group == api::GROUP && kind.kind == "Workload";
    match is_workload && kind.version == api::VERSION {
        true => Ok(()),
        false => Err(Denial::bad_request(
            &request.name,
            format!(
                "request.kind: {}/{} {} is not admitted here, Workload of {} is",
                kind.group,
                kind.version,
                kind.kind,
                api::API_VERSION
            ),
        )),
    }
}

/// The parts of an object by which it is decided whether it is looked at.
#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<IgnoredAny>,
}

async fn validate_workload(
    projects: &dyn Projects,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<(), Denial> {
    let is_update = request.operation == "UPDATE";
    if !(is_update || request.operation == "CREATE") || !request.sub_resource.is_empty() {
        return Ok(());
    }
    let name = request.name.as_ref();
    let object: Object<'_> = read(name, "", request.object)?;
    let former: Object<'_> = match is_update {
        true => read(name, "", request.old_object)?,
        false => Object::default(),
    };
    // Finalizers must be able to go, whatever the object is like.
    if object.metadata.deletion_timestamp.is_some()
        || is_update && object.spec.map(RawValue::get) == former.spec.map(RawValue::get)
    {
        return Ok(());
    }
    let workload: WorkloadSpec<'_> = read(name, "spec", object.spec)?;
    // What could not be read before has no errors that are known.
    let former: Option<WorkloadSpec<'_>> = match is_update {
        true => read(name, "spec", former.spec).ok(),
        false => None,
    };
    let codes;
    let mut verdicts = Verdicts::default();
    if rules::has_new_cities(&workload, former.as_ref()) {
        codes = projects
            .cities(&project(projects, request)?)
            .map_err(|error| match error {
                ProjectError::Unknown(problem) => Denial::forbidden(name, &problem),
                ProjectError::Unavailable(problem) => Denial::unavailable(name, &problem),
            })?;
        verdicts.cities = Some(Cities::new(&codes));
    }
    let networks = rules::new_networks(&workload, former.as_ref());
    if !networks.is_empty() {
        let project = project(projects, request)?;
        verdicts.networks = reviews(projects, &project, request, &networks, deadline).await;
    }
    let errors = rules::errors(&workload, former.as_ref(), &verdicts);
    match errors.listed.is_empty() {
        true => Ok(()),
        false => Err(Denial::invalid(name, errors)),
    }
}

fn project(projects: &dyn Projects, request: &Request<'_>) -> Result<ProjectName, Denial> {
    match projects.only() {
        Some(project) => Ok(project.clone()),
        None => identity::project(&request.user_info)
            .map_err(|error| Denial::forbidden(&request.name, &error.to_string())),
    }
}

/// Reads a part of the object; `path` is where it stands. What is absent is empty.
fn read<'a, T: Deserialize<'a> + Default>(
    name: &str,
    path: &str,
    text: Option<&'a RawValue>,
) -> Result<T, Denial> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    serde_json::from_str(text.get()).or_else(|_| {
        // Once more, keeping track of the path: that costs time, which only an error is worth.
        let text = &mut serde_json::Deserializer::from_str(text.get());
        serde_path_to_error::deserialize(text).map_err(|error| {
            let field = match (path, error.path().to_string().as_str()) {
                ("", field) => field.to_owned(),
                (path, ".") => path.to_owned(),
                (path, field) => format!("{path}.{field}"),
            };
            // The place in a text that no one sees helps no one.
            let problem = error.inner().to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            let error = FieldError {
                field,
                reason: "FieldValueTypeInvalid",
                message: format!("Invalid value: {problem}"),
            };
            let errors = FieldErrors {
                listed: vec![error],
                more: 0,
            };
            Denial::invalid(name, errors)
        })
    })
}

/// Which of the networks must not be used. All are asked for together, until the deadline.
async fn reviews<'w>(
    projects: &dyn Projects,
    project: &ProjectName,
    request: &Request<'_>,
    networks: &[&'w str],
    deadline: Instant,
) -> BTreeMap<&'w str, NetworkRefusal> {
    let user: Arc<UserInfo> = Arc::new(request.user_info.clone());
    let reviews = networks.iter().map(|network| {
        let review = AccessReview {
            user: Arc::clone(&user),
            namespace: request.namespace.clone().into_owned(),
            network: (*network).to_owned(),
        };
        timeout_at(deadline, projects.review(project, review))
    });
    // In the order of the networks.
    let reviews = stream::iter(reviews.collect::<Vec<_>>()).buffered(REVIEWS);
    let answers: Vec<_> = reviews.collect().await;
    let refusals = answers
        .into_iter()
        .map(|answer| refusal(project, answer.ok()));
    let refused = |(network, refusal): (&&'w str, Option<NetworkRefusal>)| {
        refusal.map(|refusal| (*network, refusal))
    };
    networks.iter().zip(refusals).filter_map(refused).collect()
}

/// What an answer means; without one the time was over.
fn refusal(
    project: &ProjectName,
    answer: Option<Result<Decision, ProjectError>>,
) -> Option<NetworkRefusal> {
    match answer {
        Some(Ok(Decision { allowed: true, .. })) => None,
        Some(Ok(Decision { reason, .. })) => {
            let denied = "permission to use the network was denied";
            Some(NetworkRefusal::Denied(match reason.as_str() {
                "" => denied.to_owned(),
                reason => format!("{denied}: {reason}"),
            }))
        }
        Some(Err(error)) => Some(NetworkRefusal::NotReviewed(format!(
            "it is not known whether the network may be used: {error}; try again"
        ))),
        None => Some(NetworkRefusal::NotReviewed(format!(
            "it is not known whether the network may be used: the API server of project {project} did not answer in \
             time; try again"
        ))),
    }
}
