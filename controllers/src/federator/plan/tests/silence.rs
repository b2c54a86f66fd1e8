//! Tests of the status of a project's WorkloadDeployment while the process of a lower hub is silent.

use api::WorkloadDeploymentStatus;
use api::cells_below::is_below;
use api::condition;
use api::karmada::ResourceBinding;
use api::lower_hub::SilentLowerHub;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::cells::{bound, report, reporting, says};
use super::*;

const SILENT: &str = "2026-11-21T09:15:00Z";
const CUT: &str = "2026-11-21T09:30:00Z";

/// Returns the planned status while the processes of these lower hubs are silent, and these cells cannot be reached.
fn shown(
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
    binding: &ResourceBinding,
    silent: &[&str],
    cut_off: &[&str],
) -> Option<WorkloadDeploymentStatus> {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let state = |cell: &str| match cut_off.contains(&cell) {
        true => CellState::Unreachable {
            since: Some(CUT.parse().unwrap()),
            message: "cut off".to_owned(),
        },
        false => CellState::Reachable,
    };
    let silent_from = |cluster: &str| {
        let silent = silent.iter();
        let names = silent.filter(|name| **name == cluster || is_below(name, cluster));
        let silent = names.map(|name| SilentLowerHub {
            name: (*name).to_owned(),
            since: Time(SILENT.parse().unwrap()),
        });
        silent.collect()
    };
    let cells = CopyCells {
        state: &state,
        silent: &silent_from,
        ..reachable_cells(Some(binding))
    };
    plan_knowing(cells, &own, Some(&own), deployment, hub).status
}

#[test]
fn a_silent_process_is_said_and_changes_nothing_else() {
    let mut deployment = recorded("DFW");
    let hub = reporting(&deployment, 4, true);
    let both = bound(&["dfw", "ord"], &[report("dfw", true), report("ord", true)]);
    let without = shown(&deployment, &hub, &both, &["mia"], &[]).unwrap();
    assert_eq!(
        says(&without, "CellsReporting"),
        None,
        "a lower hub elsewhere"
    );

    let mut with = shown(&deployment, &hub, &both, &["dfw"], &[]).unwrap();
    let (reason, since) = says(&with, "CellsReporting").unwrap();
    assert_eq!(
        (reason, since),
        ("LowerHubSilent", format!("Unknown {SILENT}"))
    );
    let said = condition::find(&with.conditions, "CellsReporting").unwrap();
    let message = format!(
        "dfw: since {SILENT} it is not known whether its cells are reachable, because its process is silent"
    );
    assert_eq!(said.message, message);
    deployment.status = Some(with.clone());
    assert_eq!(
        shown(&deployment, &hub, &both, &["dfw"], &[]),
        None,
        "settled"
    );
    let ended = shown(&deployment, &hub, &both, &[], &[]).unwrap();
    assert_eq!(ended, without);
    condition::remove(&mut with.conditions, "CellsReporting");
    assert_eq!(with, without);
}

#[test]
fn each_lower_hub_with_a_silent_process_is_named() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 4, true);
    let both = bound(&["dfw", "ord"], &[report("dfw", true), report("ord", true)]);
    let silent = ["dfw", "dfw.mid", "mia.mid"];
    let with = shown(&deployment, &hub, &both, &silent, &[]).unwrap();
    let said = condition::find(&with.conditions, "CellsReporting").unwrap();
    let named = said.message.split("; ").map(|it| it.split(':').next());
    assert!(named.eq([Some("dfw"), Some("dfw.mid")]), "{said:?}");
}

/// The condition has one reason. A cell that is cut off is more important than a process that is silent.
#[test]
fn a_silent_process_hides_no_cell_that_cannot_be_reached() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 4, true);
    let both = bound(&["dfw", "ord"], &[report("dfw", true), report("ord", true)]);
    let expected = shown(&deployment, &hub, &both, &[], &["ord"]);
    assert!(says(expected.as_ref().unwrap(), "CellsReporting").is_some());
    assert_eq!(
        shown(&deployment, &hub, &both, &["dfw"], &["ord"]),
        expected
    );
}

#[test]
fn a_copy_that_no_cell_has_reported_has_no_silent_cells() {
    let deployment = recorded("DFW");
    let mut hub = reporting(&deployment, 2, true);
    Arc::make_mut(hub.copy.as_mut().unwrap()).status = None;
    let binding = bound(&["dfw"], &[]);
    let expected = shown(&deployment, &hub, &binding, &[], &[]);
    assert_eq!(shown(&deployment, &hub, &binding, &["dfw"], &[]), expected);
}
