//! The rules of a registration: for which kinds and operations callers call its webhooks.

use std::future;

use serde_json::{Value, json};
use tokio::sync::watch;

/// Returns the changes of a JSON patch that give each webhook of a registration the wanted rules.
pub(super) fn changes(registration: &Value, wanted: &Value) -> Vec<Value> {
    let webhooks = registration.get("webhooks").and_then(Value::as_array);
    let webhooks = webhooks.map(Vec::as_slice).unwrap_or_default();
    let different = webhooks
        .iter()
        .enumerate()
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
        let registration = json!({"webhooks": [{"rules": wanted}, {"rules": []}, {}]});
        let expected = [1, 2].map(
            |index| json!({"op": "add", "path": format!("/webhooks/{index}/rules"), "value": wanted}),
        );
        assert_eq!(changes(&registration, &wanted), expected);
        assert_eq!(changes(&json!({}), &wanted), [json!(null); 0]);
    }
}
