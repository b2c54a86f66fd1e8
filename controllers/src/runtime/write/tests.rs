//! Tests of writes to an in-memory API server.

use api::{Instance, WorkloadDeployment};
use apiserver::{ApiServer, Fault, Verb};
use jiff::SignedDuration;
use kube::Client;
use multicluster::Cache;
use multicluster::cache::Reflector;
use serde_json::json;

use super::*;
use crate::fixtures::servers::{HUB_NAMESPACE, context, copy, hub_namespace, take_writes};
use crate::fixtures::{instance, now, object};

mod additions;
mod statuses;
mod undeclared;

const OWN: [&str; 1] = ["/spec"];
const NAME: &str = "web";

struct Bench {
    server: ApiServer,
    client: Client,
    cache: Cache<WorkloadDeployment>,
    writer: Writer,
}

impl Bench {
    /// Starts an API server that has the hub namespace.
    fn new() -> Self {
        let server = ApiServer::new();
        server.put(hub_namespace());
        let metrics = Metrics::default();
        Self {
            client: server.client(),
            server,
            cache: Reflector::new("hub", &metrics).cache(),
            writer: Writer::new("test", &metrics),
        }
    }

    fn collection(&self) -> Collection<'_, WorkloadDeployment> {
        Collection::new(&self.client, HUB_NAMESPACE, Some(&self.cache))
    }

    fn stored(&self) -> WorkloadDeployment {
        self.server.get(HUB_NAMESPACE, NAME).unwrap()
    }

    async fn ensure(
        &self,
        existing: Option<&WorkloadDeployment>,
        wanted: &WorkloadDeployment,
    ) -> Result<WorkloadDeployment> {
        let collection = self.collection();
        let compare = |it: &WorkloadDeployment| Stored::compare(&it.spec, &wanted.spec);
        self.writer
            .ensure(
                &context(),
                &collection,
                existing,
                &body(wanted),
                &OWN,
                compare,
            )
            .await
    }
}

fn wanted() -> WorkloadDeployment {
    object(copy(NAME))
}

