//! Tests of Pods on the shared node. The Pods have the form of compute-federation's: no rights, a volume of the CSI
//! driver, probes.

use std::time::Duration;

use anyhow::{Context, ensure};
use harness::node::{HOST, ISSUER_NAME};
use harness::objects::apply;
use harness::{Node, wait};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::client;
use crate::fixture::PROBE;

/// Time limit for one change, on a machine with other tests.
const WITHIN: Duration = Duration::from_mins(1);
/// The page that the probe serves. Its user is the one of compute-federation's image.
const PAGE: &str = "user 65532, group 65532";

/// A namespace with a Deployment of the probe, and a Service `probe` for it.
struct Served<'n> {
    node: &'n Node,
    namespace: String,
}

impl<'n> Served<'n> {
    /// Creates the objects, and waits until the Deployment is available.
    async fn start(node: &'n Node, namespace: &str, certificate: &Value) -> anyhow::Result<Self> {
        let served = Self::create(node, namespace, certificate, "/readyz").await?;
        node.until_available(namespace, "probe").await?;
        Ok(served)
    }

    /// Creates the objects. `certificate` has additional attributes of the volume, and `readiness` is the path of the
    /// readiness probe.
    async fn create(
        node: &'n Node,
        namespace: &str,
        certificate: &Value,
        readiness: &str,
    ) -> anyhow::Result<Self> {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let client = node.client();
        apply(
            &client,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}),
        )
        .await?;
        let mut volume = json!({
            "csi.cert-manager.io/issuer-name": ISSUER_NAME,
            "csi.cert-manager.io/issuer-kind": "ClusterIssuer",
            "csi.cert-manager.io/dns-names": format!("probe.{namespace}.svc"),
            "csi.cert-manager.io/fs-group": "65532",
        });
        let attributes = volume.as_object_mut().context("an object")?;
        attributes.extend(certificate.as_object().cloned().unwrap_or_default());
        let metadata = |name: &str| json!({"name": name, "namespace": namespace});
        let selector = json!({"app": "probe"});
        let mut pod = pod_spec(&["serve"]);
        pod["containers"][0]["readinessProbe"] =
            json!({"httpGet": {"path": readiness, "port": 8080}, "periodSeconds": 1});
        pod["containers"][0]["livenessProbe"] =
            json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5});
        pod["containers"][0]["volumeMounts"] =
            json!([{"name": "certificates", "mountPath": "/certificates", "readOnly": true}]);
        pod["volumes"] = json!([{
            "name": "certificates",
            "csi": {"driver": "csi.cert-manager.io", "readOnly": true, "volumeAttributes": volume},
        }]);
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata("probe"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "template": {"metadata": {"labels": selector}, "spec": pod},
            },
        });
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata("probe"),
            "spec": {"selector": selector, "ports": [{"port": 443, "targetPort": 9443}]},
        });
        apply(&client, &deployment).await?;
        apply(&client, &service).await?;
        Ok(Self {
            node,
            namespace: namespace.to_owned(),
        })
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.node.client(), &self.namespace)
    }

    /// Returns the CA of the issuer in PEM.
    async fn authority(&self) -> anyhow::Result<String> {
        let secrets: Api<Secret> = Api::namespaced(self.node.client(), "cert-manager");
        let secret = secrets.get(ISSUER_NAME).await?;
        let authority = secret.data.unwrap_or_default().remove("ca.crt");
        Ok(String::from_utf8(authority.context("no ca.crt")?.0)?)
    }

    /// Gets the page from the host, at the address of the Service. Returns the page and the server's certificate.
    async fn get_from_host(&self) -> anyhow::Result<(String, Vec<u8>)> {
        let services: Api<Service> = Api::namespaced(self.node.client(), &self.namespace);
        let spec = services.get("probe").await?.spec.unwrap_or_default();
        let address = spec.cluster_ip.context("the Service has no address")?;
        let authority = self.authority().await?;
        let name = format!("probe.{}.svc", self.namespace);
        client::get(&format!("{address}:443"), &name, &authority).await
    }
}

/// Returns the spec of a Pod with one container of the probe.
fn pod_spec(args: &[&str]) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "probe",
            "image": PROBE,
            "imagePullPolicy": "Never",
            "args": args,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    })
}

