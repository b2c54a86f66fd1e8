//! The scripts of ResourceInterpreterCustomizations, by kind and operation.

use std::collections::BTreeMap;

use api::karmada::ResourceInterpreterCustomization;
use api::karmada::customization::CustomizationRules;
use thiserror::Error;

use super::vm::Script;
use crate::error::Quoted;
use crate::review::Operation;

/// Largest script, in bytes. The compiler of Lua cannot be interrupted, and can need quadratic time.
const SCRIPT_MAX: usize = 64 << 10;

/// A ResourceInterpreterCustomization cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("ResourceInterpreterCustomization {customization}: {field}: {problem}")]
pub struct CustomizationError {
    /// Name of the customization.
    pub customization: String,
    /// Path of the field.
    pub field: String,
    /// The problem with the field, and the fix.
    pub problem: String,
}

/// A compiled script and its place.
#[derive(Debug)]
pub(super) struct PlacedScript {
    /// Name of the customization.
    pub(super) customization: String,
    /// Name of the field below `spec.customizations`.
    pub(super) rule: &'static str,
    pub(super) script: Script,
}

/// `apiVersion` and `kind`.
pub(super) type TargetKind = (String, String);

/// The scripts of all customizations. A script is named by its number.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    pub(super) all: Vec<PlacedScript>,
    by_kind: BTreeMap<TargetKind, BTreeMap<Operation, Vec<usize>>>,
}

/// Returns the script of an operation, the name of its field, and the name of its function.
fn rule(
    rules: &CustomizationRules,
    operation: Operation,
) -> (Option<&str>, &'static str, &'static str) {
    let (rule, field, function) = match operation {
        Operation::InterpretReplica => (&rules.replica_resource, "replicaResource", "GetReplicas"),
        Operation::InterpretComponent => (
            &rules.component_resource,
            "componentResource",
            "GetComponents",
        ),
        Operation::ReviseReplica => (&rules.replica_revision, "replicaRevision", "ReviseReplica"),
        Operation::Retain => (&rules.retention, "retention", "Retain"),
        Operation::AggregateStatus => (
            &rules.status_aggregation,
            "statusAggregation",
            "AggregateStatus",
        ),
        Operation::InterpretStatus => (
            &rules.status_reflection,
            "statusReflection",
            "ReflectStatus",
        ),
        Operation::InterpretHealth => (
            &rules.health_interpretation,
            "healthInterpretation",
            "InterpretHealth",
        ),
        Operation::InterpretDependency => (
            &rules.dependency_interpretation,
            "dependencyInterpretation",
            "GetDependencies",
        ),
    };
    let script = rule.as_ref().map(|rule| rule.lua_script.as_str());
    (script.filter(|script| !script.is_empty()), field, function)
}

/// Returns the name of the field below `spec.customizations` that has the script of an operation.
pub fn script_field(operation: Operation) -> &'static str {
    let (_, field, _) = rule(&CustomizationRules::default(), operation);
    field
}

impl Scripts {
    /// Compiles the scripts. If several customizations have a script for one operation, the customization with the
    /// first name wins. For InterpretDependency, all of them count.
    pub(super) fn compile(
        customizations: &[ResourceInterpreterCustomization],
    ) -> Result<Self, Vec<CustomizationError>> {
        let mut sorted: Vec<_> = customizations.iter().collect();
        sorted.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut scripts = Self::default();
        let mut errors = Vec::new();
        for customization in sorted {
            scripts.add(customization, &mut errors);
        }
        match errors.is_empty() {
            true => Ok(scripts),
            false => Err(errors),
        }
    }

    fn add(
        &mut self,
        customization: &ResourceInterpreterCustomization,
        errors: &mut Vec<CustomizationError>,
    ) {
        let name = customization.metadata.name.clone().unwrap_or_default();
        let mut refuse = |field: String, problem: String| {
            errors.push(CustomizationError {
                customization: name.clone(),
                field,
                problem,
            });
        };
        let target = &customization.spec.target;
        for (field, value) in [
            ("spec.target.apiVersion", &target.api_version),
            ("spec.target.kind", &target.kind),
        ] {
            if value.is_empty() {
                refuse(field.to_owned(), "is missing".to_owned());
            }
        }
        let kind = (target.api_version.clone(), target.kind.clone());
        for operation in Operation::ALL {
            let (source, rule, function) = rule(&customization.spec.customizations, operation);
            let Some(source) = source else { continue };
            if source.len() > SCRIPT_MAX {
                let problem = format!("has {} bytes, must have at most {SCRIPT_MAX}", source.len());
                refuse(format!("spec.customizations.{rule}.luaScript"), problem);
                continue;
            }
            match Script::compile(source, function) {
                Ok(script) => {
                    let number = self.all.len();
                    self.all.push(PlacedScript {
                        customization: name.clone(),
                        rule,
                        script,
                    });
                    let of_kind = self.by_kind.entry(kind.clone()).or_default();
                    of_kind.entry(operation).or_default().push(number);
                }
                Err(problem) => {
                    refuse(format!("spec.customizations.{rule}.luaScript"), problem);
                }
            }
        }
    }

    /// Returns the kinds with scripts, sorted.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &TargetKind> {
        self.by_kind.keys()
    }

    /// Returns the numbers of the scripts for an operation, sorted by the names of their customizations. There is at
    /// least one.
    ///
    /// # Errors
    ///
    /// If no customization is for the kind, or if none has a script for the operation.
    pub(super) fn of(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
    ) -> Result<&[usize], String> {
        let target = (api_version.to_owned(), kind.to_owned());
        let Some(operations) = self.by_kind.get(&target) else {
            let known = self.by_kind.keys();
            let known: Vec<_> = known
                .map(|(api_version, kind)| format!("{api_version} {kind}"))
                .collect();
            let known = match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            return Err(format!(
                "no customization is for {} {}; they are for: {known}",
                Quoted(api_version),
                Quoted(kind)
            ));
        };
        operations
            .get(&operation)
            .map(Vec::as_slice)
            .ok_or_else(|| {
                let known: Vec<_> = operations.keys().map(|known| known.as_str()).collect();
                let known = known.join(", ");
                format!(
                    "the customization has no script for {operation}; it has: {known}",
                    operation = operation.as_str()
                )
            })
    }
}
