//! The answerer of each operation: today, and after the customizations are removed.

use std::collections::BTreeMap;

use interpreters::lua::LuaInterpreter;
use interpreters::{InterpretedKind, Operation};

use super::hub::RegisteredWebhook;

/// The answerer of an operation today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answerer {
    /// The scripts of these customizations. After their removal, the successor answers.
    Scripts(Vec<String>, Successor),
    /// This webhook, which goes on to answer.
    Webhook(String),
    /// Nothing: Karmada has a default.
    Default,
}

/// The answerer of an operation after the customizations are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// compute-federation.
    Native,
    /// Nothing yet: compute-federation must be registered first.
    Unregistered,
    /// This webhook of somebody else, which Karmada prefers.
    Other(String),
}

impl Successor {
    /// Returns the successor, if `first` is the first webhook that answers, and `registration` is the name of the
    /// configuration of compute-federation. Karmada tries webhooks in the order of their names.
    fn of(first: Option<&RegisteredWebhook>, registration: &str) -> Self {
        match first.map(|webhook| webhook.name.as_str()) {
            Some(name) if name.split('/').next() == Some(registration) => Self::Native,
            Some(name) if *name < *format!("{registration}/") => Self::Other(name.to_owned()),
            Some(_) | None => Self::Unregistered,
        }
    }
}

/// The answerers of today, by kind and operation.
pub(super) type Answerers = BTreeMap<(InterpretedKind, Operation), Answerer>;

/// Returns the answerers of today, for the kinds that have a script. `registration` is the name of the
/// ResourceInterpreterWebhookConfiguration of compute-federation.
pub(super) fn answerers(
    scripts: &LuaInterpreter,
    webhooks: &[RegisteredWebhook],
    registration: &str,
) -> Answerers {
    let mut answerers = Answerers::new();
    for kind in InterpretedKind::ALL {
        let scripts_for =
            |operation| scripts.customizations_for(api::API_VERSION, kind.as_str(), operation);
        if Operation::ALL
            .iter()
            .all(|operation| scripts_for(*operation).is_empty())
        {
            continue;
        }
        for operation in Operation::ALL {
            let names = scripts_for(operation);
            let webhook = webhooks
                .iter()
                .find(|webhook| webhook.answers.contains(&(kind, operation)));
            let answerer = match webhook {
                _ if !names.is_empty() => {
                    let names = names.into_iter().map(str::to_owned).collect();
                    Answerer::Scripts(names, Successor::of(webhook, registration))
                }
                Some(webhook) => Answerer::Webhook(webhook.name.clone()),
                // Karmada asks this operation only with a feature gate.
                None if operation == Operation::InterpretComponent => continue,
                None => Answerer::Default,
            };
            answerers.insert((kind, operation), answerer);
        }
    }
    answerers
}

/// Returns the operations that are compared. A webhook answers the others today, and goes on to answer them.
pub(super) fn compared(answerers: &Answerers) -> BTreeMap<InterpretedKind, Vec<Operation>> {
    let mut operations: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for ((kind, operation), answerer) in answerers {
        if !matches!(answerer, Answerer::Webhook(_)) {
            operations.entry(*kind).or_default().push(*operation);
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use interpreters::lua::Limits;
    use serde_json::json;

    use super::*;

    const KIND: InterpretedKind = InterpretedKind::WorkloadDeployment;

    fn webhook(name: &str, operations: &[Operation]) -> RegisteredWebhook {
        RegisteredWebhook {
            name: name.to_owned(),
            answers: operations
                .iter()
                .map(|operation| (KIND, *operation))
                .collect(),
        }
    }

    fn of(webhooks: &[RegisteredWebhook]) -> Answerers {
        let customization = serde_json::from_value(json!({
            "kind": "ResourceInterpreterCustomization", "metadata": {"name": "former"},
            "spec": {
                "target": {"apiVersion": api::API_VERSION, "kind": KIND.as_str()},
                "customizations": {"retention": {"luaScript": "function Retain(d) return d end"}},
            },
        }));
        let scripts = LuaInterpreter::new(&[customization.unwrap()], Limits::default()).unwrap();
        answerers(&scripts, webhooks, "compute-federation")
    }

    #[test]
    fn the_first_webhook_succeeds_the_scripts() {
        let ours = webhook("compute-federation/w", &[Operation::Retain]);
        let before = webhook("aaa/w", &[Operation::Retain]);
        let after = webhook("other/w", &[Operation::Retain]);
        let unrelated = webhook("aaa/w", &[Operation::InterpretHealth]);
        let foreign = Successor::Other("aaa/w".to_owned());
        for (webhooks, expected) in [
            (vec![], Successor::Unregistered),
            (vec![ours.clone()], Successor::Native),
            (
                vec![unrelated, ours.clone(), after.clone()],
                Successor::Native,
            ),
            (vec![before.clone(), ours], foreign.clone()),
            (vec![before], foreign),
            (vec![after], Successor::Unregistered),
        ] {
            let answerers = of(&webhooks);
            let expected = Answerer::Scripts(vec!["former".to_owned()], expected);
            assert_eq!(answerers.get(&(KIND, Operation::Retain)), Some(&expected));
        }
    }

    #[test]
    fn what_a_webhook_answers_today_is_not_compared() {
        let registered = [webhook(
            "compute-federation/w",
            &[Operation::InterpretHealth],
        )];
        let answerers = of(&registered);
        let operations = compared(&answerers);
        let operations = operations.get(&KIND).unwrap();
        assert!(operations.contains(&Operation::Retain));
        assert!(operations.contains(&Operation::InterpretReplica));
        assert!(!operations.contains(&Operation::InterpretHealth));
        assert!(!operations.contains(&Operation::InterpretComponent));
        assert_eq!(compared(&of(&[])).len(), 1);
    }
}
