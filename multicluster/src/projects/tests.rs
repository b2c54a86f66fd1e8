//! The registry with in-memory API servers, on a paused clock.

mod handlers;
mod kubeconfigs;
mod outages;
mod single;

use std::collections::HashMap;
use std::time::Duration;

use apiserver::objects::{self, location_binding, project};
use apiserver::{ApiServer, Fault};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::{Metrics, Tasks};

/// Time limit of a wait. The clock is paused, so waiting costs nothing.
const WITHIN: Duration = Duration::from_mins(5);

/// A registry, the API server in which it discovers projects, and the API servers of two projects.
struct Bench {
    tasks: Tasks,
    metrics: Metrics,
    discovery: ApiServer,
    planes: HashMap<&'static str, ApiServer>,
    projects: ProjectRegistry,
}

/// Starts a registry with prepared API servers.
fn start(discovery: ApiServer, planes: HashMap<&'static str, ApiServer>) -> Bench {
    start_with(discovery, planes, Metrics::default(), None)
}

fn start_with(
    discovery: ApiServer,
    planes: HashMap<&'static str, ApiServer>,
    metrics: Metrics,
    handler: Option<Arc<dyn ProjectHandler>>,
) -> Bench {
    let tasks = Tasks::default();
    let connect = {
        let planes = planes.clone();
        move |name: &ProjectName| Ok(planes[name.as_str()].client())
    };
    let kind = DiscoveryKind::Project;
    let client = discovery.client();
    let context = RegistryContext {
        tasks: &tasks,
        metrics: &metrics,
    };
    let beginning = ProjectRegistry::of_kind(kind, &context, client, Box::new(connect));
    let projects = beginning.begin(handler);
    Bench {
        tasks,
        metrics,
        discovery,
        planes,
        projects,
    }
}

/// Returns the error for a project that is not discovered.
fn not_discovered(name: &str) -> String {
    format!("there is no project {name}, or it was created a moment ago")
}

/// Returns a LocationBinding that cannot be decoded.
fn broken_binding() -> Value {
    let mut binding = location_binding("broken", "DFW", "True");
    binding["spec"]["topology"] = json!(3);
    binding
}

/// Returns the discovery API server and the API servers of two ready projects: `a` in DFW, `b` in LHR.
fn prepared() -> (ApiServer, HashMap<&'static str, ApiServer>) {
    let discovery = ApiServer::new();
    discovery.put(objects::namespace("default", "of-default"));
    let mut planes = HashMap::new();
    for (name, city) in [("a", "DFW"), ("b", "LHR")] {
        discovery.put(project(name, "1", "True"));
        let plane = ApiServer::new();
        plane.put(location_binding("here", city, "True"));
        planes.insert(name, plane);
    }
    (discovery, planes)
}

async fn bench() -> Bench {
    let (discovery, planes) = prepared();
    let bench = start(discovery, planes);
    bench.until(|bench| bench.cities("b") == "LHR").await;
    bench.until(|bench| bench.cities("a") == "DFW").await;
    bench
}

