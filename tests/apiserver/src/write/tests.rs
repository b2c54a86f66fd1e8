use super::*;
use crate::state::WatchEventType::{Added, Deleted, Modified};

fn key(name: &str) -> Key {
    ("n".to_owned(), name.to_owned())
}

/// Returns an API server with garbage collection, and the kind of its object `a`. This object has a finalizer.
fn server() -> (ApiServer, KindId) {
    let server = ApiServer::new().with_garbage_collection();
    let namespace = json!({"metadata": {"name": "n"}});
    let namespaces = KindId::named("Namespace");
    server.create(namespaces, "", namespace).unwrap();
    let kind = KindId::named("WorkloadDeployment");
    let object = json!({"metadata": {"name": "a", "finalizers": ["f"]}, "spec": {"s": 1}, "status": {"t": 1}});
    server.create(kind, "n", object).unwrap();
    (server, kind)
}

fn merge(server: &ApiServer, kind: KindId, part: ObjectPart, body: Value) -> Value {
    let change = ObjectChange::Merge(body);
    let (_, stored) = server.change(kind, &key("a"), part, change).unwrap();
    stored.value()
}

#[test]
fn the_status_is_written_by_itself_and_the_generation_counts_specs() {
    let (server, kind) = server();
    let object = merge(
        &server,
        kind,
        ObjectPart::Status,
        json!({"status": {"t": 2}, "spec": {"s": 9}}),
    );
    let parts = |object: &Value| {
        (
            object["spec"].clone(),
            object["status"].clone(),
            object["metadata"]["generation"].clone(),
        )
    };
    assert_eq!(parts(&object), (json!({"s": 1}), json!({"t": 2}), json!(1)));
    let body = json!({"status": {"t": 3}, "spec": {"s": 2}});
    let object = merge(&server, kind, ObjectPart::Main, body.clone());
    assert_eq!(parts(&object), (json!({"s": 2}), json!({"t": 2}), json!(2)));
    let again = merge(&server, kind, ObjectPart::Main, body);
    assert_eq!(again["metadata"], object["metadata"]);
}

#[test]
fn a_write_to_another_version_or_another_object_is_refused() {
    let (server, kind) = server();
    for (body, code) in [
        (json!({"metadata": {"resourceVersion": "1"}}), 409),
        (json!({"metadata": {"uid": "other"}}), 422),
    ] {
        let refused = server.change(kind, &key("a"), ObjectPart::Main, ObjectChange::Merge(body));
        assert_eq!(refused.err().unwrap().code.as_u16(), code);
    }
    let options = json!({"preconditions": {"uid": "other"}});
    let refused = server.delete(kind, &key("a"), &options);
    assert_eq!(refused.err().unwrap().code, StatusCode::CONFLICT);
}

#[test]
fn an_object_goes_with_its_last_finalizer_and_its_dependents_follow() {
    let (server, kind) = server();
    let uid = text(
        &server.stored(kind, &key("a")).unwrap().value(),
        "/metadata/uid",
    )
    .to_owned();
    let owned = json!({"metadata": {"name": "b", "ownerReferences": [{"uid": uid}]}});
    server.create(kind, "n", owned).unwrap();
    let (is_gone, _) = server.delete(kind, &key("a"), &json!({})).unwrap();
    assert!(!is_gone);
    merge(
        &server,
        kind,
        ObjectPart::Main,
        json!({"metadata": {"finalizers": []}}),
    );
    assert_eq!(server.count(kind), 0);
    let (events, _) = server.since(kind, 0).unwrap();
    let types: Vec<_> = events.iter().map(|event| event.type_).collect();
    assert_eq!(types, [Added, Added, Modified, Deleted, Deleted]);
}

#[test]
fn a_refusal_names_the_absent_namespace() {
    let (server, kind) = server();
    let refused = server.create(kind, "m", json!({"metadata": {"name": "a"}}));
    let status = refused.err().unwrap().status();
    assert_eq!(status["details"]["name"], "m");
    assert_eq!(status["details"]["kind"], "namespaces");
}
