//! How a cache applies the events of a watch.

mod following;
mod histories;
mod slots;

use std::mem;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::metrics::Metrics;

type TolerantMap = tolerant::Tolerant<ConfigMap>;

/// A reflector, and the changes with which its handlers were called.
struct ReflectorFixture {
    reflector: Reflector<ConfigMap>,
    told: Arc<Mutex<Vec<String>>>,
}

fn fixture() -> ReflectorFixture {
    let mut reflector = Reflector::new("test", &Metrics::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    reflector.on_change({
        let told = Arc::clone(&told);
        move |change| {
            let [former, current] = [change.former, change.current]
                .map(|metadata| metadata.map_or_else(|| "-".to_owned(), describe));
            let versions = change.versions().count();
            assert_eq!(
                versions,
                usize::from(former != "-") + usize::from(current != "-")
            );
            told.lock().unwrap().push(format!("{former} {current}"));
        }
    });
    ReflectorFixture { reflector, told }
}

impl ReflectorFixture {
    fn apply(&mut self, event: Event<TolerantMap>) {
        self.reflector.apply(event);
    }

    fn list(&mut self, objects: Vec<TolerantMap>) {
        self.apply(Event::Init);
        for object in objects {
            self.apply(Event::InitApply(object));
        }
        self.apply(Event::InitDone);
    }

    fn told(&self) -> Vec<String> {
        mem::take(&mut self.told.lock().unwrap())
    }

    /// Returns names and versions of the cached objects in namespace `ns`.
    fn known(&self) -> Vec<String> {
        let known = self.reflector.cache().list("ns").unwrap();
        known
            .iter()
            .map(|object| describe(&object.metadata))
            .collect()
    }
}

fn describe(metadata: &ObjectMeta) -> String {
    format!(
        "{}@{}",
        metadata.name.as_deref().unwrap(),
        metadata.resource_version.as_deref().unwrap()
    )
}

fn raw(name: &str, uid: &str, version: u32, more: &Value) -> TolerantMap {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string()},
    });
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn guarded(name: &str, version: u32) -> TolerantMap {
    raw(name, name, version, &json!({}))
}

fn object(name: &str, uid: &str, version: u32) -> ConfigMap {
    raw(name, uid, version, &json!({})).0.0.unwrap()
}

#[test]
fn a_cache_is_synced_once_it_has_been_listed() {
    let mut fixture = fixture();
    let synced = fixture.reflector.cache().synced();
    fixture.apply(Event::Init);
    fixture.apply(Event::InitApply(guarded("a", 1)));
    assert!(!*synced.borrow());
    assert!(
        fixture.known().is_empty(),
        "a list that is not complete decides nothing"
    );
    fixture.apply(Event::InitDone);
    assert!(*synced.borrow());
    assert_eq!(fixture.known(), ["a@1"]);
}

#[test]
fn handlers_get_both_versions_of_a_change_and_the_deletion() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1)]);
    assert_eq!(fixture.told(), ["- a@1"]);
    fixture.apply(Event::Apply(guarded("a", 2)));
    assert_eq!(fixture.told(), ["a@1 a@2"]);
    fixture.apply(Event::Delete(guarded("a", 3)));
    assert_eq!(
        (fixture.told(), fixture.known()),
        (vec!["a@3 -".to_owned()], vec![])
    );
}

/// I-24: `managedFields` often need more memory than the rest of the object.
#[test]
fn managed_fields_are_dropped_however_an_object_reaches_the_cache() {
    let managed = |name: &str, version: u32| {
        let metadata = json!({
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "someone", "operation": "Update", "fieldsV1": {"f:data": {}}}],
        });
        raw(name, name, version, &json!({"metadata": metadata}))
    };
    let written = managed("c", 3).0.0.unwrap();
    assert!(written.metadata.managed_fields.is_some());
    let mut fixture = fixture();
    fixture.list(vec![managed("a", 1)]);
    fixture.apply(Event::Apply(managed("b", 2)));
    let cache = fixture.reflector.cache();
    cache.observe_write(written);
    assert_eq!(fixture.known(), ["a@1", "b@2", "c@3"]);
    for object in cache.list("ns").unwrap() {
        assert_eq!(object.metadata.managed_fields, None, "{object:?}");
    }
}

#[test]
fn a_new_list_reports_differences_and_missed_deletions() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1), guarded("b", 2), guarded("c", 3)]);
    fixture.told();
    fixture.list(vec![guarded("a", 1), guarded("b", 4)]);
    assert_eq!(fixture.told(), ["b@2 b@4", "c@3 -"]);
    assert_eq!(fixture.known(), ["a@1", "b@4"]);
}

#[test]
fn namespaces_are_kept_apart() {
    let mut fixture = fixture();
    let mut other = guarded("a", 1);
    other.meta_mut().namespace = Some("ns-1".into());
    fixture.list(vec![guarded("a", 2), other]);
    assert_eq!(fixture.known(), ["a@2"]);
    let cache = fixture.reflector.cache();
    assert_eq!(
        describe(&cache.get("ns-1", "a").unwrap().unwrap().metadata),
        "a@1"
    );
    assert!(cache.get("ns-2", "a").unwrap().is_none());
    assert_eq!(cache.metadata("ns").len(), 1);
}

