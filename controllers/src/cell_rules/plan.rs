//! Computes the rules of each cell.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::{CELL_RULES, CELL_RULES_STAMP};
use api::cell_rules::{ACCEPTED, CellRuleStatus};
use api::karmada::policy::{
    AnnotationsOverrider, ClusterOverridePolicySpec, OverrideRule, Overriders, ResourceSelector,
    TargetCells,
};
use api::reasons::cell_rule as reason;
use api::{CellRule, CellRules, Condition, ConditionStatus, WorkloadDeployment, condition};
use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};

use crate::names;
use crate::objects::{StringMap, is_terminating};

/// Most bytes of the rules of a cell together. They are an annotation of every WorkloadDeployment there, and an object can
/// have 256 KiB of annotations.
pub(crate) const CELL_RULES_MAX: usize = 64 * 1024;

/// Most bytes of the policy. An API server stores objects of up to 1.5 MiB.
pub(crate) const POLICY_MAX: usize = 1024 * 1024;

/// The rules of the cells.
#[derive(Debug, Default, PartialEq)]
pub struct RulesOfCells {
    /// The rules of each cell that has any, by its name.
    pub cells: BTreeMap<String, Arc<RulesOfCell>>,
    /// Why a `CellRule` does not count, or not for all its cells, by its name.
    pub problems: BTreeMap<String, Problem>,
}

/// The rules of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulesOfCell {
    /// The names of the `CellRules`, in the order in which they count.
    pub names: Vec<String>,
    /// All of them together.
    pub rules: CellRules,
}

/// Why a rule does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// A reason of `Accepted`.
    pub reason: &'static str,
    /// The message of this condition.
    pub message: String,
}

/// Computes the rules of each cell from the labels of the cells. If several rules select a cell, they count in the order
/// of their names.
pub fn rules_of_cells<'r>(
    rules: impl IntoIterator<Item = &'r CellRule>,
    cells: &BTreeMap<String, StringMap>,
) -> RulesOfCells {
    let mut result = RulesOfCells::default();
    let mut valid = BTreeMap::new();
    for rule in rules.into_iter().filter(|rule| !is_terminating(*rule)) {
        match selector(rule) {
            Ok(selector) => {
                valid.insert(rule.name_any(), (selector, rule));
            }
            Err(message) => {
                let reason = reason::INVALID;
                let problem = Problem { reason, message };
                result.problems.insert(rule.name_any(), problem);
            }
        }
    }
    // Many cells are selected by the same rules, and have the same result.
    let mut of_selection = BTreeMap::<Vec<&str>, Arc<RulesOfCell>>::new();
    for (cell, labels) in cells {
        let selecting = valid
            .iter()
            .filter(|(_, (selector, _))| selector.matches(labels));
        let selecting: Vec<_> = selecting.collect();
        let names = selecting.iter().map(|(name, _)| name.as_str());
        let of_cell = of_selection.entry(names.collect()).or_insert_with(|| {
            let rules = selecting
                .iter()
                .map(|(name, (_, rule))| (name.as_str(), *rule));
            Arc::new(combined(cell, rules, &mut result.problems))
        });
        if !of_cell.names.is_empty() {
            result.cells.insert(cell.clone(), Arc::clone(of_cell));
        }
    }
    result
}

/// Returns these rules together. Rules for which there is no space are problems. `cell` is a cell that they select.
fn combined<'r>(
    cell: &str,
    rules: impl Iterator<Item = (&'r str, &'r CellRule)>,
    problems: &mut BTreeMap<String, Problem>,
) -> RulesOfCell {
    let mut of_cell = RulesOfCell::default();
    // The text of all rules together is not longer than their texts.
    let mut size_max = 0;
    for (name, rule) in rules {
        let rules = &rule.spec.rules;
        let size = text_of(rules).len();
        if size_max + size > CELL_RULES_MAX {
            let mut with = of_cell.rules.clone();
            with.extend(rules);
            let size = text_of(&with).len();
            if size > CELL_RULES_MAX {
                let message = format!(
                    "the rules of cell {cell} would have {size} bytes together; the maximum is {CELL_RULES_MAX}"
                );
                let reason = reason::TOO_LARGE;
                let problem = Problem { reason, message };
                problems.entry(name.to_owned()).or_insert(problem);
                continue;
            }
        }
        of_cell.rules.extend(rules);
        of_cell.names.push(name.to_owned());
        size_max += size;
    }
    of_cell
}

/// Returns the value of the annotation.
fn text_of(rules: &CellRules) -> String {
    // These types have no value that JSON cannot have.
    serde_json::to_string(rules).unwrap_or_default()
}

/// Returns the policy that gives the cells their rules. Returns `None` if no cell has any.
pub fn policy(rules: &RulesOfCells) -> Option<ClusterOverridePolicySpec> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    let mut texts = BTreeMap::<&[String], String>::new();
    let cells = rules.cells.iter().filter(|(_, it)| !it.rules.is_empty());
    for (cell, of_cell) in cells {
        let text = texts.entry(&of_cell.names);
        let text = text.or_insert_with(|| text_of(&of_cell.rules));
        match groups.get_mut(text) {
            Some(group) => group.push(cell.clone()),
            None => {
                groups.insert(text.clone(), vec![cell.clone()]);
            }
        }
    }
    (!groups.is_empty()).then(|| policy_of(groups))
}

/// Returns a sentence if the policy is too large to be stored.
pub fn too_large(policy: Option<&ClusterOverridePolicySpec>) -> Option<String> {
    let size = serde_json::to_string(policy?).unwrap_or_default().len();
    (size > POLICY_MAX).then(|| {
        format!(
            "the rules of all cells have {size} bytes together, and the maximum is {POLICY_MAX}: let more cells have the \
             same rules"
        )
    })
}

