//! Tests on real nodes: the kubelet, the container runtime, and Pods.
//!
//! A node needs root and cgroups. On a machine that cannot run nodes, every test is ignored, and the reason is printed.
//!
//! Tests of Pods share one node. It starts when the first of them runs, and ends with the test run, also if the run is
//! killed or panics. Tests of the life of a node start their own. Tests of compute-federation's Pods share an
//! installation.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "nodes/client.rs"]
mod client;
#[path = "nodes/deployed.rs"]
mod deployed;
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
use harness::{Installation, Node, node};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OnceCell, RwLock};

/// Number of concurrent tests.
const THREADS: usize = 3;

/// How a test uses nodes.
#[derive(Clone, Copy)]
enum Test {
    /// Runs on the shared node, in its own namespaces.
    Shared(for<'n> fn(&'n Node) -> BoxFuture<'n, anyhow::Result<()>>),
    /// Starts its own nodes.
    Apart(fn() -> BoxFuture<'static, anyhow::Result<()>>),
    /// Runs on the shared installation, while no other test runs.
    Deployed(for<'i> fn(&'i Installation) -> BoxFuture<'i, anyhow::Result<()>>),
}

/// The node and the installation that tests share.
#[derive(Default)]
struct Shared {
    node: OnceCell<anyhow::Result<Node>>,
    installation: OnceCell<anyhow::Result<Installation>>,
    /// A test on the installation holds the lock for writing. It measures times, and other tests would load the
    /// machine.
    quiet: RwLock<()>,
}

impl Shared {
    async fn run(&self, test: Test) -> anyhow::Result<()> {
        match test {
            Test::Apart(run) => {
                let _shared = self.quiet.read().await;
                run().await
            }
            Test::Shared(run) => {
                let _shared = self.quiet.read().await;
                let node = self
                    .node
                    .get_or_init(|| fixture::start_with_addons("shared"));
                let node = node.await.as_ref();
                let node = node.map_err(|error| anyhow::anyhow!("{error:#}"))?;
                tokio::select! {
                    result = run(node) => result.with_context(|| format!("in {}", node.directory().display())),
                    death = node.death() => Err(death),
                }
            }
            Test::Deployed(run) => {
                let _alone = self.quiet.write().await;
                let installation = self
                    .installation
                    .get_or_init(deployed::install)
                    .await
                    .as_ref();
                let installation = installation.map_err(|error| anyhow::anyhow!("{error:#}"))?;
                tokio::select! {
                    result = run(installation) => result,
                    death = installation.death() => Err(death),
                }
            }
        }
    }

    async fn stop(self) {
        if let Some(Ok(node)) = self.node.into_inner() {
            node.stop().await;
        }
        if let Some(Ok(installation)) = self.installation.into_inner() {
            installation.stop().await;
        }
    }
}

macro_rules! tests {
    ($($kind:ident $module:ident::$name:ident;)*) => {
        vec![$((concat!(stringify!($module), "::", stringify!($name)), tests!(@$kind $module::$name))),*]
    };
    (@Apart $module:ident::$name:ident) => { Test::Apart(|| $module::$name().boxed()) };
    (@Deployed $module:ident::$name:ident) => { Test::Deployed(|installation| $module::$name(installation).boxed()) };
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
        Apart deployed::a_single_cluster_is_its_own_project;
        Deployed deployed::a_workload_goes_all_the_way_and_back;
        Deployed deployed::containers_run_as_the_manifest_says;
        Deployed deployed::no_call_fails_during_planned_changes;
        Deployed deployed::the_interpreter_answers_without_the_management_process;
        Deployed deployed::a_killed_leader_costs_only_the_calls_in_flight;
        Deployed deployed::a_leader_out_of_memory_costs_only_the_calls_in_flight;
    ]
}

/// Tests that take many minutes. They are ignored.
fn soak() -> Vec<(&'static str, Test)> {
    tests![
        Deployed deployed::renewals_and_another_authority;
        Deployed deployed::memory_and_cpu_of_the_pods;
        Apart deployed::the_go_manager_is_replaced_and_restored;
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
    let trial = |(name, test)| trial(name, test, &shared, runtime.handle());
    let ordinary = all().into_iter().map(trial);
    let ordinary = ordinary.map(|trial| trial.with_ignored_flag(supported.is_err()));
    let soak = soak().into_iter().map(trial);
    // A machine that cannot run nodes runs no ignored test either.
    let soak = soak.filter(|_| supported.is_ok());
    let trials = ordinary
        .chain(soak.map(|trial| trial.with_ignored_flag(true)))
        .collect();

    // The test run blocks this thread, so a task handles Ctrl-C.
    runtime.spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            // All nodes end when this process exits.
            std::process::exit(130);
        }
    });
    let conclusion = libtest_mimic::run(&args, trials);
    if let Some(shared) = Arc::into_inner(shared) {
        runtime.block_on(shared.stop());
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
