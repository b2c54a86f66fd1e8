//! What an Instance shows about its copy: the condition `CopiedToHub`, and the events about it.

use api::Instance;
use api::condition::{self, Condition, ConditionStatus};
use api::instance::COPIED_TO_HUB;
use api::reasons::copied_to_hub as reason;
use jiff::Timestamp;

use crate::instance::plan::readiness;

/// A change of `CopiedToHub`.
#[derive(Debug, Default, PartialEq)]
pub(in crate::instance_writeback) struct CopyReport {
    /// The conditions of the Instance, if they change.
    pub(in crate::instance_writeback) conditions: Option<Vec<Condition>>,
    /// The event to publish, if the condition appeared, changed its reason or disappeared.
    pub(in crate::instance_writeback) transition: Option<CopyTransition>,
}

/// A transition of `CopiedToHub`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::instance_writeback) enum CopyTransition {
    /// The Instance is copied again.
    Copied,
    /// The Instance is not copied.
    NotCopied(CopyRefusal),
}

/// The reason why the Instance is not copied: `reason` and `message` of `CopiedToHub`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::instance_writeback) struct CopyRefusal {
    pub(in crate::instance_writeback) reason: &'static str,
    pub(in crate::instance_writeback) message: String,
}

impl CopyReport {
    /// Reports that the Instance is not copied.
    pub(super) fn not_copied(instance: &Instance, refusal: CopyRefusal, now: Timestamp) -> Self {
        let former = conditions(instance);
        let was = condition::find(former, COPIED_TO_HUB);
        let is_new = was.is_none_or(|was| was.reason != refusal.reason);
        let condition = Condition::new(
            COPIED_TO_HUB,
            ConditionStatus::False,
            refusal.reason,
            &refusal.message,
            now,
        );
        let mut conditions = former.to_vec();
        condition::set(
            &mut conditions,
            condition.observed(instance.metadata.generation),
        );
        Self {
            conditions: (conditions != former).then_some(conditions),
            transition: is_new.then_some(CopyTransition::NotCopied(refusal)),
        }
    }

    /// Reports that the hub refuses the copy or its status. `refusal` is the text to show.
    pub(in crate::instance_writeback) fn refused_by_hub(
        instance: &Instance,
        refusal: String,
        now: Timestamp,
    ) -> Self {
        let refusal = CopyRefusal {
            reason: reason::HUB_REFUSED,
            message: refusal,
        };
        Self::not_copied(instance, refusal, now)
    }

    /// Reports that the hub has stored everything that was written. Until `Ready` is current, the status was not
    /// written, so a refusal of the hub may last. The write of `Ready` triggers the next reconciliation.
    pub(in crate::instance_writeback) fn copied(instance: &Instance, now: Timestamp) -> Self {
        let Some(was) = condition::find(conditions(instance), COPIED_TO_HUB) else {
            return Self::default();
        };
        if was.reason == reason::HUB_REFUSED && readiness(instance, now).is_some() {
            return Self::default();
        }
        let mut conditions = conditions(instance).to_vec();
        condition::remove(&mut conditions, COPIED_TO_HUB);
        Self {
            conditions: Some(conditions),
            transition: Some(CopyTransition::Copied),
        }
    }
}

fn conditions(instance: &Instance) -> &[Condition] {
    instance
        .status
        .as_ref()
        .map_or(&[], |status| &status.conditions)
}