#[test]
fn a_write_is_stored_at_once_and_older_events_do_not_undo_it() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1)]);
    let cache = fixture.reflector.cache();
    cache.observe_write(object("a", "a", 5));
    cache.observe_write(object("b", "b", 6));
    fixture.apply(Event::Apply(guarded("a", 4)));
    assert_eq!(fixture.known(), ["a@5", "b@6"]);
    cache.observe_write(object("a", "a", 3));
    assert_eq!(fixture.known(), ["a@5", "b@6"]);
    fixture.apply(Event::Apply(guarded("a", 7)));
    assert_eq!(fixture.known(), ["a@7", "b@6"]);
}

#[test]
fn the_answer_to_a_write_does_not_bring_back_a_deleted_object() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1), guarded("b", 2)]);
    let cache = fixture.reflector.cache();
    fixture.apply(Event::Delete(guarded("a", 3)));
    cache.observe_write(object("a", "a", 2));
    assert_eq!(fixture.known(), ["b@2"]);
    // A later object with the same name is another object. A late event of the former object does not remove it.
    cache.observe_write(object("a", "successor", 5));
    fixture.apply(Event::Delete(guarded("a", 3)));
    assert_eq!(fixture.known(), ["a@5", "b@2"]);
    // The write removed the last finalizer.
    let mut last = object("b", "b", 6);
    last.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        jiff::Timestamp::UNIX_EPOCH,
    ));
    fixture.apply(Event::Delete(guarded("b", 6)));
    cache.observe_write(last);
    assert_eq!(fixture.known(), ["a@5"]);
}

#[test]
fn an_object_written_during_a_list_comes_back_with_the_watch() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1)]);
    let cache = fixture.reflector.cache();
    fixture.apply(Event::Init);
    cache.observe_write(object("a", "a", 8));
    cache.observe_write(object("b", "b", 9));
    fixture.apply(Event::InitApply(guarded("a", 7)));
    fixture.apply(Event::InitDone);
    assert_eq!(fixture.known(), ["a@8"]);
    fixture.apply(Event::Apply(guarded("b", 9)));
    assert_eq!(fixture.known(), ["a@8", "b@9"]);
}

#[test]
fn a_list_of_a_restored_api_server_replaces_higher_versions() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 100), guarded("b", 101), guarded("c", 5)]);
    let cache = fixture.reflector.cache();
    cache.observe_write(object("a", "a", 102));
    cache.observe_write(object("d", "d", 103));
    fixture.apply(Event::Delete(guarded("c", 104)));
    fixture.told();
    fixture.list(vec![guarded("a", 7), guarded("c", 5)]);
    assert_eq!(fixture.known(), ["a@7", "c@5"]);
    assert_eq!(fixture.told(), ["a@100 a@7", "- c@5", "b@101 -", "d@103 -"]);
    // After the restore, versions are compared with the restored state.
    cache.observe_write(object("c", "c", 8));
    fixture.apply(Event::Apply(guarded("a", 9)));
    assert_eq!(fixture.known(), ["a@9", "c@8"]);
}

#[test]
fn handlers_are_called_for_a_write_by_the_watch_or_the_next_list() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1), guarded("b", 2), guarded("c", 3)]);
    let cache = fixture.reflector.cache();
    cache.observe_write(object("a", "a", 4));
    cache.observe_write(object("a", "a", 5));
    cache.observe_write(object("b", "b", 6));
    fixture.told();
    fixture.apply(Event::Apply(guarded("a", 4)));
    assert_eq!(fixture.told(), ["a@1 a@4"]);
    fixture.apply(Event::Apply(guarded("a", 5)));
    assert_eq!(fixture.told(), ["a@4 a@5"]);
    fixture.apply(Event::Init);
    cache.observe_write(object("c", "c", 8));
    for object in [guarded("a", 5), guarded("b", 6), guarded("c", 7)] {
        fixture.apply(Event::InitApply(object));
    }
    fixture.apply(Event::InitDone);
    assert_eq!(fixture.told(), ["b@2 b@6", "c@3 c@7"]);
    assert_eq!(fixture.known(), ["a@5", "b@6", "c@8"]);
    fixture.apply(Event::Apply(guarded("c", 8)));
    assert_eq!(fixture.told(), ["c@7 c@8"]);
}

/// An API server that is restored can lose an object between the answer to its creation and the event.
#[test]
fn a_written_object_that_a_list_lacks_is_reported_as_deleted() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1)]);
    fixture.reflector.cache().observe_write(object("b", "b", 2));
    fixture.told();
    fixture.list(vec![guarded("a", 1)]);
    assert_eq!(fixture.told(), ["b@2 -"]);
    assert_eq!(fixture.known(), ["a@1"]);
}

#[test]
fn the_answer_to_a_write_after_its_watch_event_changes_nothing() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1)]);
    fixture.apply(Event::Apply(guarded("a", 2)));
    let cache = fixture.reflector.cache();
    let known = cache.get("ns", "a").unwrap().unwrap();
    cache.observe_write(object("a", "a", 2));
    assert!(Arc::ptr_eq(&known, &cache.get("ns", "a").unwrap().unwrap()));
}

#[test]
fn an_undecodable_object_is_not_absent() {
    let mut fixture = fixture();
    fixture.list(vec![guarded("a", 1), raw("b", "b", 2, &json!({"data": 3}))]);
    let cache = fixture.reflector.cache();
    assert!(cache.get("ns", "a").unwrap().is_some());
    let error = cache.get("ns", "b").unwrap_err().to_string();
    assert!(
        error.starts_with("ConfigMap ns/b cannot be decoded: "),
        "{error}"
    );
    assert!(cache.list("ns").is_err());
    assert_eq!(cache.metadata("ns").len(), 2);
    fixture.apply(Event::Apply(guarded("b", 3)));
    assert_eq!(fixture.known(), ["a@1", "b@3"]);
}
