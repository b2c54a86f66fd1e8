//! The triggers of the customization controller.

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{HubSource, Trigger};

pub(crate) const ON_HUB: &[Trigger<HubSource, (), ObjectKey>] = &[Trigger {
    source: HubSource::ShadowingCustomizations,
    reason: "the customization was found to shadow the webhook, and its Event is due",
    keys: |change, ()| {
        let customization = change.current.or(change.former);
        customization.map(ObjectKey::of).into_iter().collect()
    },
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::metadata;

    #[test]
    fn a_shadowing_customization_wakes_its_event() {
        let [former, current] =
            ["1", "2"].map(|it| metadata(serde_json::json!({"name": "c", "resourceVersion": it})));
        let case = |name, source, former, current, is_due: bool| TriggerCase {
            name,
            source,
            former,
            current,
            keys: (is_due.then(|| ObjectKey {
                namespace: String::new(),
                name: "c".to_owned(),
            }))
            .into_iter()
            .collect(),
        };
        let shadowing = HubSource::ShadowingCustomizations;
        let cases = [
            case("new", shadowing, None, Some(&current), true),
            case("changed", shadowing, Some(&former), Some(&current), true),
            case("copy", HubSource::Deployments, None, Some(&current), false),
        ];
        assert_cases(ON_HUB, &cases, &());
    }
}
