//! Translates `observedGeneration` between planes. A generation is only meaningful on the plane that issued it
//! (docs/concepts/status.md).

use api::condition::find;
use api::{Condition, Instance, InstanceStatus};

/// The generations of a mirrored object. One is from the plane that the status comes from. The other is from the plane
/// that the status is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenerationMap {
    /// The generation of the object whose status is read.
    pub(crate) source: Option<i64>,
    /// The generation of the object whose status is written.
    pub(crate) target: Option<i64>,
    /// Whether both objects have the same spec. Only then do the two generations refer to the same spec.
    pub(crate) in_step: bool,
}

impl GenerationMap {
    /// Returns the target's generation if the source's status is about the current generation of the source and both
    /// specs are equal. Otherwise returns the former value. Returns `None` if no generation was observed.
    pub(crate) fn translate(self, observed: Option<i64>, former: Option<i64>) -> Option<i64> {
        let observed = observed?;
        if self.in_step && Some(observed) == self.source {
            self.target
        } else {
            former
        }
    }

    /// Returns the conditions with the generations of the target.
    pub(crate) fn translate_conditions(
        self,
        conditions: &[Condition],
        former: &[Condition],
    ) -> Vec<Condition> {
        let translated = conditions.iter().map(|condition| {
            let former =
                find(former, &condition.type_).and_then(|former| former.observed_generation);
            condition
                .clone()
                .observed(self.translate(condition.observed_generation, former))
        });
        translated.collect()
    }
}

/// Returns the status to write to a copy of an Instance, if it differs from the current status. `in_step` is true if
/// the copy has the spec of the source.
pub(crate) fn instance_status(
    source: &Instance,
    status: &InstanceStatus,
    copy: &Instance,
    in_step: bool,
) -> Option<InstanceStatus> {
    let former = copy.status.clone().unwrap_or_default();
    let generations = GenerationMap {
        source: source.metadata.generation,
        target: copy.metadata.generation,
        in_step,
    };
    let wanted = InstanceStatus {
        conditions: generations.translate_conditions(&status.conditions, &former.conditions),
        ..status.clone()
    };
    (wanted != former).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_translated_only_when_both_planes_hold_the_same() {
        let generations = GenerationMap {
            source: Some(7),
            target: Some(3),
            in_step: true,
        };
        assert_eq!(generations.translate(Some(7), Some(2)), Some(3));
        assert_eq!(generations.translate(Some(6), Some(2)), Some(2));
        assert_eq!(generations.translate(None, Some(2)), None);
        let behind = GenerationMap {
            in_step: false,
            ..generations
        };
        assert_eq!(behind.translate(Some(7), Some(2)), Some(2));
        assert_eq!(behind.translate(Some(7), None), None);
    }
}