fn body(of: &WorkloadDeployment) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {"name": of.name_any(), "namespace": HUB_NAMESPACE, "labels": of.labels()},
        "spec": of.spec,
    })
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_created_and_the_cache_knows_it() {
    let bench = Bench::new();
    let written = bench.ensure(None, &wanted()).await.unwrap();
    assert_eq!(
        take_writes(&[&bench.server]),
        ["create workloaddeployments ns-1/web"]
    );
    let cached = bench.cache.get(HUB_NAMESPACE, NAME).unwrap().unwrap();
    assert_eq!(cached.uid(), written.uid());
    assert_eq!(cached.resource_version(), bench.stored().resource_version());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_someone_else_created_first_is_not_adopted() {
    let bench = Bench::new();
    let mut other = copy(NAME);
    other["spec"]["cityCode"] = json!("LHR");
    bench.server.put(other);
    let error = bench.ensure(None, &wanted()).await.unwrap_err();
    let ReconcileError::Api { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(&**source, kube::Error::Api(status) if status.is_already_exists()));
    assert_eq!(bench.stored().spec.city_code, "LHR");
    assert!(bench.cache.keys().is_empty());
}

/// I-1: fields of other writers stay.
#[tokio::test(start_paused = true)]
async fn only_owned_fields_are_applied() {
    let bench = Bench::new();
    let existing = bench.ensure(None, &wanted()).await.unwrap();
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["annotations"] = json!({"someone": "else"});
            copy["spec"]["scaleSettings"]["minReplicas"] = json!(7);
        });
    take_writes(&[&bench.server]);
    let written = bench.ensure(Some(&existing), &wanted()).await.unwrap();
    assert_eq!(
        take_writes(&[&bench.server]),
        ["apply workloaddeployments ns-1/web"]
    );
    assert_eq!(written.spec, wanted().spec);
    assert_eq!(bench.stored().annotations()["someone"], "else");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_was_created_and_is_wanted_no_more_is_removed() {
    let bench = Bench::new();
    let mut former = wanted();
    former.spec.replicas = Some(3);
    let existing = bench.ensure(None, &former).await.unwrap();
    take_writes(&[&bench.server]);
    let written = bench.ensure(Some(&existing), &wanted()).await.unwrap();
    let writes = [
        "apply workloaddeployments ns-1/web",
        "patch workloaddeployments ns-1/web",
    ];
    assert_eq!(take_writes(&[&bench.server]), writes);
    assert_eq!(
        (written.spec.replicas, bench.stored().spec.replicas),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_stay_as_written_is_an_error() {
    let bench = Bench::new();
    let collection = bench.collection();
    let never = |_: &WorkloadDeployment| false;
    let (context, body) = (context(), body(&wanted()));
    let ensure = async |existing: Option<&WorkloadDeployment>| {
        let ensured = bench
            .writer
            .ensure(&context, &collection, existing, &body, &OWN, never);
        ensured.await.unwrap_err()
    };
    let created = ensure(None).await;
    assert!(
        matches!(created, ReconcileError::DoesNotStay { .. }),
        "{created}"
    );
    let existing = bench.stored();
    let applied = ensure(Some(&existing)).await;
    assert!(
        matches!(applied, ReconcileError::DoesNotStay { .. }),
        "{applied}"
    );
}

/// An API server with an older CRD prunes a field at every write.
#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_stay_is_repeated_once_an_hour() {
    let bench = Bench::new();
    let collection = bench.collection();
    let never = |_: &WorkloadDeployment| false;
    let ensure = async |existing: Option<&WorkloadDeployment>, replicas: i32, clock| {
        let mut wanted = wanted();
        wanted.spec.replicas = Some(replicas);
        let (context, mut body) = (ReconcileContext::new(clock, None), body(&wanted));
        body["metadata"]["resourceVersion"] = json!(existing.map(ResourceExt::resource_version));
        let ensured = bench
            .writer
            .ensure(&context, &collection, existing, &body, &OWN, never);
        let error = ensured.await.unwrap_err();
        assert!(error.refusal().is_some(), "{error}");
        take_writes(&[&bench.server]).len()
    };
    assert_eq!(ensure(None, 1, now).await, 1);
    let in_an_hour = || now() + SignedDuration::from_secs(3600);
    let before = || now() + SignedDuration::from_secs(3599);
    for clock in [now, before] {
        assert_eq!(ensure(Some(&bench.stored()), 1, clock).await, 0);
        // The resource version of the object does not matter.
        bench
            .server
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
                copy["metadata"]["finalizers"] = json!([clock().to_string()]);
            });
    }
    assert_eq!(ensure(Some(&bench.stored()), 1, in_an_hour).await, 1);
    assert_eq!(ensure(Some(&bench.stored()), 1, in_an_hour).await, 0);
    // Another body, or a change of another writer, is a new write.
    assert!(ensure(Some(&bench.stored()), 2, in_an_hour).await > 0);
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["spec"]["scaleSettings"]["minReplicas"] = json!(7);
            copy["metadata"]["generation"] = json!(77);
        });
    assert!(ensure(Some(&bench.stored()), 2, in_an_hour).await > 0);
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"] = json!({});
        });
    assert!(ensure(Some(&bench.stored()), 2, in_an_hour).await > 0);
    assert_eq!(ensure(Some(&bench.stored()), 2, in_an_hour).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_equal_object_keeps_its_version() {
    let bench = Bench::new();
    bench.ensure(None, &wanted()).await.unwrap();
    let first = bench
        .ensure(Some(&bench.stored()), &wanted())
        .await
        .unwrap();
    let second = bench.ensure(Some(&first), &wanted()).await.unwrap();
    assert_eq!(first.resource_version(), second.resource_version());
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_is_neither_changed_nor_deleted() {
    let bench = Bench::new();
    let existing = bench.ensure(None, &wanted()).await.unwrap();
    bench
        .server
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, NAME);
    let mut other = copy(NAME);
    other["metadata"]["uid"] = json!("other");
    bench.server.put(other);
    let before = bench.stored();
    let (context, collection) = (context(), bench.collection());
    bench.ensure(Some(&existing), &wanted()).await.unwrap_err();
    let status =
        bench
            .writer
            .apply_status(&context, &collection, &existing, json!({"replicas": 1}));
    status.await.unwrap_err();
    let deleted = bench.writer.delete(&context, &collection, &existing).await;
    deleted.unwrap_err();
    let unchanged = bench
        .writer
        .delete_unchanged(&context, &collection, &existing);
    unchanged.await.unwrap_err();
    assert_eq!(bench.stored(), before);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_changes_nothing() {
    let bench = Bench::new();
    let existing = bench.ensure(None, &wanted()).await.unwrap();
    bench
        .server
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"]["new"] = json!("label");
        });
    let before = bench.stored();
    let (context, collection) = (context(), bench.collection());
    let writer = &bench.writer;
    let errors = [
        writer
            .patch_status(&context, &collection, &existing, json!({"replicas": 1}))
            .await
            .map(drop),
        writer
            .add_finalizer(&context, &collection, &existing, "a/b", &StringMap::new())
            .await
            .map(drop),
        writer
            .remove_finalizer(&context, &collection, &existing, "a/b")
            .await,
        writer
            .delete_unchanged(&context, &collection, &existing)
            .await,
    ];
    for error in errors {
        let error = error.unwrap_err();
        let ReconcileError::Api { source, .. } = &error else {
            panic!("{error}");
        };
        assert!(
            matches!(&**source, kube::Error::Api(status) if status.is_conflict()),
            "{error}"
        );
    }
    assert_eq!(bench.stored(), before);
}

