//! Tests on real nodes: the kubelet, the container runtime, and Pods.
//!
//! A node needs root and cgroups. On a machine that cannot run nodes, every test is ignored, and the reason is printed.
//!
//! Tests of Pods share one node. It starts when the first of them runs, and ends with the test run, also if the run is
//! killed or panics. Tests of the life of a node start their own.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "nodes/client.rs"]
mod client;
#[path = "nodes/fixture.rs"]
mod fixture;
#[path = "nodes/lifetime.rs"]
mod lifetime;
#[path = "nodes/pods.rs"]
mod pods;
#[path = "nodes/scrape.rs"]
mod scrape;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use harness::{Node, node};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;

/// Number of concurrent tests.
const THREADS: usize = 3;

/// How a test uses nodes.
#[derive(Clone, Copy)]
enum Test {
    /// Runs on the shared node, in its own namespaces.
    Shared(for<'n> fn(&'n Node) -> BoxFuture<'n, anyhow::Result<()>>),
    /// Starts its own nodes.
    Apart(fn() -> BoxFuture<'static, anyhow::Result<()>>),
}

/// The shared node.
#[derive(Default)]
struct Shared(OnceCell<anyhow::Result<Node>>);

impl Shared {
    async fn run(&self, test: Test) -> anyhow::Result<()> {
        let run = match test {
            Test::Apart(run) => return run().await,
            Test::Shared(run) => run,
        };
        let node = self.0.get_or_init(|| fixture::start_with_addons("shared"));
        let node = node.await.as_ref();
        let node = node.map_err(|error| anyhow::anyhow!("{error:#}"))?;
        tokio::select! {
            result = run(node) => result.with_context(|| format!("in {}", node.directory().display())),
            death = node.death() => Err(death),
        }
    }
}

macro_rules! tests {
    ($($kind:ident $module:ident::$name:ident;)*) => {
        vec![$((concat!(stringify!($module), "::", stringify!($name)), tests!(@$kind $module::$name))),*]
    };
    (@Apart $module:ident::$name:ident) => { Test::Apart(|| $module::$name().boxed()) };
    (@Shared $module:ident::$name:ident) => { Test::Shared(|node| $module::$name(node).boxed()) };
}

fn all() -> Vec<(&'static str, Test)> {
    tests![
        Shared pods::a_pod_serves_with_the_certificate_of_a_volume;
        Shared pods::a_service_is_reachable_by_its_name;
        Shared pods::a_pod_reaches_a_server_of_the_host;
        Shared pods::a_renewed_certificate_is_served;
        Shared pods::an_unready_pod_gets_no_calls;
        Apart scrape::a_deployed_process_is_scraped;
        Apart lifetime::pods_return_after_a_power_cut;
        Apart lifetime::nothing_is_left_of_a_stopped_node;
        Apart lifetime::nothing_is_left_when_the_harness_is_killed;
        Apart lifetime::the_next_node_removes_what_a_killed_tether_left;
        Apart lifetime::the_error_for_a_dead_kubelet_shows_its_log;
    ]
}

fn main() -> ExitCode {
    harness::reexec();
    let runtime = Runtime::new().expect("a runtime");
    if let Some(code) = lifetime::hold(&runtime) {
        return code;
    }
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(THREADS);
    let supported = node::check();
    if let Err(reason) = &supported {
        eprintln!("all tests of nodes are skipped: {reason}");
    }
    let shared = Arc::new(Shared::default());
    let trials = all().into_iter().map(|(name, test)| {
        trial(name, test, &shared, runtime.handle()).with_ignored_flag(supported.is_err())
    });
    let trials = trials.collect();

    // The test run blocks this thread, so a task handles Ctrl-C.
    runtime.spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            // All nodes end when this process exits.
            std::process::exit(130);
        }
    });
    let conclusion = libtest_mimic::run(&args, trials);
    if let Some(Ok(node)) = Arc::into_inner(shared).and_then(|shared| shared.0.into_inner()) {
        runtime.block_on(node.stop());
    }
    conclusion.exit_code()
}

fn trial(name: &str, test: Test, shared: &Arc<Shared>, runtime: &Handle) -> Trial {
    let (shared, runtime) = (Arc::clone(shared), runtime.clone());
    Trial::test(name, move || {
        runtime
            .block_on(shared.run(test))
            .map_err(|error| Failed::from(format!("{error:#}")))
    })
}
