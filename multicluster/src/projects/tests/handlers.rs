//! Handlers of projects.

use std::sync::Mutex;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};

use super::*;

/// A handler that records the start and the end of its run for each project.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Noting {
    fn note(&self, what: &str, project: &ProjectName) {
        let note = format!("{project} {what}");
        self.0.lock().unwrap().push(note);
    }

    fn noted(&self) -> Vec<String> {
        let mut noted = self.0.lock().unwrap().clone();
        noted.sort();
        noted
    }
}

/// Records the end of a run when it is dropped.
struct Running(Noting, Arc<EngagedProject>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.note("has ended", self.1.name());
    }
}

impl ProjectHandler for Noting {
    fn run(&self, project: Arc<EngagedProject>) -> BoxFuture<'static, ()> {
        let noting = self.clone();
        async move {
            noting.note("runs", project.name());
            let _running = Running(noting, project);
            pending::<()>().await;
        }
        .boxed()
    }

    fn on_removed(&self, name: &ProjectName) {
        self.note("is removed", name);
    }
}

fn bench(noting: &Noting, fault: Option<Fault>) -> Bench {
    let (discovery, planes) = prepared();
    if let Some(fault) = fault {
        planes["a"].fail(fault);
    }
    let handler = Arc::new(noting.clone());
    start_with(discovery, planes, Metrics::default(), Some(handler))
}

/// I-25: everything that runs for a project ends when the project is disengaged.
#[tokio::test(start_paused = true)]
async fn a_handler_runs_while_its_project_is_engaged() {
    let noting = Noting::default();
    let bench = bench(&noting, None);
    let attended = ["a runs", "b runs"];
    bench.until(|_| noting.noted() == attended).await;
    let former = bench.projects.get(&ProjectName::new("a").unwrap()).unwrap();
    bench.discovery.put(project("a", "1", "False"));
    let left = ["a has ended", "a runs", "b runs"];
    bench.until(|_| noting.noted() == left).await;
    bench.until(|_| Arc::strong_count(&former) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_project_is_gone_when_the_root_that_had_it_says_so() {
    let noting = Noting::default();
    let bench = bench(&noting, None);
    let is_gone_by = |name, root| {
        let (projects, name) = (bench.projects.clone(), ProjectName::new(name).unwrap());
        async move {
            let is_gone = projects.is_gone(&name, root).await;
            is_gone.map_err(|error| error.to_string())
        }
    };
    let is_gone = |name| is_gone_by(name, "of-default");
    let listing = Err("projects have not been listed yet".to_owned());
    assert_eq!(is_gone("a").await, listing);
    bench.until(|_| noting.noted().len() == 2).await;
    let root_uid = bench.projects.root_uid();
    assert_eq!(root_uid.as_deref(), Some("of-default"));
    assert_eq!(is_gone("a").await, Ok(false));
    bench.discovery.put(project("a", "1", "False"));
    bench.until(|_| noting.noted().len() == 3).await;
    assert_eq!(is_gone("a").await, Ok(false));
    bench.discovery.remove::<milo::Project>("", "a");
    let left = ["a has ended", "a is removed", "a runs", "b runs"];
    bench.until(|_| noting.noted() == left).await;
    assert_eq!(is_gone("a").await, Ok(true));
    assert_eq!(is_gone_by("a", "of-another").await, Ok(false));
    // A project may have been created after the list.
    bench.discovery.put(project("a", "2", "True"));
    assert_eq!(is_gone("a").await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_root_that_fails_is_not_asked_again_for_a_while() {
    let noting = Noting::default();
    let bench = bench(&noting, None);
    bench.until(|_| noting.noted().len() == 2).await;
    let name = ProjectName::new("c").unwrap();
    for (fault, problem) in [
        (Fault::refuse(403), "not now"),
        (Fault::hang(), "it does not answer"),
    ] {
        bench.discovery.fail(fault);
        for _ in 0..10 {
            let before = bench.discovery.requests();
            let error = bench.projects.is_gone(&name, "of-default").await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            let asked = bench.discovery.requests() - before;
            assert!(asked <= 1);
        }
        let before = bench.discovery.requests();
        let again = bench.projects.is_gone(&name, "of-default").await;
        assert!(again.is_err());
        assert_eq!(bench.discovery.requests(), before, "it is asked again");
        bench.discovery.heal();
        sleep(Duration::from_secs(61)).await;
        assert_eq!(bench.projects.is_gone(&name, "of-default").await, Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_waits_a_minute_for_a_project_that_does_not_answer() {
    let noting = Noting::default();
    let bench = bench(&noting, Some(Fault::hang()));
    let begin = Instant::now();
    bench.until(|_| noting.noted() == ["b runs"]).await;
    assert!(begin.elapsed() < Duration::from_secs(1));
    bench.until(|_| noting.noted().len() == 2).await;
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn waiters_for_cities_are_woken_by_new_and_by_lost_cities() {
    let bench = bench(&Noting::default(), None);
    bench.until(|bench| bench.cities("a") == "DFW").await;
    let project = bench.projects.get(&ProjectName::new("a").unwrap()).unwrap();
    let change = project.cities_change();
    bench.planes["a"].put(location_binding("there", "ORD", "True"));
    change.await;
    assert_eq!(bench.cities("a"), "DFW ORD");
    let change = project.cities_change();
    bench.planes["a"].fail(Fault::refuse(500));
    bench.planes["a"].interrupt();
    change.await;
    assert!(project.cities().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_registry_without_handler_does_not_read_the_roots_namespace() {
    let bench = super::bench().await;
    sleep(Duration::from_mins(5)).await;
    let mut requests = bench.discovery.log().into_iter();
    assert!(!requests.any(|request| request.target.contains("namespaces")));
    assert_eq!(bench.projects.root_uid(), None);
}
