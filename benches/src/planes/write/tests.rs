use super::*;

const DEPLOYMENT: &str = "WorkloadDeployment";

fn key(name: &str) -> Key {
    ("n".to_owned(), name.to_owned())
}

/// A plane with an object that has a finalizer.
fn plane() -> (Plane, KindId) {
    let plane = Plane::new("p");
    let namespace = json!({"metadata": {"name": "n"}});
    plane
        .create(KindId::named("Namespace"), "", namespace)
        .unwrap();
    let kind = KindId::named(DEPLOYMENT);
    let object = json!({"metadata": {"name": "a", "finalizers": ["f"]}, "spec": {"s": 1}, "status": {"t": 1}});
    plane.create(kind, "n", object).unwrap();
    (plane, kind)
}

fn merge(plane: &Plane, kind: KindId, part: Part, body: Value) -> Value {
    let (_, stored) = plane
        .change(kind, &key("a"), part, Change::Merge(body))
        .unwrap();
    stored.value()
}

#[test]
fn a_status_is_written_apart_and_generations_count_specs() {
    let (plane, kind) = plane();
    let object = merge(
        &plane,
        kind,
        Part::Status,
        json!({"status": {"t": 2}, "spec": {"s": 9}}),
    );
    let said = |object: &Value| {
        (
            object["spec"].clone(),
            object["status"].clone(),
            object["metadata"]["generation"].clone(),
        )
    };
    assert_eq!(said(&object), (json!({"s": 1}), json!({"t": 2}), json!(1)));
    let body = json!({"status": {"t": 3}, "spec": {"s": 2}});
    let object = merge(&plane, kind, Part::Main, body.clone());
    assert_eq!(said(&object), (json!({"s": 2}), json!({"t": 2}), json!(2)));
    let again = merge(&plane, kind, Part::Main, body);
    assert_eq!(again["metadata"], object["metadata"]);
}

#[test]
fn another_version_or_another_object_is_a_conflict() {
    let (plane, kind) = plane();
    for body in [
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"uid": "other"}}),
    ] {
        let refused = plane.change(kind, &key("a"), Part::Main, Change::Merge(body));
        assert_eq!(refused.err().unwrap().code, StatusCode::CONFLICT);
    }
    let options = json!({"preconditions": {"uid": "other"}});
    let refused = plane.delete(kind, &key("a"), &options);
    assert_eq!(refused.err().unwrap().code, StatusCode::CONFLICT);
}

#[test]
fn an_object_goes_with_its_last_finalizer_and_takes_what_it_owns_with_it() {
    let (plane, kind) = plane();
    let uid = text(
        &plane.get(kind, &key("a")).unwrap().value(),
        "/metadata/uid",
    )
    .to_owned();
    let owned = json!({"metadata": {"name": "b", "ownerReferences": [{"uid": uid}]}});
    plane.create(kind, "n", owned).unwrap();
    let (is_gone, _) = plane.delete(kind, &key("a"), &json!({})).unwrap();
    assert!(!is_gone);
    merge(
        &plane,
        kind,
        Part::Main,
        json!({"metadata": {"finalizers": []}}),
    );
    assert_eq!(plane.count(kind), 0);
    let (events, _) = plane.since(kind, 0).unwrap();
    let types: Vec<_> = events.iter().map(|event| event.type_).collect();
    assert_eq!(types, ["ADDED", "ADDED", "MODIFIED", "DELETED", "DELETED"]);
}

#[test]
fn a_refusal_names_what_is_absent() {
    let (plane, kind) = plane();
    let refused = plane.create(kind, "m", json!({"metadata": {"name": "a"}}));
    let status = refused.err().unwrap().status();
    assert_eq!(status["details"]["name"], "m");
    assert_eq!(status["details"]["kind"], "namespaces");
}
