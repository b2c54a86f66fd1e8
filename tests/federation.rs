//! End-to-end tests on a real federation.
//!
//! The tests share five fixtures:
//!
//! - Most tests share one federation. Each test has its own namespaces. A test that counts writes or ends processes
//!   locks this federation for exclusive use.
//! - Tests of interpretation share a second federation. Its cells run no compute-federation. The burst test keeps
//!   Karmada busy, so this test locks the second federation for exclusive use.
//! - Tests of Milo share a Milo that has projects and no federation.
//! - Tests of admission share another Milo. compute-federation serves the admission webhooks of this Milo.
//! - Tests of gates share a third federation, whose cells have a network operator and enforce quota. They run one after
//!   the other.
//!
//! Other tests start their own processes and use no fixture.
//!
//! A fixture starts when the first test uses it. All fixtures end with the test run, also if the run is killed or
//! panics.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "federation/admission.rs"]
mod admission;
#[path = "federation/autoscaling.rs"]
mod autoscaling;
#[path = "federation/cell_rules.rs"]
mod cell_rules;
#[path = "federation/certificates.rs"]
mod certificates;
#[path = "federation/conformance.rs"]
mod conformance;
#[path = "federation/connections.rs"]
mod connections;
#[path = "federation/crds.rs"]
mod crds;
#[path = "federation/customizations.rs"]
mod customizations;
#[path = "federation/deletions.rs"]
mod deletions;
#[path = "federation/deploy.rs"]
mod deploy;
#[path = "federation/events.rs"]
mod events;
#[path = "federation/faults.rs"]
mod faults;
#[path = "federation/fixture.rs"]
mod fixture;
#[path = "federation/fleet.rs"]
mod fleet;
#[path = "federation/freshness.rs"]
mod freshness;
#[path = "federation/gates.rs"]
mod gates;
#[path = "federation/interpret_command.rs"]
mod interpret_command;
#[path = "federation/interpretation.rs"]
mod interpretation;
#[path = "federation/invariants.rs"]
mod invariants;
#[path = "federation/kubectl.rs"]
mod kubectl;
#[path = "federation/levels.rs"]
mod levels;
#[path = "federation/lifetime.rs"]
mod lifetime;
#[path = "federation/milo.rs"]
mod milo;
#[path = "federation/namespaces.rs"]
mod namespaces;
#[path = "federation/needs.rs"]
mod needs;
#[path = "federation/network_double.rs"]
mod network_double;
#[path = "federation/networks.rs"]
mod networks;
#[path = "federation/newer_crds.rs"]
mod newer_crds;
#[path = "federation/operations.rs"]
mod operations;
#[path = "federation/orphans.rs"]
mod orphans;
#[path = "federation/other_hub.rs"]
mod other_hub;
#[path = "federation/own_cluster.rs"]
mod own_cluster;
#[path = "federation/policies.rs"]
mod policies;
#[path = "federation/projections.rs"]
mod projections;
#[path = "federation/proofs.rs"]
mod proofs;
#[path = "federation/proxies.rs"]
mod proxies;
#[path = "federation/pull_cells.rs"]
mod pull_cells;
#[path = "federation/quota.rs"]
mod quota;
#[path = "federation/quota_double.rs"]
mod quota_double;
#[path = "federation/referenced_data.rs"]
mod referenced_data;
#[path = "federation/refusals.rs"]
mod refusals;
#[path = "federation/repair.rs"]
mod repair;
#[path = "federation/restart.rs"]
mod restart;
#[path = "federation/restore.rs"]
mod restore;
#[path = "federation/rights.rs"]
mod rights;
#[path = "federation/scrape.rs"]
mod scrape;
#[path = "federation/scripted_kinds.rs"]
mod scripted_kinds;
#[path = "federation/settled.rs"]
mod settled;
#[path = "federation/simulated.rs"]
mod simulated;
#[path = "federation/static_rules.rs"]
mod static_rules;
#[path = "federation/suites.rs"]
mod suites;
#[path = "federation/summaries.rs"]
mod summaries;
#[path = "federation/takeover.rs"]
mod takeover;
#[path = "federation/verify_command.rs"]
mod verify_command;
#[path = "federation/version_history.rs"]
mod version_history;
#[path = "federation/workloads.rs"]
mod workloads;

