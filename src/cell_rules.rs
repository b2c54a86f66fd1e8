//! `compute-federation rules` shows what CellRules would change in each cell (docs/operate/cell-rules.md).

mod hub;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::bail;
use api::{CellRule, CellRules, WorkloadDeployment};
use controllers::cell_rules::{policy, rules_in_policy, rules_of_cells, too_large};
use kube::ResourceExt;

use crate::args::CellRulesArgs;
use crate::{object_files, terminal};
use hub::Hub;
use report::{CellReport, Report};

/// Exit code if a CellRule does not count, or the policy cannot be read or written.
const NOT_ACCEPTED: u8 = 1;

/// Prints the report, and returns the exit code.
pub(crate) fn run(args: &CellRulesArgs) -> ExitCode {
    let reported = report(args).and_then(|report| {
        let text = report.text(args.output)?;
        terminal::print(&text, args.output, args.color)?;
        Ok(report.is_accepted())
    });
    match reported {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => NOT_ACCEPTED.into(),
        Err(error) => terminal::failed(&error, terminal::NO_ANSWER),
    }
}

fn report(args: &CellRulesArgs) -> anyhow::Result<Report> {
    let given = object_files::cell_rules_of(&args.filename)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let hub = Hub::connect(args).await?;
        let rules = combined(hub.rules().await?, given, &args.without)?;
        let cells = hub.cells().await?;
        let (former, unreadable) = hub
            .policy()
            .await?
            .map(|policy| rules_in_policy(&policy.spec))
            .unwrap_or_default();
        let of_cells = rules_of_cells(rules.values(), &cells);
        let none = CellRules::default();
        let cells = cells.into_keys().map(|cell| {
            let wanted = of_cells.cells.get(&cell).cloned().unwrap_or_default();
            let former = former.get(&cell).unwrap_or(&none).clone();
            let report = CellReport::new(wanted, former);
            (cell, report)
        });
        let mut cells: BTreeMap<_, _> = cells.collect();
        if cells.values().any(CellReport::is_changed) {
            hub.deployments(|deployment, bound| count(&mut cells, deployment, bound))
                .await?;
        }
        Ok(Report {
            hub: hub.url,
            cells,
            too_large: too_large(policy(&of_cells).as_ref()),
            problems: of_cells.problems,
            unreadable,
        })
    })
}

/// Returns the rules of the hub and of the files, by name.
///
/// # Errors
///
/// If two files have a rule of the same name, or if the hub does not have a rule that is left out.
fn combined(
    on_hub: Vec<CellRule>,
    given: Vec<CellRule>,
    without: &[String],
) -> anyhow::Result<BTreeMap<String, CellRule>> {
    let named = on_hub.into_iter().map(|rule| (rule.name_any(), rule));
    let mut rules: BTreeMap<_, _> = named.collect();
    for name in without {
        if rules.remove(name).is_none() {
            bail!("--without: the hub has no CellRule {name}");
        }
    }
    let mut seen = BTreeSet::new();
    for rule in given {
        let name = rule.name_any();
        if !seen.insert(name.clone()) {
            bail!("--filename: CellRule {name} is given twice");
        }
        rules.insert(name, rule);
    }
    Ok(rules)
}

/// Counts a WorkloadDeployment in its cells.
fn count(
    cells: &mut BTreeMap<String, CellReport>,
    deployment: &WorkloadDeployment,
    bound: &[String],
) {
    for cell in bound {
        if let Some(cell) = cells.get_mut(cell) {
            cell.count(deployment);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(name: &str, site: &str) -> CellRule {
        serde_json::from_value(json!({
            "apiVersion": api::API_VERSION, "kind": "CellRule", "metadata": {"name": name},
            "spec": {"cells": {}, "rules": {"labels": [{"key": "site", "value": site}]}},
        }))
        .unwrap()
    }

    #[test]
    fn a_given_rule_replaces_that_of_the_hub() {
        let on_hub = || vec![rule("a", "1"), rule("b", "1")];
        let rules = combined(
            on_hub(),
            vec![rule("a", "2"), rule("c", "3")],
            &["b".to_owned()],
        );
        let values = rules.unwrap();
        let values: Vec<_> = values
            .iter()
            .map(|(name, rule)| (name.as_str(), rule.spec.rules.labels[0].value.as_str()))
            .collect();
        assert_eq!(values, [("a", "2"), ("c", "3")]);
        let twice = combined(on_hub(), vec![rule("a", "2"), rule("a", "3")], &[]);
        assert!(twice.unwrap_err().to_string().contains("given twice"));
        let absent = combined(on_hub(), Vec::new(), &["z".to_owned()]);
        assert!(absent.unwrap_err().to_string().contains("no CellRule z"));
    }
}
