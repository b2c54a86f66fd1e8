//! What answers each operation today.

use std::collections::BTreeMap;

use interpreters::lua::LuaInterpreter;
use interpreters::{InterpretedKind, Operation};

use super::hub::RegisteredWebhook;

/// What answers an operation today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answerer {
    /// The scripts of these customizations.
    Scripts(Vec<String>),
    /// This webhook, which goes on to answer.
    Webhook(String),
    /// Nothing: Karmada has a default.
    Default,
}

/// What answers today, by kind and operation.
pub(super) type Answerers = BTreeMap<(InterpretedKind, Operation), Answerer>;

/// Returns what answers today, for the kinds that have a script.
pub(super) fn answerers(scripts: &LuaInterpreter, webhooks: &[RegisteredWebhook]) -> Answerers {
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
                    Answerer::Scripts(names.into_iter().map(str::to_owned).collect())
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