use std::process::ExitCode;
use std::sync::Arc;

use admission::Platform;
use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use gates::GatedFederation;
use harness::network_operator::Generation;
use harness::{Federation, Milo};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex, OnceCell, RwLock};

/// Number of concurrent tests. More than the number of CPUs, because tests spend most of their time waiting.
const THREADS: usize = 6;

/// How a test uses the federation.
enum Test {
    /// Runs on the shared federation, concurrently with other tests.
    Shared(for<'f> fn(&'f Federation) -> BoxFuture<'f, anyhow::Result<()>>),
    /// Runs alone on the shared federation.
    Alone(for<'f> fn(&'f Federation) -> BoxFuture<'f, anyhow::Result<()>>),
    /// Runs on the federation without controllers in its cells, concurrently with other tests.
    Interpreted(for<'f> fn(&'f Federation) -> BoxFuture<'f, anyhow::Result<()>>),
    /// Runs alone on the federation without controllers in its cells.
    InterpretedAlone(for<'f> fn(&'f Federation) -> BoxFuture<'f, anyhow::Result<()>>),
    /// Runs on the Milo without a federation, concurrently with other tests.
    Milo(for<'m> fn(&'m Milo) -> BoxFuture<'m, anyhow::Result<()>>),
    /// Runs on the Milo whose admission webhooks compute-federation serves, concurrently with other tests.
    Admission(for<'p> fn(&'p Platform) -> BoxFuture<'p, anyhow::Result<()>>),
    /// Runs alone on the federation whose cells have a network operator and enforce quota.
    Gated(for<'g> fn(&'g GatedFederation) -> BoxFuture<'g, anyhow::Result<()>>),
    /// Uses no shared fixture. The test starts its own processes.
    Apart(fn() -> BoxFuture<'static, anyhow::Result<()>>),
}

/// The federations that tests share, and the locks for exclusive use.
#[derive(Default)]
struct SharedFederations {
    whole: OnDemand<Federation>,
    interpreted: OnDemand<Federation>,
    milo: OnDemand<Milo>,
    admission: OnDemand<Platform>,
    gated: OnDemand<GatedFederation>,
    alone: RwLock<()>,
    interpreted_alone: RwLock<()>,
    gated_alone: Mutex<()>,
}

/// A shared fixture. It starts on first use.
struct OnDemand<T>(OnceCell<anyhow::Result<T>>);

impl<T> Default for OnDemand<T> {
    fn default() -> Self {
        Self(OnceCell::default())
    }
}

impl<T> OnDemand<T> {
    async fn get(&self, start: BoxFuture<'_, anyhow::Result<T>>) -> anyhow::Result<&T> {
        let started = self.0.get_or_init(|| start).await;
        started
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error:#}"))
    }
}

impl SharedFederations {
    async fn run(&self, test: &Test) -> anyhow::Result<()> {
        let (run, _shared, _alone) = match test {
            Test::Apart(run) => return run().await,
            Test::Milo(run) => return self.run_on_milo(*run).await,
            Test::Admission(run) => return self.run_on_platform(*run).await,
            Test::Gated(run) => return self.run_gated(*run).await,
            Test::Shared(run) => (run, Some(self.alone.read().await), None),
            Test::Alone(run) => (run, None, Some(self.alone.write().await)),
            Test::Interpreted(run) => (run, Some(self.interpreted_alone.read().await), None),
            Test::InterpretedAlone(run) => (run, None, Some(self.interpreted_alone.write().await)),
        };
        let federation = match test {
            Test::Interpreted(_) | Test::InterpretedAlone(_) => {
                self.interpreted
                    .get(interpretation::start("cells").boxed())
                    .await?
            }
            _ => self.whole.get(fixture::start("tests").boxed()).await?,
        };
        tokio::select! {
            result = run(federation) => result.with_context(|| format!("in {}", federation.directory().display())),
            death = federation.death() => Err(death),
        }
    }

