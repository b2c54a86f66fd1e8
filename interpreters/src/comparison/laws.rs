//! The intended differences between the customization that compute-federation replaces and the native interpreter.

use crate::review::{InterpretedKind, Operation};

/// An intended difference. The reference lists all laws (docs/reference/differences.md).
#[derive(Debug, PartialEq, Eq)]
pub struct Law {
    /// Name of the law.
    pub name: &'static str,
    /// The operation whose answers differ. `None` means every operation with a script.
    pub operation: Option<Operation>,
    /// The kind, if the law is for one kind only.
    pub kind: Option<InterpretedKind>,
    /// The change, and its reason.
    pub change: &'static str,
    /// The page of docs/ that states the rule of the native interpreter.
    pub source: &'static str,
}

const INTERPRETER: &str = "concepts/interpreter.md#operations";

macro_rules! laws {
    ($($constant:ident: $name:literal, $operation:expr, $kind:expr, $source:expr, $change:literal;)*) => {
        $(pub(super) const $constant: &Law = &Law {
            name: $name,
            operation: $operation,
            kind: $kind,
            change: $change,
            source: $source,
        };)*

        /// All laws.
        pub const LAWS: &[&Law] = &[$($constant),*];
    };
}

const REPLICA: Option<Operation> = Some(Operation::InterpretReplica);
const REVISE: Option<Operation> = Some(Operation::ReviseReplica);
const RETAIN: Option<Operation> = Some(Operation::Retain);
const AGGREGATE: Option<Operation> = Some(Operation::AggregateStatus);
const DEPENDENCY: Option<Operation> = Some(Operation::InterpretDependency);
const STATUS: Option<Operation> = Some(Operation::InterpretStatus);
const HEALTH: Option<Operation> = Some(Operation::InterpretHealth);
const DEPLOYMENT: Option<InterpretedKind> = Some(InterpretedKind::WorkloadDeployment);
const INSTANCE: Option<InterpretedKind> = Some(InterpretedKind::Instance);

