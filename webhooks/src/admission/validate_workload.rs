//! Validates a change of a Workload. Collects the external facts that the change needs, then checks the rules.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use api::ProjectName;
use futures::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::access_review::{AccessReview, Requester, UsedKind};
use super::denial::{AdmittedKind, Denial};
use super::external_facts::{AvailableCities, ExternalFacts, Refusal, Refusals, UsedObject};
use super::field_error::{LISTED_MAX, Warnings};
use super::memory::concurrent_reviews;
use super::project_claims;
use super::project_lookup::{AccessDecision, ProjectLookup, ProjectLookupError};
use super::review::AdmissionRequest;
use super::workload_change::WorkloadChange;
use crate::bounded::bounded_message;
use crate::capacity::Work;
use crate::http_error::HttpError;

/// Maximum number of access reviews of one request. No existing Workload uses more networks, ConfigMaps and Secrets.
/// Each access review costs the project's API server one request.
const REVIEWS_MAX: usize = 256;

/// Validates the Workload of a request. Returns warnings about errors that an update keeps. If an update needs no new
/// facts, the project of the request is not needed and may be unknown.
///
/// # Errors
///
/// [`HttpError::Overloaded`] if no CPU gets free for a large Workload. Also the errors of `RequestPermit::hold_for`. The
/// inner error is a [`Denial`] with all errors, or with the reason why the facts are unknown.
pub(crate) async fn validate_workload(
    projects: &dyn ProjectLookup,
    request: &AdmissionRequest<'_>,
    work: &mut Work<'_>,
    deadline: Instant,
) -> Result<Result<Warnings, Denial>, HttpError> {
    // The work is done in few parts, because each part of a large Workload waits for a CPU.
    let change = match work.run(|| Checked::new(request)).await? {
        Checked::Done(checked) => return Ok(checked),
        Checked::NeedsFacts(change) => change,
    };
    let project = match project_of(projects, request) {
        Ok(project) => project,
        Err(denial) => return Ok(Err(denial)),
    };
    let needs = work.run(|| {
        let objects = change.newly_used();
        let requester = (!objects.is_empty()).then(|| Requester::new(&request.user_info));
        (change.has_new_cities(), objects, requester)
    });
    let (has_new_cities, objects, requester) = needs.await?;
    let codes;
    let mut facts = ExternalFacts::default();
    if has_new_cities {
        let known = || known_cities(projects, &project, request, &change);
        codes = match work.run(known).await? {
            Ok(codes) => codes,
            Err(denial) => return Ok(Err(denial)),
        };
        facts.cities = Some(AvailableCities::new(&codes));
    }
    let is_reviewed = requester.is_some();
    if let Some(requester) = requester {
        let _share = work
            .permit
            .hold_for(project.as_str(), &requester.username)?;
        let names = objects.iter().map(|object| object.name);
        let concurrent = concurrent_reviews(work.body, requester.review_bytes(names));
        let reviews = Reviews {
            requester: Arc::new(requester),
            namespace: &request.namespace,
            concurrent,
            deadline,
        };
        facts.refusals = reviews.of(projects, &project, &objects).await;
    }
    let is_unknown = |refusal: &Refusal| matches!(refusal, Refusal::NotReviewed(_));
    if facts.refusals.values().any(is_unknown) {
        // The project's API server does not answer access reviews, so the known LocationBindings may be outdated too.
        // The request is denied in any case. The answer therefore contains no errors about cities.
        facts.cities = None;
    }
    let checked = match is_reviewed {
        true => work.run_last(deadline, || change.check(&facts)).await,
        false => work.run(|| change.check(&facts)).await,
    };
    Ok(checked?)
}

/// A change after the first part of its validation.
enum Checked<'a> {
    /// The change needs no external facts.
    Done(Result<Warnings, Denial>),
    /// The change has new cities, or uses objects that the former Workload did not use.
    NeedsFacts(Box<WorkloadChange<'a>>),
}

impl<'a> Checked<'a> {
    fn new(request: &'a AdmissionRequest<'_>) -> Self {
        match WorkloadChange::decode(request) {
            Ok(None) => Self::Done(Ok(Warnings::default())),
            Err(denial) => Self::Done(Err(denial)),
            Ok(Some(change)) if change.has_new_cities() || !change.newly_used().is_empty() => {
                Self::NeedsFacts(Box::new(change))
            }
            Ok(Some(change)) => Self::Done(change.check(&ExternalFacts::default())),
        }
    }
}

