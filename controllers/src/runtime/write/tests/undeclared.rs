//! Tests of an API server whose CRD is older than an object. It refuses an apply of a field that the CRD does not have.

use super::*;

/// Makes the CRD older: it has neither `replicas` in the spec nor `cells` in the status.
fn make_older(bench: &Bench) {
    bench.server.amend::<WorkloadDeployment>(|object| {
        for (part, field) in [("spec", "replicas"), ("status", "cells")] {
            if let Some(part) = object[part].as_object_mut() {
                part.remove(field);
            }
        }
    });
}

fn with_replicas(city: &str) -> WorkloadDeployment {
    let mut wanted = wanted();
    wanted.spec.city_code = city.to_owned();
    wanted.spec.replicas = Some(3);
    wanted
}

/// Returns a bench with an object. Another program has added labels, an annotation and an owner.
async fn shared() -> Bench {
    let bench = Bench::new();
    bench.ensure(None, &wanted()).await.unwrap();
    make_older(&bench);
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"]["foreign"] = json!("yes");
            copy["metadata"]["annotations"]["foreign"] = json!("yes");
            copy["metadata"]["ownerReferences"] = json!([
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"},
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "y", "controller": true},
            ]);
        });
    take_writes(&[&bench.server]);
    bench
}

/// I-1: what other writers have added stays, also if the API server refuses the apply.
#[tokio::test(start_paused = true)]
async fn a_patch_in_place_of_an_apply_keeps_what_others_have_added() {
    let bench = shared().await;
    let wanted = with_replicas("ORD");
    let mut body = body(&wanted);
    body["metadata"]["labels"]["own"] = json!("yes");
    body["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "z", "uid": "z", "controller": true},
    ]);
    let compare = |it: &WorkloadDeployment| Stored::compare(&it.spec, &wanted.spec);
    let (stored, to, context) = (bench.stored(), bench.collection(), context());
    let ensured = bench
        .writer
        .ensure(&context, &to, Some(&stored), &body, &OWN, compare);
    let error = ensured.await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::DoesNotStay { .. }),
        "{error}"
    );
    let writes = take_writes(&[&bench.server]);
    assert_eq!(writes.len(), 2, "{writes:?}");
    let stored = bench.stored();
    assert_eq!(stored.spec.city_code, "ORD");
    assert_eq!(stored.spec.replicas, None);
    assert_eq!(
        (&*stored.labels()["foreign"], &*stored.labels()["own"]),
        ("yes", "yes")
    );
    assert_eq!(stored.annotations()["foreign"], "yes");
    let owners = stored.owner_references().iter().map(|owner| &*owner.uid);
    assert_eq!(owners.collect::<Vec<_>>(), ["x", "z"]);
}

#[tokio::test(start_paused = true)]
async fn a_patch_in_place_of_an_apply_fails_if_the_object_has_changed() {
    let bench = shared().await;
    let read = bench.stored();
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"]["later"] = json!("yes");
        });
    let error = bench.ensure(Some(&read), &with_replicas("ORD")).await;
    let error = error.unwrap_err();
    assert_eq!(error.refusal(), None, "{error}");
    let stored = bench.stored();
    assert_eq!(
        (stored.spec.city_code, stored.spec.replicas),
        (wanted().spec.city_code, None)
    );
}

/// A replaced status belongs to another manager than an applied one, so an apply alone would keep its fields.
#[tokio::test(start_paused = true)]
async fn a_field_of_a_status_goes_after_the_crd_was_corrected() {
    let bench = shared().await;
    let status = |fields: Value| {
        let mut status = json!({
            "replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1,
        });
        let fields = fields.as_object().unwrap().clone();
        status.as_object_mut().unwrap().extend(fields);
        status
    };
    let cells = json!({"cells": [{
        "name": "dfw1", "replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1,
    }]});
    let mut all = cells.clone();
    all["observedGeneration"] = json!(7);
    let write = async |wanted: Value| {
        let (stored, to, context) = (bench.stored(), bench.collection(), context());
        let written = bench.writer.apply_status(&context, &to, &stored, wanted);
        written.await.unwrap();
        bench.stored().status.unwrap()
    };
    let older = write(status(all)).await;
    assert_eq!((older.observed_generation, older.cells.len()), (Some(7), 0));
    bench.server.amend::<WorkloadDeployment>(|_| ());
    let newer = write(status(cells)).await;
    assert_eq!((newer.observed_generation, newer.cells.len()), (None, 1));
}