laws! {
    REPLICAS_ARE_COUNTED: "replicas-are-counted", REPLICA, None, INTERPRETER,
        "Karmada learns the number of instances and the resources of one instance. Without a script, the object has no replicas for Karmada.";

    SHARE_IS_SET: "share-is-set", REVISE, DEPLOYMENT, INTERPRETER,
        "A cell gets its share of the replicas. Without a script, each cell gets all replicas. With Duplicated scheduling, the share is all replicas.";
    MAXIMUM_IS_DIVIDED: "maximum-is-divided", REVISE, DEPLOYMENT, INTERPRETER,
        "`maxReplicas` of a cell is in proportion to its share.";
    SHARE_IS_RECORDED: "share-is-recorded", REVISE, DEPLOYMENT, INTERPRETER,
        "The annotation `compute.datumapis.com/assigned-replicas` tells the cell its share.";

    DESIRED_REPLICAS_WIN: "desired-replicas-win", RETAIN, DEPLOYMENT, INTERPRETER,
        "If the hub's object has `spec.replicas`, the cell gets this number. The script keeps the number of the cell.";
    FORMER_SHARE_ENDS: "former-share-ends", RETAIN, DEPLOYMENT, INTERPRETER,
        "`spec.replicas` of the cell is dropped if Karmada has written it: it is a former share. The script keeps it for ever.";
    AUTOSCALER_KEEPS_REPLICAS: "autoscaler-keeps-replicas", RETAIN, DEPLOYMENT, INTERPRETER,
        "`spec.replicas` of the cell stays if an autoscaler has written it. Without a script, Karmada removes it.";
    CONTROLLER_IS_KEPT: "controller-is-kept", RETAIN, INSTANCE, INTERPRETER,
        "`spec.controller` belongs to the cell.";

    COUNTERS_ARE_SUMMED: "counters-are-summed", AGGREGATE, DEPLOYMENT, "concepts/status.md#conditions",
        "With several cells, each counter is the sum over the cells. The script takes the counters of the first cell.";
    CONDITIONS_ARE_JOINED: "conditions-are-joined", AGGREGATE, DEPLOYMENT, "concepts/status.md#conditions",
        "With several cells, conditions are joined by type. The script takes the conditions of the first cell.";
    COMMON_FIELDS_ARE_JOINED: "common-fields-are-joined", AGGREGATE, DEPLOYMENT, "concepts/status.md#conditions",
        "With several cells, `selector` and `suspended` are set only if the cells agree, and fields that compute-federation does not know are left out.";
    CELLS_ARE_REMEMBERED: "cells-are-remembered", AGGREGATE, DEPLOYMENT, "concepts/status.md#memory",
        "`status.cells` or `status.reportingCell` names the cells, and remembers their last reports.";
    LAST_REPORT_STAYS: "last-report-stays", AGGREGATE, DEPLOYMENT, "concepts/status.md#memory",
        "A cell without a status keeps its last report. A status that no known cell has reported has `Available` Unknown.";
    SILENT_CELLS_ARE_NAMED: "silent-cells-are-named", AGGREGATE, DEPLOYMENT, "concepts/status.md#cells-that-do-not-report",
        "The condition `CellsReporting` is False while a cell does not report, and names it.";
    INVALID_REPORTS_DO_NOT_COUNT: "invalid-reports-do-not-count", AGGREGATE, DEPLOYMENT, "concepts/status.md#output",
        "A status that the CRD does not allow counts as no report. The API server would refuse it.";
    NUMBERS_FIT_THE_SCHEMA: "numbers-fit-the-schema", AGGREGATE, DEPLOYMENT, "concepts/status.md#output",
        "A counter becomes the nearest integer of 32 bits. The API server would refuse others.";
    COUNTERS_ARE_PRESENT: "counters-are-present", AGGREGATE, DEPLOYMENT, "concepts/status.md#one-cell",
        "The counters that the CRD requires are always there.";
    HELPERS_ARE_LEFT_OUT: "helpers-are-left-out", AGGREGATE, DEPLOYMENT, "concepts/status.md#one-cell",
        "The helper fields of InterpretStatus are not written to the hub. The CRD does not have them.";
    GENERATIONS_ARE_TRANSLATED: "generations-are-translated", AGGREGATE, DEPLOYMENT, "concepts/status.md#generations",
        "`observedGeneration` is a generation of the hub's object, and advances only when all cells are current. The script copies the generation of the cell's object.";
    STATUS_IS_AGGREGATED: "status-is-aggregated", AGGREGATE, None, "concepts/status.md#input",
        "The hub's object gets a status from the cells. Without a script, it gets none.";
    HIGHEST_RANK_WINS: "highest-rank-wins", AGGREGATE, INSTANCE, "concepts/status.md#instances",
        "With several cells, the status with the highest rank is used, and never replaced by a lower one. The script takes the first cell.";
    INSTANCE_STATUS_STAYS: "instance-status-stays", AGGREGATE, INSTANCE, "concepts/status.md#instances",
        "A cell without a status does not change the status of the hub's object, and the first cell that reports is used.";

    TEMPLATE_IS_READ: "template-is-read", DEPENDENCY, None, INTERPRETER,
        "ConfigMaps and Secrets that the template uses go to the cells too. The script reads the annotation `compute.datumapis.com/expected-referenced-data` alone.";
    ANNOTATION_IS_READ: "annotation-is-read", DEPENDENCY, None, INTERPRETER,
        "ConfigMaps and Secrets in the annotation `compute.datumapis.com/expected-referenced-data` go to the cells. Without a script, none do.";

    HELPERS_ARE_ADDED: "helpers-are-added", STATUS, DEPLOYMENT, "concepts/status.md#input",
        "The report of a cell has additional fields, which AggregateStatus needs for generations and shares.";
    NO_STATUS_IS_EMPTY: "no-status-is-empty", STATUS, None, "concepts/status.md#input",
        "An object without a status reports `{}`. The script returns nil, which is an error for Karmada. Without a script, nothing is reported.";
    TERMINATING_REPORTS_NOTHING: "terminating-reports-nothing", STATUS, None, "concepts/status.md#input",
        "A terminating object reports `{}`: Karmada may create the object again, which must not show the former status.";

    HEALTH_IS_KNOWN: "health-is-known", HEALTH, None, INTERPRETER,
        "Karmada learns that an object is not healthy. Without a script, every object counts as healthy.";

    EMPTY_VALUES_STAY: "empty-values-stay", None, None, "concepts/lua.md#values",
        "Empty lists and empty objects stay as they are. Lua cannot tell them apart, so Karmada removes them from the result of a script.";
    NUMBERS_ARE_EXACT: "numbers-are-exact", None, None, "concepts/lua.md#values",
        "Integers above 2^53 keep their value. In Lua they lose precision.";
}