pub(crate) async fn a_pod_serves_with_the_certificate_of_a_volume(
    node: &Node,
) -> anyhow::Result<()> {
    // The Pod is ready only if its user can read the volume.
    let served = Served::start(node, "certificate", &json!({})).await?;
    let get = || served.get_from_host();
    let (page, _) = wait::eventually("the host reaches the Service", WITHIN, get).await?;
    ensure!(page == PAGE, "{page}");
    Ok(())
}

pub(crate) async fn a_renewed_certificate_is_served(node: &Node) -> anyhow::Result<()> {
    // The driver renews the certificate after 20 s.
    let renewal = json!({
        "csi.cert-manager.io/duration": "1h",
        "csi.cert-manager.io/renew-before": "59m40s",
    });
    let served = Served::start(node, "renewal", &renewal).await?;
    let get = || served.get_from_host();
    let (_, first) = wait::eventually("the host reaches the Service", WITHIN, get).await?;
    wait::eventually("a new certificate is served", WITHIN, || async {
        let (_, now) = served.get_from_host().await?;
        ensure!(now != first, "the first certificate is still served");
        Ok(())
    })
    .await
}

pub(crate) async fn an_unready_pod_gets_no_calls(node: &Node) -> anyhow::Result<()> {
    let served = Served::create(node, "unready", &json!({}), "/missing").await?;
    let slices: Api<EndpointSlice> = Api::namespaced(node.client(), &served.namespace);
    wait::eventually("the Service knows the Pod", WITHIN, || async {
        let slices = slices.list(&ListParams::default()).await?;
        let mut endpoints = slices.iter().flat_map(|slice| &slice.endpoints).flatten();
        let endpoint = endpoints.next().context("no endpoint")?;
        let ready = endpoint.conditions.as_ref().and_then(|it| it.ready);
        ensure!(ready == Some(false), "{endpoint:?}");
        Ok(())
    })
    .await?;
    let pods = served.pods().list(&ListParams::default()).await?.items;
    let pod = pods.first().context("no Pod")?.name_any();
    wait::until(&served.pods(), &pod, "running", WITHIN, |pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    })
    .await?;
    let answer = served.get_from_host().await;
    ensure!(answer.is_err(), "{answer:?}");
    Ok(())
}

pub(crate) async fn a_service_is_reachable_by_its_name(node: &Node) -> anyhow::Result<()> {
    let served = Served::start(node, "names", &json!({})).await?;
    let url = format!("https://probe.{}.svc/", served.namespace);
    let log = get_from_pod(&served, &url).await?;
    ensure!(log.contains(&format!("200 OK {PAGE}")), "{log}");
    Ok(())
}

pub(crate) async fn a_pod_reaches_a_server_of_the_host(node: &Node) -> anyhow::Result<()> {
    let served = Served::create(node, "host", &json!({}), "/readyz").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let answering = tokio::spawn(async move {
        let (mut caller, _) = listener.accept().await?;
        let mut request = [0; 1024];
        let read = caller.read(&mut request).await?;
        caller
            .write_all(b"HTTP/1.0 200 OK\r\n\r\nhello from the host")
            .await?;
        anyhow::Ok(String::from_utf8_lossy(&request[..read]).into_owned())
    });
    let exposed = node.expose(port).await?;
    let log = get_from_pod(&served, &format!("http://{HOST}:{port}/")).await?;
    ensure!(log.contains("200 OK hello from the host"), "{log}");
    let request = answering.await??;
    ensure!(request.starts_with("GET / HTTP"), "{request}");
    drop(exposed);
    Ok(())
}

/// Gets a page from a Pod that trusts the CA of the issuer. Returns the log of the Pod.
async fn get_from_pod(served: &Served<'_>, url: &str) -> anyhow::Result<String> {
    let client = served.node.client();
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "authority", "namespace": served.namespace},
        "data": {"ca.crt": served.authority().await?},
    });
    apply(&client, &config).await?;
    let mut spec = pod_spec(&["get", url, "/authority/ca.crt"]);
    // A Service is reachable a moment after its Pods are ready.
    spec["restartPolicy"] = "OnFailure".into();
    spec["containers"][0]["volumeMounts"] =
        json!([{"name": "authority", "mountPath": "/authority", "readOnly": true}]);
    spec["volumes"] = json!([{"name": "authority", "configMap": {"name": "authority"}}]);
    let caller = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "caller", "namespace": served.namespace},
        "spec": spec,
    });
    apply(&client, &caller).await?;
    let pods = served.pods();
    wait::until(&pods, "caller", "succeeded", WITHIN, |pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Succeeded")
    })
    .await?;
    Ok(pods.logs("caller", &LogParams::default()).await?)
}
