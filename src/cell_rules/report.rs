//! The report of the command: the changes of each cell by its rules.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use api::{CellRules, WorkloadDeployment};
use controllers::cell_rules::{Problem, RulesOfCell};
use serde_json::{Value, json};

use crate::args::OutputForm;

/// The changes by the rules, in all cells.
pub(super) struct Report {
    /// Address of the hub.
    pub(super) hub: String,
    /// The cells of the hub, by name.
    pub(super) cells: BTreeMap<String, CellReport>,
    /// Why a CellRule does not count, or not for all its cells, by its name.
    pub(super) problems: BTreeMap<String, Problem>,
    /// Why the policy would not be written, if it would not.
    pub(super) too_large: Option<String>,
    /// Sentences about rules in the policy of the hub that cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// The changes by the rules in one cell.
pub(super) struct CellReport {
    wanted: Arc<RulesOfCell>,
    former: CellRules,
    /// WorkloadDeployments in the cell. Counted only if the rules of a cell change.
    deployments: usize,
    /// WorkloadDeployments whose template changes.
    rolled_out: usize,
    /// WorkloadDeployments whose number of Instances, or its limits for an autoscaler, change. Each cell of a city is
    /// counted as if it got the whole number.
    scaled: usize,
}

impl CellReport {
    pub(super) fn new(wanted: Arc<RulesOfCell>, former: CellRules) -> Self {
        Self {
            wanted,
            former,
            deployments: 0,
            rolled_out: 0,
            scaled: 0,
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.wanted.rules != self.former
    }

    /// Counts a WorkloadDeployment of the cell.
    pub(super) fn count(&mut self, deployment: &WorkloadDeployment) {
        self.deployments += 1;
        if self.is_changed() {
            let [mut with, mut without] = [deployment.clone(), deployment.clone()];
            self.wanted.rules.apply(&mut with);
            self.former.apply(&mut without);
            self.rolled_out += usize::from(with.spec.template != without.spec.template);
            let numbers = [with, without].map(|it| (it.spec.replicas, it.spec.scale_settings));
            let [with, without] = numbers;
            self.scaled += usize::from(with != without);
        }
    }

    /// Returns the names of the lists of rules that differ.
    fn changed_fields(&self) -> Vec<&'static str> {
        let CellRules {
            env,
            images,
            instance_types,
            labels,
            replicas,
        } = &self.former;
        let wanted = &self.wanted.rules;
        let fields = [
            ("env", *env != wanted.env),
            ("images", *images != wanted.images),
            ("instanceTypes", *instance_types != wanted.instance_types),
            ("labels", *labels != wanted.labels),
            ("replicas", *replicas != wanted.replicas),
        ];
        let changed = fields.into_iter().filter(|(_, differ)| *differ);
        changed.map(|(name, _)| name).collect()
    }
}

impl Report {
    /// Returns whether all rules count, and the report is complete.
    pub(super) fn is_accepted(&self) -> bool {
        self.problems.is_empty() && self.too_large.is_none() && self.unreadable.is_empty()
    }

    /// Returns the report in this form.
    ///
    /// # Errors
    ///
    /// If it cannot be written in this form.
    pub(super) fn text(&self, form: OutputForm) -> anyhow::Result<String> {
        Ok(match form {
            OutputForm::Text => self.for_people()?,
            OutputForm::Json => serde_json::to_string_pretty(&self.as_json())? + "\n",
            OutputForm::Yaml => serde_saphyr::to_string(&self.as_json())?,
        })
    }

