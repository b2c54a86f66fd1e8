//! The two webhooks of Workload (compute.md 3.1): decodes what is asked, finds out what the rules need to know, answers.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use api::ProjectName;
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::StatusCode;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::field_errors::LISTED;
use super::identity;
use super::problem::shortened;
use super::projects::{AccessReview, Decision, ProjectError, Projects};
use super::review::{self, Denial, Request, UserInfo};
use super::rules::{Cities, NetworkRefusal, Verdicts};
use super::subject::{Subject, expect_workload};
use crate::Shared;
use crate::body::{self, Refusal};
use crate::metrics::Webhook;
use crate::status::json_response;

/// Access reviews of one request that are under way at a time.
const REVIEWS: usize = 32;
/// Networks that one request asks about: nothing that exists has more, and each costs the project's API server a review.
const ASKED: usize = 256;

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
        Err(refusal) => shared.refuse(&shared.metrics.admission.intake, &refusal),
    }
}

async fn answer(
    (shared, projects): &Admission,
    webhook: Webhook,
    request: HttpRequest,
) -> Result<Vec<u8>, Refusal> {
    let deadline = Instant::now() + shared.capacity.time_for(request.uri());
    let metrics = &shared.metrics.admission;
    let _in_flight = metrics.intake.in_flight();
    let mut part = shared.capacity.place()?;
    // A copy: a short body is a part of the connection's buffer, which would be kept with it while others are asked.
    let body: Box<[u8]> = body::read(&shared.capacity, request, &mut part)
        .await?
        .as_ref()
        .into();
    shared.capacity.grow_decoded(&mut part, body.len())?;
    // While others are asked, this takes no one's place; its bytes still count.
    part.leave_place();
    let begin = Instant::now();
    let request = review::decode(&body).map_err(Refusal::Malformed)?;
    let outcome = match webhook {
        Webhook::Mutate => expect_workload(&request),
        Webhook::Validate => validate_workload(&**projects, &request, deadline).await,
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
        Some(denial) if !denial.is_the_requesters() && shared.problems.is_new(denial.problem()) => {
            let problem = denial.problem();
            warn!(%uid, %operation, %namespace, %name, problem, "not admitted");
        }
        Some(denial) => {
            let problem = denial.message();
            debug!(%uid, %operation, %namespace, %name, problem, "not admitted");
        }
        None => debug!(%uid, %operation, %namespace, %name, "admitted"),
    }
}

async fn validate_workload(
    projects: &dyn Projects,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<(), Denial> {
    let Some(subject) = Subject::read(request)? else {
        return Ok(());
    };
    let (has_new_cities, networks) = (subject.has_new_cities(), subject.new_networks());
    if !has_new_cities && networks.is_empty() {
        return subject.check(&Verdicts::default());
    }
    let project = project(projects, request)?;
    let codes;
    let mut verdicts = Verdicts::default();
    if has_new_cities {
        codes = projects.cities(&project).map_err(|ProjectError(problem)| {
            Denial::unavailable(&request.name, &shortened(&problem))
        })?;
        verdicts.cities = Some(Cities::new(&codes));
    }
    verdicts.networks = reviews(projects, &project, request, &networks, deadline).await;
    let is_unknown = |refusal: &NetworkRefusal| matches!(refusal, NetworkRefusal::NotReviewed(_));
    if verdicts.networks.values().any(is_unknown) {
        // Who does not answer may not have told of a city either. The object is refused as it is.
        verdicts.cities = None;
    }
    subject.check(&verdicts)
}

fn project(projects: &dyn Projects, request: &Request<'_>) -> Result<ProjectName, Denial> {
    match projects.only() {
        Some(project) => Ok(project.clone()),
        None => identity::project(&request.user_info)
            .map_err(|error| Denial::forbidden(&request.name, &error.to_string())),
    }
}

/// Which of the networks must not be used. They are asked about together, until the deadline, or until there are as many
/// refusals as are listed; those beyond [`ASKED`] are refused without.
async fn reviews<'w>(
    projects: &dyn Projects,
    project: &ProjectName,
    request: &Request<'_>,
    networks: &[&'w str],
    deadline: Instant,
) -> BTreeMap<&'w str, NetworkRefusal> {
    let user: Arc<UserInfo> = Arc::new(request.user_info.clone());
    let mut unasked = networks.iter().take(ASKED);
    let reviews = iter::from_fn(|| {
        // None begins that could not be waited for.
        if Instant::now() >= deadline {
            return None;
        }
        let review = AccessReview {
            user: Arc::clone(&user),
            namespace: request.namespace.clone().into_owned(),
            network: (*unasked.next()?).to_owned(),
        };
        Some(timeout_at(deadline, projects.review(project, review)))
    });
    // They come in the order of the networks.
    let mut answers = stream::iter(reviews).buffered(REVIEWS);
    let mut refusals = BTreeMap::new();
    let mut unanswered = networks.iter().copied();
    while refusals.len() < LISTED
        && let Some(answer) = answers.next().await
        && let Some(network) = unanswered.next()
    {
        refusals.extend(refusal(project, answer.ok()).map(|refusal| (network, refusal)));
    }
    refusals.extend(unanswered.map(|network| (network, NetworkRefusal::NotAsked)));
    refusals
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
            Some(NetworkRefusal::Denied(match shortened(&reason).as_ref() {
                "" => denied.to_owned(),
                reason => format!("{denied}: {reason}"),
            }))
        }
        Some(Err(ProjectError(problem))) => Some(NetworkRefusal::NotReviewed(format!(
            "it is not known whether the network may be used: {}; try again",
            shortened(&problem)
        ))),
        None => Some(NetworkRefusal::NotReviewed(format!(
            "it is not known whether the network may be used: the API server of project {project} did not answer in \
             time; try again"
        ))),
    }
}