impl Bench {
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < WITHIN, "{self}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the cities of a project, or the reason why there are none.
    fn cities(&self, name: &str) -> String {
        match self.projects.get(&ProjectName::new(name).unwrap()) {
            Ok(project) => match project.cities_now() {
                Ok((cities, None)) => cities.iter().cloned().collect::<Vec<_>>().join(" "),
                Ok((_, Some(error))) | Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        }
    }

    /// Returns the number of engaged projects, and how many of them fail.
    fn counts(&self) -> (i64, i64) {
        let Metrics {
            projects_engaged,
            projects_failing,
            ..
        } = &self.metrics;
        (projects_engaged.get(), projects_failing.get())
    }
}

impl std::fmt::Display for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (a, b) = (self.cities("a"), self.cities("b"));
        write!(f, "a: {a}; b: {b}; {:?}", self.projects.pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_project_that_never_answers_delays_no_other() {
    let (discovery, planes) = prepared();
    planes["a"].fail(Fault::hang());
    let bench = start(discovery, planes);
    let begin = Instant::now();
    bench.until(|bench| bench.cities("b") == "LHR").await;
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert_eq!(
        bench.cities("a"),
        "LocationBindings of project a have not been listed yet"
    );
    bench.until(|bench| bench.counts() == (2, 1)).await;
}

/// I-5: readiness waits for the caches of admission.
#[tokio::test(start_paused = true)]
async fn a_project_of_the_first_list_holds_readiness_back_for_a_while() {
    let (discovery, planes) = prepared();
    planes["a"].fail(Fault::hang());
    let bench = start(discovery, planes);
    let begin = Instant::now();
    bench.until(|bench| bench.cities("b") == "LHR").await;
    bench.planes["b"].fail(Fault::hang());
    bench.discovery.put(project("b", "2", "True"));
    bench.until(|bench| bench.cities("b") != "LHR").await;
    let waits = "projects: 1 have not been read yet; the log names them";
    assert_eq!(bench.projects.pending(), [waits]);
    bench
        .until(|bench| bench.projects.pending().is_empty())
        .await;
    assert!((9..=10).contains(&begin.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_ready_stays_so() {
    let bench = bench().await;
    assert!(bench.projects.pending().is_empty());
    bench.planes["a"].interrupt();
    bench.until(|bench| bench.cities("a") != "DFW").await;
    assert!(bench.projects.pending().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_forbids_lists_is_listed_rarely_unless_a_caller_asks_for_it() {
    let (discovery, planes) = prepared();
    planes["a"].fail(Fault::refuse(403));
    let bench = start(discovery, planes);
    let refused = "LocationBindings of project a cannot be listed: 403 Forbidden: not now";
    bench.until(|bench| bench.cities("a") == refused).await;
    bench.until(|bench| bench.cities("b") == "LHR").await;
    // A caller requested the cities, so the list was retried immediately.
    sleep(Duration::from_secs(29)).await;
    assert_eq!(bench.planes["a"].requests(), 2);
    sleep(Duration::from_mins(10)).await;
    let requests = bench.planes["a"].requests();
    assert!((10..=22).contains(&requests), "{requests}");
    bench.planes["a"].heal();
    let begin = Instant::now();
    bench.until(|bench| bench.cities("a") == "DFW").await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(bench.counts(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn no_metric_names_a_project() {
    let (discovery, planes) = prepared();
    planes["a"].put(broken_binding());
    let mut registry = Registry::default();
    let bench = start_with(discovery, planes, Metrics::register(&mut registry), None);
    bench.until(|bench| bench.cities("a") == "DFW").await;
    let undecodable = r#"undecodable_objects{plane="projects",kind="LocationBinding"}"#;
    let metrics = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    };
    assert!(
        metrics().contains(&format!("{undecodable} 1\n")),
        "{}",
        metrics()
    );
    assert!(!metrics().contains("project/"), "{}", metrics());
    // When a project is disengaged, its objects are subtracted from the metric.
    bench.discovery.remove::<milo::Project>("", "a");
    let gone = format!("{undecodable} 0\n");
    bench.until(|_| metrics().contains(&gone)).await;
}

#[tokio::test(start_paused = true)]
async fn the_cities_follow_the_bindings() {
    let bench = bench().await;
    let plane = &bench.planes["a"];
    plane.put(location_binding("there", "AMS", "Unknown"));
    bench.until(|bench| bench.cities("a") == "AMS DFW").await;
    plane.put(location_binding("here", "DFW", "False"));
    bench.until(|bench| bench.cities("a") == "AMS").await;
    plane.put(broken_binding());
    plane.put(location_binding("here", "DFW", "True"));
    bench.until(|bench| bench.cities("a") == "AMS DFW").await;
    plane.remove::<api::networking::LocationBinding>("", "there");
    bench.until(|bench| bench.cities("a") == "DFW").await;
    let project = bench.projects.get(&ProjectName::new("a").unwrap()).unwrap();
    let (one, other) = (project.cities().unwrap(), project.cities().unwrap());
    assert!(Arc::ptr_eq(&one, &other), "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_not_ready_is_disengaged_and_comes_back() {
    let bench = bench().await;
    bench.discovery.put(project("a", "1", "False"));
    let lacks = "project a is not ready: Ready is False (Because): It is so.";
    bench.until(|bench| bench.cities("a") == lacks).await;
    bench.until(|bench| bench.planes["a"].watches() == 0).await;
    assert_eq!(bench.counts(), (1, 0));
    bench.discovery.put(project("a", "1", "True"));
    bench.until(|bench| bench.cities("a") == "DFW").await;
    assert!(!bench.tasks.stop().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_gone_is_disengaged() {
    let bench = bench().await;
    bench.discovery.remove::<milo::Project>("", "a");
    let gone = not_discovered("a");
    bench.until(|bench| bench.cities("a") == gone).await;
    bench.until(|bench| bench.planes["a"].watches() == 0).await;
    assert_eq!(
        (bench.cities("b"), bench.counts()),
        ("LHR".to_owned(), (1, 0))
    );
    bench.tasks.stop().cancel();
    assert_eq!(bench.tasks.ended().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_deleted_between_watches_is_disengaged() {
    let bench = bench().await;
    bench.discovery.fail(Fault::refuse(500));
    bench.discovery.interrupt();
    bench.discovery.remove::<milo::Project>("", "a");
    let unknown =
        "project c is not known, and projects cannot be listed: 500 InternalError: not now";
    bench.until(|bench| bench.cities("c") == unknown).await;
    assert_eq!(bench.cities("a"), "DFW", "engaged projects stay engaged");
    bench.discovery.heal();
    bench
        .until(|bench| bench.cities("a") == not_discovered("a"))
        .await;
    assert_eq!(bench.cities("b"), "LHR");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_project_stays_engaged_until_it_is_gone() {
    let bench = bench().await;
    let mut terminating = project("a", "1", "False");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    bench.discovery.put(terminating);
    // The removal of `b` is a later event. Once it has arrived, the event of `a` has arrived too.
    bench.discovery.remove::<milo::Project>("", "b");
    bench
        .until(|bench| bench.cities("b") == not_discovered("b"))
        .await;
    assert_eq!(bench.cities("a"), "DFW");
    bench.discovery.remove::<milo::Project>("", "a");
    bench
        .until(|bench| bench.cities("a") == not_discovered("a"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn another_project_of_the_same_name_is_another_project() {
    let bench = bench().await;
    let name = ProjectName::new("a").unwrap();
    let former = bench.projects.get(&name).unwrap();
    bench.discovery.put(project("a", "1", "True"));
    bench.discovery.put(project("b", "2", "True"));
    let is_other = |bench: &Bench| {
        let project = bench.projects.get(&name);
        project.is_ok_and(|project| !Arc::ptr_eq(&project, &former))
    };
    bench.until(|bench| bench.planes["b"].requests() > 2).await;
    assert!(!is_other(&bench), "an event changes nothing by itself");
    bench.discovery.put(project("a", "2", "True"));
    bench.until(is_other).await;
    bench.until(|bench| bench.planes["a"].watches() == 1).await;
    bench.until(|bench| bench.cities("a") == "DFW").await;
    assert_eq!(bench.counts(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn projects_are_unknown_until_they_have_been_listed() {
    let (discovery, planes) = prepared();
    discovery.fail(Fault::hang());
    let bench = start(discovery, planes);
    sleep(Duration::from_mins(1)).await;
    let error = "projects have not been listed yet";
    assert_eq!(bench.cities("a"), error);
    assert_eq!(bench.projects.pending(), ["projects: not listed yet"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_names_and_undecodable_projects_do_not_affect_others() {
    let (discovery, planes) = prepared();
    discovery.put(project("Not.A.Name", "3", "True"));
    let mut broken = project("c", "4", "True");
    broken["status"]["conditions"] = json!(3);
    discovery.put(broken);
    let bench = start(discovery, planes);
    bench.until(|bench| bench.cities("a") == "DFW").await;
    let error = bench.cities("c");
    let expected = "project c is not ready: Project /c cannot be decoded: ";
    assert!(error.starts_with(expected), "{error}");
    // A ready project stays engaged if its new version cannot be decoded.
    let mut broken = project("a", "1", "True");
    broken["status"]["conditions"] = json!(3);
    bench.discovery.put(broken);
    bench.discovery.remove::<milo::Project>("", "b");
    bench
        .until(|bench| bench.cities("b") == not_discovered("b"))
        .await;
    assert_eq!(bench.cities("a"), "DFW");
}
