//! The registry with a directory of kubeconfigs. The contents of a file are the name of an API server in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tempfile::TempDir;

use super::*;
use crate::projects::kubeconfigs::{self, Connect, Connected};

/// A handler that does nothing but record which projects were removed.
#[derive(Default)]
struct Idle(Mutex<Vec<String>>);

impl ProjectHandler for Idle {
    fn run(&self, _: Arc<EngagedProject>) -> BoxFuture<'static, ()> {
        pending().boxed()
    }

    fn on_removed(&self, name: &ProjectName) {
        self.0.lock().unwrap().push(name.to_string());
    }
}

/// A registry with a directory.
struct Directory {
    bench: Bench,
    root: TempDir,
    handler: Arc<Idle>,
    connections: Arc<Mutex<usize>>,
}

/// Returns an API server whose UID is `uid`, with a LocationBinding of this city.
fn server(uid: &str, city: &str) -> ApiServer {
    let server = ApiServer::new();
    server.put(objects::namespace("default", uid));
    server.put(location_binding("here", city, "True"));
    server
}

impl Directory {
    /// Starts with these files, and with API servers by the contents of the files that lead to them.
    fn start(files: &[(&str, &str)], servers: &[(&'static str, &ApiServer)]) -> Self {
        Self::start_for(files, servers, true)
    }

    fn start_for(
        files: &[(&str, &str)],
        servers: &[(&'static str, &ApiServer)],
        has_controllers: bool,
    ) -> Self {
        let root = TempDir::new().unwrap();
        let directory = root.path().join("projects");
        fs::create_dir(&directory).unwrap();
        for (name, contents) in files {
            fs::write(directory.join(name), contents).unwrap();
        }
        let servers = servers.iter().map(|&(name, server)| (name, server.clone()));
        let planes: HashMap<_, _> = servers.collect();
        let connections = Arc::new(Mutex::new(0));
        let connect: Connect = Arc::new({
            let (planes, connections) = (planes.clone(), Arc::clone(&connections));
            move |_: &Path, contents: &Arc<str>| {
                *connections.lock().unwrap() += 1;
                let server = planes.get(&**contents);
                let server = server.ok_or_else(|| format!("{contents:?} is nonsense"))?;
                Ok(Connected {
                    client: server.client(),
                    url: contents.to_string(),
                })
            }
        });
        let (tasks, metrics) = (Tasks::default(), Metrics::default());
        let context = RegistryContext {
            tasks: &tasks,
            metrics: &metrics,
        };
        let (registry, begin) = kubeconfigs::prepare_with(&context, directory, connect);
        let handler = Arc::new(Idle::default());
        begin(has_controllers.then(|| Arc::clone(&handler) as Arc<dyn ProjectHandler>));
        let bench = Bench {
            tasks,
            metrics,
            discovery: ApiServer::new(),
            planes,
            projects: ProjectRegistry { registry },
        };
        Self {
            bench,
            root,
            handler,
            connections,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("projects").join(name)
    }

    fn write(&self, name: &str, contents: &str) {
        fs::write(self.path(name), contents).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn project(&self, name: &str) -> Arc<EngagedProject> {
        let name = ProjectName::new(name).unwrap();
        self.bench.projects.get(&name).unwrap()
    }

    /// Returns the number of files whose contents are not in use.
    fn refused(&self) -> i64 {
        self.bench.metrics.project_kubeconfigs_refused.get()
    }

    async fn until_cities(&self, name: &str, cities: &str) {
        self.bench.until(|bench| bench.cities(name) == cities).await;
    }

    async fn until_refused(&self, files: i64) {
        self.bench.until(|_| self.refused() == files).await;
    }

    /// Waits for more than two looks at the directory.
    async fn look(&self) {
        sleep(Duration::from_secs(4)).await;
    }
}

/// The message for a project whose kubeconfig is not in use.
fn not_in_use(name: &str) -> String {
    format!(
        "project {name} is not ready: its kubeconfig is not in use yet; the log of compute-federation has the reason"
    )
}

#[tokio::test(start_paused = true)]
async fn files_that_come_and_go_touch_no_other_project() {
    let (a, b) = (server("1", "DFW"), server("2", "LHR"));
    let files = [("a.kubeconfig", "at a"), ("ca.crt", "no kubeconfig")];
    let directory = Directory::start(&files, &[("at a", &a), ("at b", &b)]);
    assert_eq!(
        directory.bench.projects.pending(),
        ["projects: not listed yet"]
    );
    directory.until_cities("a", "DFW").await;
    assert!(directory.bench.projects.pending().is_empty());
    let of_a = directory.project("a");
    for _ in 0..2 {
        assert_eq!(directory.bench.cities("b"), not_discovered("b"));
        directory.write("b.kubeconfig", "at b");
        directory.until_cities("b", "LHR").await;
        assert_eq!(directory.bench.counts(), (2, 0));
        directory.remove("b.kubeconfig");
        directory
            .bench
            .until(|bench| bench.counts() == (1, 0))
            .await;
    }
    assert_eq!(*directory.handler.0.lock().unwrap(), ["b", "b"]);
    let b = ProjectName::new("b").unwrap();
    let gone = directory.bench.projects.is_gone(&b, "root");
    assert_eq!(gone.await, Ok(false), "a removed file proves nothing");
    assert!(Arc::ptr_eq(&of_a, &directory.project("a")));
    assert_eq!(*directory.connections.lock().unwrap(), 3);
    assert_eq!(directory.refused(), 0);
}

#[tokio::test(start_paused = true)]
async fn new_credentials_replace_the_connection_and_nothing_else() {
    let (old, new, another) = (server("1", "DFW"), server("1", "DFW"), server("2", "LHR"));
    let servers = [("old", &old), ("new", &new), ("another", &another)];
    let directory = Directory::start(&[("a.kubeconfig", "old")], &servers);
    directory.until_cities("a", "DFW").await;
    let project = directory.project("a");
    directory.write("a.kubeconfig", "new");
    directory.look().await;
    assert!(Arc::ptr_eq(&project, &directory.project("a")));
    let (before, of_old) = (new.requests(), old.requests());
    let namespaces: Api<Namespace> = Api::all(project.client().clone());
    namespaces.get("default").await.unwrap();
    assert_eq!((new.requests(), old.requests()), (before + 1, of_old));

    // Another API server has another UID, so its caches are others, too.
    directory.write("a.kubeconfig", "another");
    directory.until_cities("a", "LHR").await;
    assert!(!Arc::ptr_eq(&project, &directory.project("a")));
    assert_eq!((directory.bench.counts(), directory.refused()), ((1, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn wrong_contents_do_not_disturb_the_project() {
    let (a, b, refusing) = (server("1", "DFW"), server("2", "LHR"), server("1", "DFW"));
    refusing.fail(Fault::refuse(401).of::<Namespace>());
    let servers = [("at a", &a), ("at b", &b), ("expired", &refusing)];
    let files = [("a.kubeconfig", "at a"), ("b.kubeconfig", "garbage")];
    let directory = Directory::start(&files, &servers);
    directory.until_cities("a", "DFW").await;
    directory.until_refused(1).await;
    assert_eq!(directory.bench.cities("b"), not_in_use("b"));
    let project = directory.project("a");
    for wrong in ["garbage", "expired"] {
        directory.write("a.kubeconfig", wrong);
        directory.until_refused(2).await;
        directory.look().await;
        assert!(Arc::ptr_eq(&project, &directory.project("a")), "{wrong}");
        assert_eq!(directory.bench.cities("a"), "DFW");
        directory.write("a.kubeconfig", "at a");
        directory.until_refused(1).await;
    }
    // A directory instead of a file.
    directory.remove("a.kubeconfig");
    fs::create_dir(directory.path("a.kubeconfig")).unwrap();
    directory.until_refused(2).await;
    assert!(Arc::ptr_eq(&project, &directory.project("a")));
    directory.write("b.kubeconfig", "at b");
    directory.until_cities("b", "LHR").await;
    assert_eq!(directory.refused(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_awaited() {
    let (a, b) = (server("1", "DFW"), server("2", "LHR"));
    b.fail(Fault::hang());
    let files = [("a.kubeconfig", "at a"), ("b.kubeconfig", "at b")];
    let directory = Directory::start(&files, &[("at a", &a), ("at b", &b)]);
    let begin = Instant::now();
    directory.until_cities("a", "DFW").await;
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    directory.until_refused(1).await;
    assert_eq!(directory.bench.cities("b"), not_in_use("b"));
    assert!(directory.bench.projects.pending().is_empty());
    let names = |unready| {
        let names = directory.bench.projects.names(unready).unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(false), names(true)),
        (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    b.heal();
    directory.until_cities("b", "LHR").await;
    assert_eq!(names(false), ["a", "b"]);
    assert_eq!(directory.refused(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_api_server_is_used_for_one_project() {
    let (one, other) = (server("1", "DFW"), server("2", "LHR"));
    let servers = [("by name", &one), ("by address", &one), ("other", &other)];
    let files = [("a.kubeconfig", "by name"), ("b.kubeconfig", "by address")];
    let directory = Directory::start(&files, &servers);
    // Neither uses it.
    directory.until_refused(2).await;
    assert_eq!(directory.bench.counts(), (0, 0));
    directory.remove("b.kubeconfig");
    directory.until_cities("a", "DFW").await;
    let project = directory.project("a");

    // The one that uses it keeps it.
    directory.write("c.kubeconfig", "by address");
    directory.until_refused(1).await;
    directory.write("a.kubeconfig", "by address");
    directory.look().await;
    assert!(Arc::ptr_eq(&project, &directory.project("a")));
    assert_eq!((directory.bench.counts(), directory.refused()), ((1, 0), 1));

    // A project that moves away leaves it free.
    directory.write("a.kubeconfig", "other");
    directory.until_cities("a", "LHR").await;
    directory.until_cities("c", "DFW").await;
    // So does a file that is renamed.
    fs::rename(
        directory.path("a.kubeconfig"),
        directory.path("d.kubeconfig"),
    )
    .unwrap();
    directory.until_cities("d", "LHR").await;
    assert_eq!((directory.bench.counts(), directory.refused()), ((2, 0), 0));
}

/// An address can lead to another API server without a change of the kubeconfig.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_exchanged_is_noticed() {
    let (a, b) = (server("1", "DFW"), server("2", "LHR"));
    let files = [("a.kubeconfig", "at a"), ("b.kubeconfig", "at b")];
    let directory = Directory::start(&files, &[("at a", &a), ("at b", &b)]);
    directory.until_cities("a", "DFW").await;
    directory.until_cities("b", "LHR").await;
    let (of_a, of_b) = (directory.project("a"), directory.project("b"));
    let becomes = |uid: &str| {
        a.remove::<Namespace>("", "default");
        a.put(objects::namespace("default", uid));
    };
    becomes("3");
    let is_another = |bench: &Bench| {
        let project = bench.projects.get(of_a.name());
        project.is_ok_and(|it| !Arc::ptr_eq(&it, &of_a))
    };
    directory.bench.until(is_another).await;
    directory.until_cities("a", "DFW").await;

    // It is the API server of the other project now.
    becomes("2");
    directory.until_refused(1).await;
    assert_eq!(directory.bench.cities("a"), not_in_use("a"));
    assert!(Arc::ptr_eq(&of_b, &directory.project("b")));

    // An API server that does not answer stays.
    becomes("1");
    directory.until_cities("a", "DFW").await;
    let of_a = directory.project("a");
    a.fail(Fault::refuse(503).of::<Namespace>());
    sleep(Duration::from_mins(3)).await;
    assert!(Arc::ptr_eq(&of_a, &directory.project("a")));
}

/// The file goes before its project is put to use again.
#[tokio::test(start_paused = true)]
async fn a_file_is_removed_while_its_api_server_is_exchanged() {
    let a = server("1", "DFW");
    let directory = Directory::start(&[("a.kubeconfig", "at a")], &[("at a", &a)]);
    directory.until_cities("a", "DFW").await;
    a.remove::<Namespace>("", "default");
    a.put(objects::namespace("default", "3"));
    directory.until_cities("a", &not_in_use("a")).await;
    directory.remove("a.kubeconfig");
    directory.until_cities("a", &not_discovered("a")).await;
    assert_eq!(*directory.handler.0.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn without_controllers_the_url_identifies_an_api_server() {
    let (one, other) = (server("1", "DFW"), server("2", "LHR"));
    other.fail(Fault::refuse(403).of::<Namespace>());
    let servers = [("one", &one), ("other", &other)];
    let files = [
        ("a.kubeconfig", "one"),
        ("b.kubeconfig", "other"),
        ("c.kubeconfig", "one"),
    ];
    let directory = Directory::start_for(&files, &servers, false);
    directory.until_cities("b", "LHR").await;
    directory.until_refused(2).await;
    assert_eq!(directory.bench.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_not_read() {
    let a = server("1", "DFW");
    let directory = Directory::start(&[("a.kubeconfig", "at a")], &[("at a", &a)]);
    directory.until_cities("a", "DFW").await;
    for half in ["at", "at "] {
        directory.write("a.kubeconfig", half);
        sleep(Duration::from_secs(1)).await;
    }
    directory.write("a.kubeconfig", "at a");
    directory.look().await;
    assert_eq!(*directory.connections.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_keeps_changing_holds_up_no_other() {
    let (a, b) = (server("1", "DFW"), server("2", "LHR"));
    let files = [("a.kubeconfig", "at a"), ("flapping.kubeconfig", "0")];
    let directory = Directory::start(&files, &[("at a", &a), ("at b", &b)]);
    directory.until_cities("a", "DFW").await;
    // It changes between any two readings, and is away in some of them.
    let flap = async |until: &dyn Fn() -> bool| {
        for turn in 1..200 {
            match turn % 3 {
                0 => directory.remove("flapping.kubeconfig"),
                _ => directory.write("flapping.kubeconfig", &turn.to_string()),
            }
            sleep(Duration::from_millis(900)).await;
            if until() {
                return;
            }
        }
        panic!("the other file is held up");
    };
    directory.write("b.kubeconfig", "at b");
    flap(&|| directory.bench.cities("b") == "LHR").await;
    directory.remove("a.kubeconfig");
    flap(&|| directory.bench.counts() == (1, 0)).await;
    // It is read when it rests.
    directory.write("flapping.kubeconfig", "at a");
    directory.until_cities("flapping", "DFW").await;
    directory.remove("flapping.kubeconfig");
    directory
        .bench
        .until(|bench| bench.counts() == (1, 0))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_cannot_be_read_removes_nothing() {
    let a = server("1", "DFW");
    let directory = Directory::start(&[("a.kubeconfig", "at a")], &[("at a", &a)]);
    directory.until_cities("a", "DFW").await;
    let (there, away) = (directory.path(""), directory.root.path().join("away"));
    fs::rename(&there, &away).unwrap();
    let fails = |bench: &Bench| bench.cities("b").contains("projects cannot be listed: ");
    directory.bench.until(fails).await;
    directory.look().await;
    assert_eq!(directory.bench.cities("a"), "DFW");
    fs::rename(&away, &there).unwrap();
    directory
        .bench
        .until(|bench| bench.cities("b") == not_discovered("b"))
        .await;
    assert_eq!(*directory.connections.lock().unwrap(), 1);
    // An empty directory has no projects.
    directory.remove("a.kubeconfig");
    directory
        .bench
        .until(|bench| bench.counts() == (0, 0))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_file_without_a_project_is_counted() {
    let a = server("1", "DFW");
    let files = [
        ("a.kubeconfig", "at a"),
        ("Not_A_Project.kubeconfig", "at a"),
    ];
    let directory = Directory::start(&files, &[("at a", &a)]);
    directory.until_cities("a", "DFW").await;
    assert_eq!((directory.bench.counts(), directory.refused()), ((1, 0), 1));
    directory.remove("Not_A_Project.kubeconfig");
    directory.until_refused(0).await;
}
