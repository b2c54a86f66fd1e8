use api::WorkloadDeployment;
use apiserver::{ApiServer, Fault};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::core::NamespaceResourceScope;
use multicluster::Metrics;
use multicluster::queue::ReconcileContext;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, now};
use crate::runtime::write::{Collection, Object, Writer};

/// Returns a client of an API server. This API server answers every request with 404 and this body.
fn answering(body: &str) -> Client {
    let server = ApiServer::new();
    server.fail(Fault::answer(404, body));
    server.client()
}

/// Returns a `Status` in the form of an API server.
fn status(reason: &str, message: &str, details: &Value) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": 404,
    })
    .to_string()
}

const RESOURCE: &str = "workloaddeployments";

/// Returns answers to a request for the WorkloadDeployment `web`. Each entry has a name, the body of the answer, and
/// whether the answer proves the absence of the WorkloadDeployment.
fn answers() -> Vec<(&'static str, String, bool)> {
    let group = "compute.datumapis.com";
    let of = |name: &str, resource: &str| json!({"name": name, "group": group, "kind": resource});
    let message = "workloaddeployments.compute.datumapis.com \"web\" not found";
    vec![
        (
            "absent, also if its namespace does not exist",
            status("NotFound", message, &of("web", RESOURCE)),
            true,
        ),
        (
            "the object is absent, and the answer does not name the resource",
            status("NotFound", message, &json!({"name": "web"})),
            false,
        ),
        (
            "the object of this name in another group is absent",
            status(
                "NotFound",
                message,
                &json!({"name": "web", "group": "apps", "kind": RESOURCE}),
            ),
            false,
        ),
        (
            "the object is absent, and the answer does not name the group",
            status(
                "NotFound",
                message,
                &json!({"name": "web", "kind": RESOURCE}),
            ),
            false,
        ),
        (
            "another code",
            status("NotFound", message, &of("web", RESOURCE)).replace("404", "500"),
            false,
        ),
        (
            "the group is not served, or the CRD is missing",
            "404 page not found\n".to_owned(),
            false,
        ),
        (
            "a built-in group is served without this resource",
            status(
                "NotFound",
                "the server could not find the requested resource",
                &json!({}),
            ),
            false,
        ),
        (
            "Milo's front proxy does not know the project",
            status("NotFound", "there is no project \"p\"", &json!({})),
            false,
        ),
        (
            "the project of this name is absent",
            status(
                "NotFound",
                "projects \"web\" not found",
                &json!({"name": "web", "group": "resourcemanager.miloapis.com", "kind": "projects"}),
            ),
            false,
        ),
        (
            "the namespace of this name is absent",
            status(
                "NotFound",
                "namespaces \"web\" not found",
                &json!({"name": "web", "kind": "namespaces"}),
            ),
            false,
        ),
        (
            "another object is absent",
            status("NotFound", message, &of("other", RESOURCE)),
            false,
        ),
        (
            "another reason",
            status("Gone", message, &of("web", RESOURCE)),
            false,
        ),
        (
            "no reason",
            r#"{"kind":"Status","code":404}"#.to_owned(),
            false,
        ),
        (
            "a page of a load balancer",
            "<html><body>Not Found</body></html>".to_owned(),
            false,
        ),
        ("an empty body", String::new(), false),
    ]
}

fn collection<K: Object<Scope = NamespaceResourceScope>>(client: &Client) -> Collection<'_, K> {
    Collection::new(client, "ns-1", None)
}

/// I-12: a 404 that does not name the object is no proof.
#[tokio::test]
async fn only_a_404_that_names_the_object_proves_its_absence() {
    let object = deployment("ns-1", "web", "DFW", 1);
    let writer = Writer::new("test", &Metrics::default());
    let context = ReconcileContext::new(now, None);
    for (what, body, absent) in answers() {
        let client = answering(&body);
        let deployments = collection::<WorkloadDeployment>(&client);
        let read = deployments.read("web").await;
        let deleted = writer.delete(&context, &deployments, &object).await;
        if absent {
            assert!(read.unwrap().is_none(), "{what}");
            deleted.unwrap();
        } else {
            for error in [read.unwrap_err(), deleted.unwrap_err()] {
                assert!(
                    matches!(error, ReconcileError::NotServed { .. }),
                    "{what}: {error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_404_of_a_cluster_scoped_object_names_its_resource() {
    let details = json!({"name": "ns-1", "kind": "namespaces"});
    let client = answering(&status(
        "NotFound",
        "namespaces \"ns-1\" not found",
        &details,
    ));
    let namespaces = Collection::<Namespace>::of_plane(&client, None);
    assert!(namespaces.read("ns-1").await.unwrap().is_none());
    let error = namespaces.read("ns-2").await.unwrap_err();
    assert!(error.to_string().contains("get Namespace ns-2"), "{error}");
}