    async fn run_on_milo(
        &self,
        run: for<'m> fn(&'m Milo) -> BoxFuture<'m, anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let milo = self
            .milo
            .get(milo::start("milo", &milo::PROJECTS).boxed())
            .await?;
        tokio::select! {
            result = run(milo) => result.with_context(|| format!("in {}", milo.directory().display())),
            death = milo.death() => Err(death),
        }
    }

    async fn run_on_platform(
        &self,
        run: for<'p> fn(&'p Platform) -> BoxFuture<'p, anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let start = admission::start("admission").boxed();
        let platform = self.admission.get(start).await?;
        let milo = &platform.milo;
        tokio::select! {
            result = run(platform) => result.with_context(|| format!("in {}", milo.directory().display())),
            death = milo.death() => Err(death),
        }
    }

    async fn run_gated(
        &self,
        run: for<'g> fn(&'g GatedFederation) -> BoxFuture<'g, anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let _alone = self.gated_alone.lock().await;
        let start = GatedFederation::start("gates", Generation::InterfaceClaims).boxed();
        let gated = self.gated.get(start).await?;
        gated.reset().await?;
        let federation = &gated.federation;
        tokio::select! {
            result = run(gated) => result.with_context(|| format!("in {}", federation.directory().display())),
            death = federation.death() => Err(death),
        }
    }

    async fn stop(self) {
        for federation in [self.whole, self.interpreted] {
            if let Some(Ok(federation)) = federation.0.into_inner() {
                federation.stop().await;
            }
        }
        if let Some(Ok(gated)) = self.gated.0.into_inner() {
            gated.stop().await;
        }
        if let Some(Ok(milo)) = self.milo.0.into_inner() {
            milo.stop().await;
        }
        if let Some(Ok(platform)) = self.admission.0.into_inner() {
            platform.stop().await;
        }
    }
}

macro_rules! tests {
    ($($kind:ident $module:ident::$name:ident;)*) => {
        vec![$((concat!(stringify!($module), "::", stringify!($name)), tests!(@$kind $module::$name))),*]
    };
    (@Apart $module:ident::$name:ident) => { Test::Apart(|| $module::$name().boxed()) };
    (@$kind:ident $module:ident::$name:ident) => { Test::$kind(|federation| $module::$name(federation).boxed()) };
}