    fn as_json(&self) -> Value {
        let cell = |(name, cell): (&String, &CellReport)| {
            json!({
                "name": name,
                "cellRules": cell.wanted.names,
                "rules": cell.wanted.rules,
                "formerRules": cell.former,
                "changed": cell.changed_fields(),
                "deployments": cell.deployments,
                "rolledOut": cell.rolled_out,
                "scaled": cell.scaled,
            })
        };
        let problem = |(name, problem): (&String, &Problem)| json!({"cellRule": name, "reason": problem.reason, "message": problem.message});
        json!({
            "hub": self.hub,
            "cells": self.cells.iter().map(cell).collect::<Vec<_>>(),
            "notAccepted": self.problems.iter().map(problem).collect::<Vec<_>>(),
            "tooLarge": self.too_large,
            "unreadable": self.unreadable,
        })
    }

    fn for_people(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        for (name, cell) in &self.cells {
            let rules = match cell.wanted.names.as_slice() {
                [] => "no rules".to_owned(),
                names => names.join(", "),
            };
            write!(text, "{name}: {rules}; ")?;
            match cell.changed_fields().as_slice() {
                [] => writeln!(text, "unchanged")?,
                changed => writeln!(
                    text,
                    "changed: {}; {} of {} WorkloadDeployments are rolled out again{}",
                    changed.join(", "),
                    cell.rolled_out,
                    cell.deployments,
                    match cell.scaled {
                        0 => String::new(),
                        scaled => format!(", {scaled} can be scaled"),
                    },
                )?,
            }
        }
        for (name, problem) in &self.problems {
            writeln!(text, "CellRule {name} is not accepted: {}", problem.message)?;
        }
        if let Some(problem) = &self.too_large {
            writeln!(text, "the policy would not be written: {problem}")?;
        }
        for problem in &self.unreadable {
            writeln!(text, "the policy on the hub cannot be read: {problem}")?;
        }
        if self.cells.is_empty() {
            writeln!(text, "the hub has no cells")?;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_a_line() {
        let rules = |text: &str| CellRules::parse(text).unwrap();
        let images = rules(r#"{"images":[{"prefix":"app","replacement":"mirror/app"}]}"#);
        let deployment: WorkloadDeployment = serde_json::from_value(json!({
            "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "metadata": {"name": "web"},
            "spec": {
                "cityCode": "DFW", "placementName": "near", "workloadRef": {"name": "web", "uid": "1"},
                "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 1},
                "template": {"spec": {"networkInterfaces": [], "runtime": {
                    "resources": {"instanceType": "a/small"},
                    "sandbox": {"containers": [{"name": "app", "image": "app:1"}]},
                }}},
            },
        }))
        .unwrap();
        let mut virtual_machine = deployment.clone();
        virtual_machine.spec.template.spec.runtime.sandbox = None;
        let wanted = Arc::new(RulesOfCell {
            names: vec!["far".to_owned()],
            rules: images.clone(),
        });
        let mut far = CellReport::new(wanted.clone(), CellRules::default());
        for deployment in [&deployment, &virtual_machine] {
            far.count(deployment);
        }
        let report = Report {
            hub: "https://hub".to_owned(),
            cells: BTreeMap::from([
                ("a".to_owned(), far),
                ("b".to_owned(), CellReport::new(wanted, images)),
                (
                    "c".to_owned(),
                    CellReport::new(Arc::default(), CellRules::default()),
                ),
            ]),
            problems: BTreeMap::from([(
                "bad".to_owned(),
                Problem {
                    reason: "Invalid",
                    message: "spec.cells: no".to_owned(),
                },
            )]),
            too_large: None,
            unreadable: Vec::new(),
        };
        assert!(!report.is_accepted());
        assert_eq!(
            report.text(OutputForm::Text).unwrap(),
            "a: far; changed: images; 1 of 2 WorkloadDeployments are rolled out again\n\
             b: far; unchanged\nc: no rules; unchanged\nCellRule bad is not accepted: spec.cells: no\n"
        );
        let json: Value = serde_json::from_str(&report.text(OutputForm::Json).unwrap()).unwrap();
        assert_eq!(json["cells"][0]["rolledOut"], 1);
        assert_eq!(json["notAccepted"][0]["reason"], "Invalid");
    }
}