/// Returns the rules of each cell that a policy has, by the name of the cell. The second list has a sentence for each part
/// that cannot be read.
pub fn rules_in_policy(
    policy: &ClusterOverridePolicySpec,
) -> (BTreeMap<String, CellRules>, Vec<String>) {
    let (mut cells, mut problems) = (BTreeMap::new(), Vec::new());
    for rule in &policy.override_rules {
        let annotations = rule.overriders.annotations_overrider.iter();
        let texts = annotations.filter_map(|it| it.value.get(CELL_RULES));
        for text in texts {
            match CellRules::parse(text) {
                Ok(rules) => {
                    let names = rule.target_cluster.cluster_names.iter();
                    cells.extend(names.map(|name| (name.clone(), rules.clone())));
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    (cells, problems)
}

/// Returns the stamp of rules. It is not 0, which means that there are no rules. It has 32 bits, so it stays
/// exact where JSON numbers are floats.
fn stamp(rules: &str) -> u32 {
    let stamp = names::number(&[rules]) >> 32;
    u32::try_from(stamp).unwrap_or_default().max(1)
}

/// Returns the stamps that the WorkloadDeployments of these cells must have according to a policy; 0 if they must have
/// none. A stamp is `None` if it is unknown, because an earlier version has written the policy.
pub(crate) fn stamps_of<'c>(
    policy: Option<&ClusterOverridePolicySpec>,
    cells: impl Iterator<Item = &'c str>,
) -> BTreeMap<&'c str, Option<i64>> {
    let mut stamps: BTreeMap<_, _> = cells.map(|cell| (cell, Some(0))).collect();
    // Of several parts for a cell, the first counts.
    let rules = policy.into_iter().flat_map(|it| it.override_rules.iter());
    for rule in rules.rev() {
        let mut annotations = rule.overriders.annotations_overrider.iter();
        let stamp = annotations.find_map(|it| it.value.get(CELL_RULES_STAMP));
        let stamp = stamp.and_then(|stamp| stamp.parse().ok());
        for name in &rule.target_cluster.cluster_names {
            if let Some(of_cell) = stamps.get_mut(name.as_str()) {
                *of_cell = stamp;
            }
        }
    }
    stamps
}

/// Returns the selector of a rule.
///
/// # Errors
///
/// A sentence that names the field if the rule is not valid.
fn selector(rule: &CellRule) -> Result<Selector, String> {
    if let Some(problem) = rule.problems().into_iter().next() {
        return Err(problem);
    }
    let selector = Selector::try_from(rule.spec.cells.clone());
    selector.map_err(|error| format!("spec.cells: {error}"))
}

/// Returns the policy that gives each group of cells its annotation.
fn policy_of(groups: BTreeMap<String, Vec<String>>) -> ClusterOverridePolicySpec {
    let rule = |(rules, cluster_names): (String, Vec<String>)| OverrideRule {
        overriders: Overriders {
            annotations_overrider: vec![AnnotationsOverrider {
                operator: "add".to_owned(),
                value: BTreeMap::from([
                    (CELL_RULES_STAMP.to_owned(), stamp(&rules).to_string()),
                    (CELL_RULES.to_owned(), rules),
                ]),
            }],
            ..Overriders::default()
        },
        target_cluster: TargetCells {
            cluster_names,
            ..TargetCells::default()
        },
    };
    ClusterOverridePolicySpec {
        override_rules: groups.into_iter().map(rule).collect(),
        resource_selectors: vec![ResourceSelector {
            api_version: api::API_VERSION.to_owned(),
            kind: WorkloadDeployment::kind(&()).into_owned(),
            ..ResourceSelector::default()
        }],
    }
}

/// Returns the statuses that differ from those of the rules. `stopped` returns why the policy is not written, if it is
/// not.
pub(super) fn changed_statuses<'r>(
    rules: &'r [Arc<CellRule>],
    of_cells: &RulesOfCells,
    stopped: impl Fn(&CellRule) -> Option<Problem>,
    now: Timestamp,
) -> Vec<(&'r CellRule, CellRuleStatus)> {
    let mut cells_of = BTreeMap::<&str, i32>::new();
    for name in of_cells.cells.values().flat_map(|it| &it.names) {
        *cells_of.entry(name).or_default() += 1;
    }
    let status = |rule: &'r Arc<CellRule>| {
        let name = rule.name_any();
        let former = rule.status.clone().unwrap_or_default();
        let stopped = stopped(rule);
        let cells = match stopped {
            // The cells keep what they have.
            Some(_) => former.cells,
            None => cells_of.get(name.as_str()).copied().unwrap_or_default(),
        };
        let (status, reason, message) = match of_cells.problems.get(&name).or(stopped.as_ref()) {
            Some(problem) => {
                let message = problem.message.clone();
                (ConditionStatus::False, problem.reason, message)
            }
            None => {
                let message = format!("cells with the rule: {cells}");
                (ConditionStatus::True, reason::ACCEPTED, message)
            }
        };
        let mut conditions = former.conditions;
        let generation = rule.metadata.generation;
        let accepted = Condition::new(ACCEPTED, status, reason, message, now);
        condition::set(&mut conditions, accepted.observed(generation));
        let status = CellRuleStatus {
            cells,
            conditions,
            observed_generation: generation,
        };
        (rule.status.as_ref() != Some(&status)).then_some((rule.as_ref(), status))
    };
    rules.iter().filter_map(status).collect()
}

#[cfg(test)]
mod tests;
