//! The conditions about ConfigMaps and Secrets of a template.

use super::written_condition::{
    DEPLOYMENT, EVERYWHERE, INSTANCE, NOTHING, PROJECT, WrittenCondition, written,
};
use crate::condition::ConditionStatus::{False, True, Unknown};
use crate::instance::{READY, REFERENCED_DATA_READY};
use crate::reasons::referenced_data as reason;
use crate::workload_deployment::AVAILABLE;

const HELD: (&str, &str) = (
    "`ReferencedDataReady` is not True, with this reason and message, and the gate `ReferencedData` holds the Instance back.",
    "As for `ReferencedDataReady`.",
);
const NO_INSTANCE: (&str, &str) = (
    "No Instance is ready, and one of them has no data. The message names this Instance, and has the message of its condition `ReferencedDataReady`.",
    "As for `ReferencedDataReady` of the Instance.",
);

/// The entries of [`super::written_conditions`] about ConfigMaps and Secrets.
pub(super) const WRITTEN: &[WrittenCondition] = &[
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        True,
        reason::READY,
        (
            "The ConfigMaps and Secrets of the template are known, and the deployment lists them.",
            NOTHING,
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::NAME_TOO_LONG,
        (
            "The name of a ConfigMap or a Secret of the template is too long. The message names it.",
            "Give it a shorter name, and change the template.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::NOT_FOUND,
        (
            "A ConfigMap or a Secret of the template does not exist in the namespace. The message names it. Instances that run keep what they have.",
            "Create it, correct the template, or make the reference optional.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::UNAUTHORIZED,
        (
            "compute-federation may not read a ConfigMap or a Secret of the template. The message names it.",
            "Grant the rights of `compute` in the project. See [Access rights](rights.md).",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::TOO_LARGE,
        (
            "A ConfigMap or a Secret of the template has more than 262,144 bytes, or all of them together have more than 1,048,576. The companion keeps its former content.",
            "Make it smaller, or split it.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::KEY_NOT_FOUND,
        (
            "A ConfigMap or a Secret does not have a key that the template uses. The message names the key.",
            "Add the key, correct the template, or make the reference optional.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::VALUE_NOT_TEXT,
        (
            "A value that the template uses as an environment variable is not UTF-8, or is in `binaryData`. The message names the key.",
            "Mount the key as a file, or change the value.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        REFERENCED_DATA_READY,
        False,
        reason::NOT_COPIED,
        (
            "The hub refuses the copy of a ConfigMap or a Secret, or has another object of its name. The message has the words of the API server. It is tried again each minute.",
            "Follow the message.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        True,
        reason::READY,
        (
            "The ConfigMaps and Secrets of the Instance are in the cell.",
            NOTHING,
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        True,
        reason::DISABLED,
        (
            "The cell does not hold Instances back for their data, and has opened the gate of an Instance that had it.",
            "Set `featureFlags.enableReferencedDataGate` to have Instances wait.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        Unknown,
        reason::RESOLVING,
        (
            "The ConfigMaps and Secrets of the template have not been determined yet.",
            "Look at `ReferencedDataReady` of the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::AWAITING_PROPAGATION,
        (
            "The cell does not have a ConfigMap or a Secret that the Instance needs, or has an older version of it. The message names the cell and the object.",
            "Look at the ResourceBinding of the object on the hub, in the hub namespace.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::NAME_TOO_LONG,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::NOT_FOUND,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::UNAUTHORIZED,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::TOO_LARGE,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::KEY_NOT_FOUND,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        REFERENCED_DATA_READY,
        False,
        reason::VALUE_NOT_TEXT,
        (
            "As for the WorkloadDeployment in the project.",
            "As for the WorkloadDeployment in the project.",
        ),
    ),
    written(INSTANCE, EVERYWHERE, READY, False, reason::RESOLVING, HELD),
    written(
        INSTANCE,
        EVERYWHERE,
        READY,
        False,
        reason::AWAITING_PROPAGATION,
        HELD,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        READY,
        False,
        reason::NAME_TOO_LONG,
        HELD,
    ),
    written(INSTANCE, EVERYWHERE, READY, False, reason::NOT_FOUND, HELD),
    written(
        INSTANCE,
        EVERYWHERE,
        READY,
        False,
        reason::UNAUTHORIZED,
        HELD,
    ),
    written(INSTANCE, EVERYWHERE, READY, False, reason::TOO_LARGE, HELD),
    written(
        INSTANCE,
        EVERYWHERE,
        READY,
        False,
        reason::KEY_NOT_FOUND,
        HELD,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        READY,
        False,
        reason::VALUE_NOT_TEXT,
        HELD,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::RESOLVING,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::AWAITING_PROPAGATION,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::NAME_TOO_LONG,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::NOT_FOUND,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::UNAUTHORIZED,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::TOO_LARGE,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::KEY_NOT_FOUND,
        NO_INSTANCE,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        AVAILABLE,
        False,
        reason::VALUE_NOT_TEXT,
        NO_INSTANCE,
    ),
];