#[expect(clippy::too_many_lines, reason = "a list")]
fn all() -> Vec<(&'static str, Test)> {
    tests![
        Shared crds::objects_that_use_every_field_survive_the_api_server;
        Shared crds::the_api_server_defaults_and_refuses_as_the_schema_says;
        Shared crds::kubectl_shows_the_columns;
        Shared static_rules::the_api_server_refuses_what_the_table_says;
        Shared static_rules::an_earlier_mistake_does_not_block_updates;
        Shared events::each_transition_emits_one_event;
        Shared suites::workload_deployment_federation;
        Shared suites::propagation_policy_lifecycle;
        Shared suites::deletion_cascade;
        Shared deletions::a_workload_stays_until_its_instances_have_ended;
        Shared suites::instance_writeback;
        Shared suites::instance_projection;
        Shared suites::full_federation;
        Shared suites::full_federation_ord;
        Shared workloads::several_placements;
        Shared workloads::a_city_without_a_cell;
        Shared workloads::two_namespaces_with_equal_names;
        Shared workloads::scaled_to_zero_and_back;
        Shared workloads::a_new_image_replaces_instances_one_by_one;
        Shared workloads::a_broken_image_is_replaced_by_a_good_one;
        Shared workloads::city_codes_that_differ_in_case_are_separate;
        Shared workloads::a_city_code_that_is_not_a_label_value_is_reported;
        Shared needs::a_missing_city_is_reported_and_used_once_offered;
        Shared needs::a_workload_waits_for_missing_networks;
        Shared repair::a_hub_object_edited_by_hand;
        Shared repair::a_hub_object_deleted_by_hand;
        Shared repair::a_policy_deleted_by_hand;
        Shared repair::a_projection_edited_by_hand;
        Shared repair::a_copy_of_another_cell_is_left_alone;
        Shared repair::an_instance_without_its_deployment_is_not_copied;
        Shared policies::deployments_of_one_city_come_and_go;
        Shared policies::an_edit_by_hand_of_any_field_is_repaired;
        Shared projections::an_instance_that_cannot_be_projected_is_reported_once;
        Shared proofs::forms_of_a_404;
        Shared proofs::a_record_of_a_foreign_hub_namespace_holds_the_deployment;
        Shared proofs::a_hub_namespace_with_a_foreign_identity_is_held;
        Shared proofs::foreign_conditions_stay;
        Shared proofs::the_referenced_data_annotation_is_mirrored_and_removed;
        Shared referenced_data::data_reach_the_cells_of_their_workload;
        Shared referenced_data::workloads_share_a_source;
        Shared referenced_data::a_restart_replaces_the_instances;
        Shared referenced_data::changed_data_replace_the_instances_that_ask;
        Shared refusals::the_words_of_the_hub_are_shown_in_the_project;
        Shared freshness::a_city_without_a_cell;
        Apart freshness::a_cell_that_dies;
        Apart pull_cells::a_cell_that_is_away;
        Apart levels::cells_below_a_lower_hub;
        Apart levels::a_dead_cell_below;
        Apart summaries::cells_and_instances;
        Apart cell_rules::rules_of_one_of_two_cells;
        Apart proxies::everything_behind_proxies;
        Shared namespaces::a_deleted_project_namespace_is_deleted_on_every_plane;
        Shared namespaces::foreign_objects_keep_a_hub_namespace;
        Shared namespaces::a_recreated_namespace_gets_a_new_hub_namespace;
        Shared orphans::copies_that_the_project_does_not_have_are_deleted;
        Shared orphans::nothing_is_deleted_without_an_answer_of_the_project;
        Apart interpretation::a_cell_that_dies_and_returns;
        Interpreted interpretation::duplicated;
        Interpreted interpretation::divided;
        Interpreted interpretation::an_override_of_the_replicas;
        Interpreted interpretation::one_cell_or_two;
        Interpreted interpretation::a_total_that_is_the_sum_of_the_former_shares;
        Interpreted interpretation::a_total_that_each_former_share_equals;
        Interpreted interpretation::scaled_to_zero_and_back;
        Interpreted interpretation::a_new_image;
        Interpreted interpretation::an_autoscaler_in_a_cell;
        Interpreted interpretation::a_refused_work;
        Interpreted interpretation::recreated_while_the_old_object_terminates;
        Interpreted interpretation::dependencies_follow_the_deployment;
        InterpretedAlone interpretation::a_burst;
        Shared operations::of_a_workload_deployment;
        Shared operations::of_an_instance;
        Shared simulated::a_workload_on_real_planes;
        Apart pull_cells::a_cell_is_removed;
        Apart levels::a_lower_hub_in_pull_mode;
        Apart levels::a_pull_cell_below;
        Apart levels::a_process_with_another_hub;
        Apart simulated::a_workload_on_simulated_planes;
        Apart simulated::what_a_cell_has_lost_is_applied_again;
        Shared fleet::projects_share_a_hub;
        Shared fleet::a_paused_leader_writes_nothing;
        Shared fleet::a_leader_with_an_old_cache_rolls_nothing_back;
        Shared fleet::a_suspended_project_is_not_retried;
        Shared fleet::a_kind_that_a_project_does_not_serve;
        Shared fleet::a_deleted_project_is_cleaned_up;
        Shared fleet::projects_from_kubeconfigs;
        Shared connections::more_watches_than_one_connection_allows;
        Shared own_cluster::one_candidate_leads_at_a_time;
        Shared own_cluster::metrics_require_permission;
        Shared rights::no_identity_may_do_more;
        Shared rights::a_customer_writes_only_workloads;
        Shared rights::a_cell_writes_only_its_own_copies;
        Shared rights::a_lower_hub_writes_only_its_own_status;
        Milo rights::a_webhook_server_reads_no_workload;
        Milo conformance::the_api_server_in_memory_answers_as_a_real_one;
        Milo milo::projects_are_isolated;
        Milo milo::the_front_forwards_all_claims_of_a_user;
        Milo milo::the_authorizer_decides_by_the_review;
        Milo milo::tests_can_override_the_authorizer;
        Milo milo::a_watch_streams;
        Milo milo::a_project_that_hangs_or_refuses;
        Milo quota_double::behaves_as_milo;
        Milo quota_double::continues_after_outages;
        Apart quota_double::a_claim_for_a_project_is_registered;
        Milo network_double::interface_claims_behave_as_documented;
        Milo network_double::bindings_behave_as_documented;
        Admission admission::a_user_with_the_right_may_use_a_network;
        Admission admission::every_claim_identifies_the_requester;
        Admission admission::every_claim_reaches_the_authorizer;
        Admission admission::a_user_with_the_right_may_reference_a_secret;
        Admission admission::only_the_resolver_changes_what_is_expected;
        Admission admission::kubectl_shows_all_errors;
        Admission admission::cities_are_those_of_the_project;
        Admission admission::every_replica_follows_locations;
        Admission admission::earlier_mistakes_do_not_block_updates;
        Admission admission::a_project_that_hangs_slows_no_other;
        Admission admission::an_unreachable_project_causes_no_wrong_denial;
        Admission admission::a_starting_replica_is_unready_until_its_caches_are_filled;
        Admission admission::a_replica_starts_while_a_project_hangs;
        Admission admission::projects_come_and_go;
        Admission admission::only_api_servers_with_a_certificate_are_accepted;
        Apart levels::three_levels;
        Apart milo::admission_is_registered_and_all_processes_end;
        Apart certificates::rotation_without_a_failed_call;
        Apart certificates::an_authority_is_renewed_for_admission;
        Apart certificates::a_follower_waits_for_the_leader;
        Alone policies::a_policy_that_stays_terminating;
        Alone customizations::a_customization_that_shadows_the_webhook_is_reported;
        Apart other_hub::nothing_is_removed_because_of_another_hub;
        Alone events::customers_learn_of_each_change_once;
        Alone proofs::a_hub_namespace_without_identity_is_counted;
        Alone newer_crds::a_field_of_a_newer_crd_reaches_the_cell;
        Alone settled::writes_nothing;
        Alone invariants::a_change_makes_only_the_necessary_writes;
        Alone invariants::foreign_labels_and_annotations_stay;
        Shared interpret_command::an_object_of_the_hub_is_interpreted;
        Shared verify_command::the_objects_of_the_hub_are_compared;
        Shared invariants::each_object_has_the_documented_writers;
        Alone scripted_kinds::karmada_calls_the_scripts_of_another_kind;
        Alone needs::running_instances_stay_when_their_city_is_withdrawn;
        Alone projections::deletions_during_downtime_are_projected;
        Alone restart::a_killed_manager_converges_to_the_same_state;
        Alone restart::sigterm_shuts_down_in_order;
        Alone faults::a_kill_after_some_writes;
        Alone referenced_data::a_kill_after_some_writes;
        Alone referenced_data::a_cell_is_away_for_a_moment;
        Alone faults::api_servers_answer_with_errors;
        Alone faults::watches_that_end;
        Alone faults::short_cuts;
        Alone faults::a_cell_beside_a_hub_that_hangs;
        Alone faults::an_instance_is_replaced_beside_a_hub_that_hangs;
        Apart deploy::every_overlay_is_accepted;
        Apart deploy::the_patches_of_a_consumer_take_effect;
        Apart deploy::the_processes_start_as_deployed;
        Apart scrape::a_healthy_federation_raises_no_alert;
        Apart takeover::objects_of_the_baseline_are_adopted;
        Apart quota::each_instance_waits_for_its_quota_and_returns_it;
        Apart autoscaling::kubernetes_scales_and_nobody_fights;
        Apart networks::interface_claims_open_the_gate;
        Apart networks::bindings_open_the_gate;
        Apart networks::networks_and_quota_open_their_gates;
        Gated gates::two_cells_with_equal_names;
        Gated gates::open_gates_cause_no_write;
        Gated gates::a_claim_can_come_late;
        Gated gates::a_claim_is_deleted_by_hand;
        Gated gates::a_replacement_keeps_its_claim;
        Gated gates::a_grant_is_revoked;
        Gated gates::a_project_is_suspended;
        Gated gates::a_service_is_suspended_and_resumed;
        Gated gates::a_short_pause_of_the_ledger;
        Gated gates::the_namespace_of_a_cell_is_deleted;
        Gated gates::a_kill_after_some_writes;
        Apart restore::the_hub_follows_the_project_again;
        Apart lifetime::nothing_outlives_a_killed_process;
        Apart lifetime::nothing_outlives_an_interrupted_process;
        Apart lifetime::nothing_outlives_a_panic;
        Apart lifetime::a_damaged_federation_can_be_kept_and_stopped;
        Apart lifetime::the_error_for_a_dead_manager_names_it;
        Apart lifetime::the_error_for_a_dead_part_shows_its_log;
    ]
}