#[tokio::test(start_paused = true)]
async fn a_delete_waits_for_finalizers_and_the_cache_knows_it() {
    let bench = Bench::new();
    let created = bench.ensure(None, &wanted()).await.unwrap();
    let (context, collection, writer) = (context(), bench.collection(), &bench.writer);
    let annotations = StringMap::from([("k".to_owned(), "v".to_owned())]);
    let held = writer.add_finalizer(&context, &collection, &created, "a/b", &annotations);
    let held = held.await.unwrap();
    assert_eq!(
        (held.finalizers(), &held.annotations()["k"]),
        (&["a/b".to_owned()][..], &"v".to_owned())
    );
    writer.delete(&context, &collection, &held).await.unwrap();
    let cached = bench.cache.get(HUB_NAMESPACE, NAME).unwrap().unwrap();
    assert!(cached.metadata.deletion_timestamp.is_some());
    writer
        .remove_finalizer(&context, &collection, &cached, "a/b")
        .await
        .unwrap();
    assert!(
        bench
            .server
            .get::<WorkloadDeployment>(HUB_NAMESPACE, NAME)
            .is_none()
    );
    // The deletion of an absent object succeeds.
    writer.delete(&context, &collection, &held).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_404_of_a_wrong_api_server_does_not_count_as_deleted() {
    let bench = Bench::new();
    let existing = bench.ensure(None, &wanted()).await.unwrap();
    bench.server.stop_serving::<WorkloadDeployment>();
    let deleted = bench
        .writer
        .delete(&context(), &bench.collection(), &existing)
        .await;
    assert!(
        matches!(deleted, Err(ReconcileError::NotServed { .. })),
        "{deleted:?}"
    );
    let read = bench.collection().read(NAME).await;
    assert!(
        matches!(read, Err(ReconcileError::NotServed { .. })),
        "{read:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_error_and_the_next_try_meets_its_own_write() {
    let bench = Bench::new();
    bench
        .server
        .fail(Fault::lose_answer().on(&[Verb::Create]).times(1));
    bench.ensure(None, &wanted()).await.unwrap_err();
    assert!(bench.cache.keys().is_empty());
    let written = bench.stored();
    bench.ensure(Some(&written), &wanted()).await.unwrap();
    assert_eq!(bench.stored().uid(), written.uid());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_whole_does_not_prove_that_nothing_is_left() {
    let server = ApiServer::new();
    server.put(hub_namespace());
    let client = server.client();
    let instances = Collection::<Instance>::new(&client, HUB_NAMESPACE, None);
    assert_eq!(instances.first_but(None).await.unwrap(), None);
    server.put(json!(instance(HUB_NAMESPACE, "web-0")));
    let found = instances.first_but(None).await.unwrap();
    assert_eq!(found.as_deref(), Some("Instance web-0"));
    assert_eq!(instances.first_but(Some("web-0")).await.unwrap(), None);
    for body in [
        json!({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}),
        json!({"metadata": {}, "items": []}),
    ] {
        server.fail(Fault::answer(200, body.to_string()).times(1));
        assert!(instances.first_but(None).await.unwrap().is_some(), "{body}");
        server.fail(Fault::answer(200, body.to_string()).times(2));
        instances.has_any("a", "b").await.unwrap_err();
        instances.has_child("a", "b").await.unwrap_err();
    }
    assert!(!instances.has_any("a", "b").await.unwrap());
    assert!(!instances.has_child("a", "b").await.unwrap());
    server.fail(Fault::answer(404, "404 page not found\n"));
    instances.first_but(None).await.unwrap_err();
}
