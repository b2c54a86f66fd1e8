//! Tests of an API server that adds fields, as a newer CRD with defaults does.

use super::*;

/// Starts an API server that adds a field to every spec.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.server.amend::<WorkloadDeployment>(|copy| {
        copy["spec"]["template"]["spec"]["later"] = json!("default");
    });
    bench
}

fn has_additions(bench: &Bench, spec: &api::WorkloadDeploymentSpec) -> bool {
    let (writer, stored) = (&bench.writer, bench.stored());
    writer.has_additions_to(&context(), &stored, spec)
}

#[tokio::test(start_paused = true)]
async fn an_object_with_additions_is_not_written_again() {
    let bench = bench();
    let spec = wanted().spec;
    bench.ensure(None, &wanted()).await.unwrap();
    assert!(bench.stored().spec != spec && has_additions(&bench, &spec));
    take_writes(&[&bench.server]);
    let stored = bench.stored();
    let kept = bench.ensure(Some(&stored), &wanted()).await.unwrap();
    assert_eq!(kept.resource_version(), stored.resource_version());
    assert_eq!(take_writes(&[&bench.server]), [""; 0]);
    // A new process does not know the additions, and does not change the object.
    let bench = Bench {
        writer: Writer::new("test", &Metrics::default()),
        ..bench
    };
    assert!(!has_additions(&bench, &spec));
    let kept = bench.ensure(Some(&stored), &wanted()).await.unwrap();
    assert_eq!(kept.metadata.generation, stored.metadata.generation);
    assert!(has_additions(&bench, &spec));
}

#[tokio::test(start_paused = true)]
async fn a_field_of_another_writer_is_no_addition_of_the_api_server() {
    let bench = bench();
    bench.ensure(None, &wanted()).await.unwrap();
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["spec"]["replicas"] = json!(7);
            copy["metadata"]["generation"] = json!(77);
        });
    assert!(!has_additions(&bench, &wanted().spec));
    let written = bench.ensure(Some(&bench.stored()), &wanted()).await;
    assert_eq!(written.unwrap().spec.replicas, None);
    assert!(has_additions(&bench, &wanted().spec));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_wanted_no_more_is_no_addition_of_the_api_server() {
    let bench = bench();
    let mut former = wanted();
    former.spec.replicas = Some(3);
    bench.ensure(None, &former).await.unwrap();
    assert!(has_additions(&bench, &former.spec) && !has_additions(&bench, &wanted().spec));
    let written = bench.ensure(Some(&bench.stored()), &wanted()).await;
    assert_eq!(written.unwrap().spec.replicas, None);
}

/// The CRD is replaced by an older one. The API server then prunes a field of the stored object when it reads it. The
/// generation stays.
#[tokio::test(start_paused = true)]
async fn an_object_that_loses_a_field_has_no_additions() {
    let bench = bench();
    let mut wanted = wanted();
    wanted.spec.replicas = Some(3);
    bench.ensure(None, &wanted).await.unwrap();
    assert!(has_additions(&bench, &wanted.spec));
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["spec"].as_object_mut().unwrap().remove("replicas");
        });
    bench.server.amend::<WorkloadDeployment>(|copy| {
        copy["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert!(!has_additions(&bench, &wanted.spec));
    let written = bench.ensure(Some(&bench.stored()), &wanted).await;
    let error = written.unwrap_err();
    let is_reported = matches!(error, ReconcileError::DoesNotStay { .. });
    assert!(is_reported, "{error}");
}