/// Returns the tests that take many minutes or use all CPUs. The test run ignores them unless they are requested.
fn soak() -> Vec<(&'static str, Test)> {
    tests![
        Apart certificates::rotations;
        Shared deletions::an_instance_that_does_not_end_blocks_its_workload_only_for_a_time;
        Apart freshness::a_cell_that_hangs;
        Apart pull_cells::an_hour_away;
        Apart cell_rules::a_lost_write_of_rules_is_repeated;
        Alone settled::an_hour_without_a_write;
        Alone faults::a_kill_after_each_write;
        Alone referenced_data::a_kill_after_each_write;
        Alone referenced_data::a_cell_is_away_for_long;
        Alone faults::long_cuts;
        Alone faults::long_pauses;
        Apart faults::restarts;
        Gated gates::two_hundred_at_once;
        Gated gates::a_long_pause_of_the_ledger;
        Gated gates::a_kill_after_each_write;
        Apart gates::a_kill_after_each_write_with_bindings;
        InterpretedAlone interpretation::a_burst_of_a_thousand;
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
    let shared = Arc::new(SharedFederations::default());
    let trial = |(name, test)| trial(name, test, &shared, runtime.handle());
    let ordinary = all().into_iter().map(trial);
    let soak = soak().into_iter().map(trial);
    let trials = ordinary
        .chain(soak.map(|trial| trial.with_ignored_flag(true)))
        .collect();

    // The test run blocks this thread, so a task handles Ctrl-C.
    runtime.spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            // All processes of the federations end when this process exits.
            std::process::exit(130);
        }
    });
    let conclusion = libtest_mimic::run(&args, trials);
    if let Some(shared) = Arc::into_inner(shared) {
        runtime.block_on(shared.stop());
    }
    // A test that failed or did not run may be the only one that uses a right.
    let whole = conclusion.num_filtered_out == 0
        && conclusion.num_failed == 0
        && !args.ignored
        && !args.list;
    let tests = all().into_iter().chain(self::soak());
    let names: Vec<_> = tests.map(|(name, _)| name).collect();
    if let Err(error) = rights::check_requests(&fixture::target(), whole, &names) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(name: &str, test: Test, shared: &Arc<SharedFederations>, runtime: &Handle) -> Trial {
    let (shared, runtime) = (Arc::clone(shared), runtime.clone());
    Trial::test(name, move || {
        runtime
            .block_on(shared.run(&test))
            .map_err(|error| Failed::from(format!("{error:#}")))
    })
}