/// Returns the codes of the cities that the project offers. The codes may be out of date if they have all new cities of
/// the Workload.
fn known_cities(
    projects: &dyn ProjectLookup,
    project: &ProjectName,
    request: &AdmissionRequest<'_>,
    change: &WorkloadChange<'_>,
) -> Result<Arc<BTreeSet<String>>, Denial> {
    let known = projects
        .cities(project)
        .map_err(|ProjectLookupError(problem)| unavailable(request, &problem))?;
    // A city that is missing in codes that may be out of date may be offered meanwhile.
    if let Some(problem) = &known.outdated
        && change.is_any_new_city(|city| !known.codes.contains(city))
    {
        return Err(unavailable(request, problem));
    }
    Ok(known.codes)
}

/// Returns the project of a request, if this process serves the project.
fn project_of(
    projects: &dyn ProjectLookup,
    request: &AdmissionRequest<'_>,
) -> Result<ProjectName, Denial> {
    let project = match projects.only() {
        Some(project) => project.clone(),
        None => project_claims::project(&request.user_info).map_err(|error| {
            Denial::forbidden(AdmittedKind::Workload, &request.name, &error.to_string())
        })?,
    };
    projects
        .check_served(&project)
        .map_err(|ProjectLookupError(problem)| unavailable(request, &problem))?;
    Ok(project)
}

/// Returns a denial: a fact about the project is currently unknown.
fn unavailable(request: &AdmissionRequest<'_>, problem: &str) -> Denial {
    Denial::unavailable(&request.name, &bounded_message(problem))
}

/// The access reviews of one request.
struct Reviews<'r> {
    requester: Arc<Requester>,
    namespace: &'r str,
    /// Maximum number of access reviews in flight.
    concurrent: usize,
    deadline: Instant,
}

impl Reviews<'_> {
    /// Returns the objects that must not be used. The access reviews run concurrently. They end at the deadline, or when
    /// the number of refusals reaches the number of errors in an answer. Objects after the first [`REVIEWS_MAX`] objects
    /// are refused without an access review.
    async fn of<'w>(
        self,
        projects: &dyn ProjectLookup,
        project: &ProjectName,
        objects: &[UsedObject<'w>],
    ) -> Refusals<'w> {
        let mut unasked = objects.iter().take(REVIEWS_MAX);
        let reviews = iter::from_fn(|| {
            // No access review starts after the deadline.
            if Instant::now() >= self.deadline {
                return None;
            }
            let UsedObject { kind, name } = *unasked.next()?;
            let review = AccessReview {
                requester: Arc::clone(&self.requester),
                namespace: self.namespace.to_owned(),
                kind,
                name: name.to_owned(),
            };
            Some(timeout_at(self.deadline, projects.review(project, review)))
        });
        // `buffered` returns the decisions in the order of the objects.
        let mut decisions = stream::iter(reviews).buffered(self.concurrent);
        let mut refusals = Refusals::new();
        let mut undecided = objects.iter().copied();
        while refusals.len() < LISTED_MAX
            && let Some(decision) = decisions.next().await
            && let Some(object) = undecided.next()
        {
            let refusal = refusal(project, object.kind, decision.ok());
            refusals.extend(refusal.map(|refusal| (object, refusal)));
        }
        let is_late = refusals.len() < LISTED_MAX && Instant::now() >= self.deadline;
        let late = match is_late {
            true => REVIEWS_MAX.saturating_sub(objects.len() - undecided.len()),
            false => 0,
        };
        refusals.extend(undecided.enumerate().filter_map(|(index, object)| {
            let refusal = match index < late {
                true => refusal(project, object.kind, None)?,
                false => Refusal::NotAsked,
            };
            Some((object, refusal))
        }));
        refusals
    }
}

/// Converts a decision into a refusal. A decision of `None` means that no decision arrived before the deadline.
fn refusal(
    project: &ProjectName,
    kind: UsedKind,
    decision: Option<Result<AccessDecision, ProjectLookupError>>,
) -> Option<Refusal> {
    let (what, used, remedy) = match kind {
        UsedKind::Network => ("network", "used", ""),
        UsedKind::Data(kind) => {
            let remedy = "; ask for this right, or remove the reference";
            (kind.as_str(), "read", remedy)
        }
    };
    let unknown = format!("it is not known whether the {what} may be {used}");
    match decision {
        Some(Ok(AccessDecision { allowed: true, .. })) => None,
        Some(Ok(AccessDecision { reason, .. })) => {
            let denied = format!("permission to {} the {what} was denied", kind.verb());
            Some(Refusal::Denied(match bounded_message(&reason).as_ref() {
                "" => format!("{denied}{remedy}"),
                reason => format!("{denied}: {reason}{remedy}"),
            }))
        }
        Some(Err(ProjectLookupError(problem))) => Some(Refusal::NotReviewed(format!(
            "{unknown}: {}; try again",
            bounded_message(&problem)
        ))),
        None => Some(Refusal::NotReviewed(format!(
            "{unknown}: the API server of project {project} did not answer in time; try again"
        ))),
    }
}
