//! Checks the values of rules. The CRD has the same checks, but an operator can also write the annotation.

use std::collections::BTreeSet;

use super::{CellRule, CellRules, EnvRule, LabelRule, RULES_MAX, ReplicasRule};
use crate::allowed::{REPLICAS, REPLICAS_MAX};
use crate::identity::is_label;
use crate::label_selector::values_problem;

/// Form of the key of a label: a DNS subdomain, and a name of at most 63 characters.
pub(super) const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// Form of the value of a label.
pub(super) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// Form of the keys that only the platform sets.
pub(super) const PLATFORM_KEY: &str = r"^([-a-z0-9.]+\.)?datumapis\.com/";
/// Longest prefix of the key of a label.
const PREFIX_MAX: usize = 253;

impl CellRule {
    /// Returns a sentence for each value that is not allowed in the object. Each begins with the field. The hub's API server
    /// refuses all of them but those of the selector.
    pub fn problems(&self) -> Vec<String> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let of_name = (!is_subdomain(name))
            .then(|| format!("metadata.name: {name:?} is no name of an object"));
        let of_cells = values_problem(&self.spec.cells);
        let of_cells = of_cells.map(|problem| format!("spec.cells.{problem}"));
        let rules = &self.spec.rules;
        let of_rules = rules.problems().into_iter();
        let of_rules = of_rules.chain(rules.too_long());
        let of_rules = of_rules.chain(rules.replicas.contradiction());
        let of_rules = of_rules.map(|problem| format!("spec.rules.{problem}"));
        let of_spec = of_cells.into_iter().chain(of_rules);
        of_name.into_iter().chain(of_spec).collect()
    }
}

impl ReplicasRule {
    /// Returns a sentence if the limits of one `CellRule` contradict each other. Those of several of them together can.
    fn contradiction(&self) -> Option<String> {
        let (min, max) = (self.min?, self.max?);
        (min > max)
            .then(|| format!("replicas.min is {min}; it must not be greater than max, {max}"))
    }
}

impl CellRules {
    /// Returns a sentence for each value that is not allowed. Each begins with the field.
    pub fn problems(&self) -> Vec<String> {
        let Self {
            env,
            images,
            instance_types,
            labels,
            replicas,
        } = self;
        let mut problems = Vec::new();
        for (list, keys) in [
            ("env[].name", keys(env, |rule| &rule.name)),
            ("images[].prefix", keys(images, |rule| &rule.prefix)),
            (
                "instanceTypes[].from",
                keys(instance_types, |rule| &rule.from),
            ),
            ("labels[].key", keys(labels, |rule| &rule.key)),
        ] {
            let mut seen = BTreeSet::new();
            for key in keys {
                if key.is_empty() {
                    problems.push(format!("{list} is empty"));
                }
                if !seen.insert(key) {
                    problems.push(format!("{list}: {key:?} is there twice"));
                }
            }
        }
        if images.iter().any(|rule| rule.replacement.is_empty()) {
            problems.push("images[].replacement is empty".to_owned());
        }
        if instance_types.iter().any(|rule| rule.to.is_empty()) {
            problems.push("instanceTypes[].to is empty".to_owned());
        }
        for EnvRule { name, .. } in env.iter().filter(|rule| rule.name.contains('=')) {
            problems.push(format!("env[].name: {name:?} contains `=`"));
        }
        problems.extend(labels.iter().filter_map(label_problem));
        problems.extend(replicas_problem(replicas));
        problems
    }

    /// Returns a sentence if a list of one `CellRule` is too long. The rules of several of them together can be longer.
    fn too_long(&self) -> Option<String> {
        let Self {
            env,
            images,
            instance_types,
            labels,
            replicas: _,
        } = self;
        let lists = [
            ("env", env.len()),
            ("images", images.len()),
            ("instanceTypes", instance_types.len()),
            ("labels", labels.len()),
        ];
        let max = usize::try_from(RULES_MAX).unwrap_or_default();
        let (name, length) = lists.into_iter().find(|(_, length)| *length > max)?;
        Some(format!(
            "{name} has {length} entries; the maximum is {RULES_MAX}"
        ))
    }
}

fn keys<T>(rules: &[T], key: fn(&T) -> &String) -> Vec<&str> {
    rules.iter().map(|rule| key(rule).as_str()).collect()
}

/// The limits of several `CellRules` together can contradict each other, so that is no problem here.
fn replicas_problem(rule: &ReplicasRule) -> Option<String> {
    let limits = [("max", rule.max), ("min", rule.min)];
    let is_allowed = |limit: Option<i32>| limit.is_none_or(|limit| REPLICAS.contains(&limit));
    let (name, limit) = limits.into_iter().find(|(_, limit)| !is_allowed(*limit))?;
    let limit = limit.unwrap_or_default();
    Some(format!(
        "replicas.{name} is {limit}; it must be 1 to {REPLICAS_MAX}"
    ))
}

fn label_problem(rule: &LabelRule) -> Option<String> {
    let LabelRule { key, value } = rule;
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key.as_str()),
    };
    if !is_name(name) || !prefix.is_none_or(is_subdomain) {
        return (!key.is_empty()).then(|| format!("labels[].key: {key:?} is no key of a label"));
    }
    if prefix.is_some_and(|it| it == "datumapis.com" || it.ends_with(".datumapis.com")) {
        return Some(format!("labels[].key: {key:?} belongs to the platform"));
    }
    let is_value = value.is_empty() || is_name(value);
    (!is_value).then(|| format!("labels[].value: {value:?} is no value of a label"))
}

/// Returns whether the text has the form of a label value that is not empty.
fn is_name(text: &str) -> bool {
    is_label(
        text,
        |it| it.is_ascii_alphanumeric(),
        |it| matches!(it, '-' | '_' | '.'),
    )
}

/// Returns whether the text is a DNS subdomain (RFC 1123).
fn is_subdomain(text: &str) -> bool {
    let is_inner = |it: char| it == '-' || it.is_ascii_digit() || it.is_ascii_lowercase();
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= PREFIX_MAX && text.split('.').all(is_part)
}
