//! The rules of the registration for customizations: for which kinds and operations Karmada calls its webhook.

use std::future;

use serde_json::{Value, json};
use tokio::sync::watch;

/// Name of the webhook of [`Registration::CUSTOMIZATIONS`](super::Registration::CUSTOMIZATIONS).
pub const WEBHOOK_OF_CUSTOMIZATIONS: &str = "customizations.compute.datumapis.com";

/// Returns the changes of a JSON patch that give our webhook of a registration the wanted rules. Other webhooks have
/// rules of their own.
pub(super) fn changes(registration: &Value, wanted: &Value) -> Vec<Value> {
    let webhooks = registration.get("webhooks").and_then(Value::as_array);
    let webhooks = webhooks.map(Vec::as_slice).unwrap_or_default();
    let different = webhooks
        .iter()
        .enumerate()
        .filter(|(_, webhook)| webhook.get("name") == Some(&WEBHOOK_OF_CUSTOMIZATIONS.into()))
        .filter(|(_, webhook)| webhook.get("rules") != Some(wanted));
    different
        .map(|(index, _)| {
            json!({"op": "add", "path": format!("/webhooks/{index}/rules"), "value": wanted})
        })
        .collect()
}

/// Waits until the wanted rules change.
pub(super) async fn changed(rules: Option<&mut watch::Receiver<Option<Value>>>) {
    if let Some(rules) = rules
        && rules.changed().await.is_ok()
    {
        return;
    }
    future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_rules_are_changed() {
        let wanted = json!([{"kinds": ["Pod"]}]);
        let webhook = |rules: &Value| json!({"name": WEBHOOK_OF_CUSTOMIZATIONS, "rules": rules});
        let registration =
            |rules: &Value| json!({"webhooks": [{"name": "other", "rules": []}, webhook(rules)]});
        let expected = json!({"op": "add", "path": "/webhooks/1/rules", "value": wanted});
        let expected = [expected];
        for rules in [json!([]), Value::Null] {
            assert_eq!(changes(&registration(&rules), &wanted), expected);
        }
        assert_eq!(changes(&registration(&wanted), &wanted), [json!(null); 0]);
        assert_eq!(changes(&json!({}), &wanted), [json!(null); 0]);
    }
}
