//! Collects the names at which callers reach the webhook server, from every registration.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::Uri;
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::watch;

/// The names in each registration, and their union.
pub(super) struct CallerNames {
    /// `None` for a registration that this process may not read.
    by: Mutex<Vec<Option<BTreeSet<String>>>>,
    all: watch::Sender<BTreeSet<String>>,
}

impl CallerNames {
    /// `are_all` is false if there may be a further registration, whose names stay unknown.
    pub(super) fn new(
        registrations: usize,
        are_all: bool,
        all: watch::Sender<BTreeSet<String>>,
    ) -> Self {
        let mut by = vec![Some(BTreeSet::new()); registrations];
        if !are_all {
            by.push(None);
        }
        Self {
            by: Mutex::new(by),
            all,
        }
    }

    /// Sets the names in one registration. A registration that does not exist has no names. `None` means that the names
    /// are unknown. Then no name is expected, because the certificate may be for the unknown names.
    pub(super) fn tell(&self, registration: usize, names: Option<BTreeSet<String>>) {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by.get_mut(registration) {
            *known = names;
        }
        let all = match by.iter().all(Option::is_some) {
            true => by.iter().flatten().flatten().cloned().collect(),
            false => BTreeSet::new(),
        };
        self.all.send_if_modified(|known| {
            let changed = *known != all;
            *known = all;
            changed
        });
    }
}

/// Returns the server names of the webhooks in a configuration. API servers verify the certificate of a Service for the
/// name `NAME.NAMESPACE.svc`.
pub(super) fn names(configuration: &DynamicObject) -> BTreeSet<String> {
    let webhooks = configuration.data.get("webhooks").and_then(Value::as_array);
    let webhooks = webhooks.into_iter().flatten();
    webhooks.filter_map(name).collect()
}

fn name(webhook: &Value) -> Option<String> {
    let text = |path: &str| webhook.pointer(path).and_then(Value::as_str);
    if let Some(url) = text("/clientConfig/url") {
        let url: Uri = url.parse().ok()?;
        return Some(url.host()?.trim_matches(['[', ']']).to_owned());
    }
    let (name, namespace) = (
        text("/clientConfig/service/name")?,
        text("/clientConfig/service/namespace")?,
    );
    Some(format!("{name}.{namespace}.svc"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_and_a_service_name_the_server() {
        let configuration = json!({"metadata": {"name": "x"}, "webhooks": [
            {"clientConfig": {"url": "https://compute.example:9443/interpret"}},
            {"clientConfig": {"url": "https://[::1]:9443/interpret"}},
            {"clientConfig": {"service": {"name": "webhook", "namespace": "compute", "path": "/x"}}},
            {"clientConfig": {"service": {"name": "webhook"}}},
            {"clientConfig": {"url": 3}},
            {},
        ]});
        let found = names(&serde_json::from_value(configuration).unwrap());
        let found: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["::1", "compute.example", "webhook.compute.svc"]);
    }

    #[test]
    fn the_names_of_every_registration_count_and_those_of_a_deleted_one_do_not() {
        let (tell, all) = watch::channel(BTreeSet::new());
        let names = CallerNames::new(2, true, tell);
        let set = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|&name| name.to_owned()).collect()
        };
        for (registration, told, expected) in [
            (0, Some(set(&["a"])), set(&["a"])),
            (1, Some(set(&["b"])), set(&["a", "b"])),
            (0, Some(set(&[])), set(&["b"])),
            // The certificate may be for names that this process may not read.
            (0, None, set(&[])),
            (0, Some(set(&["a"])), set(&["a", "b"])),
        ] {
            names.tell(registration, told);
            assert_eq!(*all.borrow(), expected);
        }
    }

    /// With internal service discovery, the registrations of admission cannot be read.
    #[test]
    fn no_name_is_expected_while_a_registration_is_out_of_reach() {
        let (tell, all) = watch::channel(BTreeSet::new());
        let names = CallerNames::new(1, false, tell);
        names.tell(0, Some(BTreeSet::from(["a".to_owned()])));
        assert!(all.borrow().is_empty());
    }
}
