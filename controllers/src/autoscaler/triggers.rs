//! The triggers of the autoscaler controller.

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), ObjectKey>] = &[
    Trigger {
        source: CellSource::Deployments,
        reason: "the WorkloadDeployment changed",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::Autoscalers,
        reason: "the HorizontalPodAutoscaler has the name of the WorkloadDeployment",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::named;

    #[test]
    fn changes_of_a_deployment_and_of_its_autoscaler_wake_its_key() {
        let web = named("ns-1", "web");
        let case = |name, source, former, current, keys: &[&str]| TriggerCase {
            name,
            source,
            former,
            current,
            keys: keys
                .iter()
                .map(|name| ObjectKey::of(&named("ns-1", name)))
                .collect(),
        };
        let (deployments, autoscalers) = (CellSource::Deployments, CellSource::Autoscalers);
        #[rustfmt::skip]
        let cases = [
            case("new", deployments, None, Some(&web), &["web"]),
            case("changed", deployments, Some(&web), Some(&web), &["web"]),
            case("deleted", deployments, Some(&web), None, &["web"]),
            case("new autoscaler", autoscalers, None, Some(&web), &["web"]),
            case("deleted autoscaler", autoscalers, Some(&web), None, &["web"]),
            case("Instance", CellSource::Instances, None, Some(&web), &[]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
