//! Starts Karmada on a hub (docs/concepts/karmada-behaviour.md).

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::federation::{CellConfig, StartInputs};
use crate::objects::apply;
use crate::plane::{LOWER_HUB, POLL, Plane, flag};
use crate::ports::Ports;
use crate::process::{ChildProcess, Program, StartCommand};
use crate::wait;

/// Time limit for a part of Karmada to become ready.
const READY: Duration = Duration::from_secs(30);
/// Namespace of the hub with the Leases and the credentials of Clusters.
const CLUSTER_NAMESPACE: &str = "karmada-cluster";
/// Token with which Karmada authenticates to a member's API server.
const CELL_TOKEN: &str = "karmada-of-the-harness";
const AGGREGATED_APISERVER: &str = "karmada-aggregated-apiserver";
const WEBHOOK: &str = "karmada-webhook";
/// The common prefix of the names of Karmada's processes on the hub, and two complete names. On a lower hub, the name of
/// the plane and a hyphen precede the name.
pub(crate) const PREFIX: &str = "karmada-";
pub(crate) const CONTROLLERS: &str = "karmada-controller-manager";
pub(crate) const SCHEDULER: &str = "karmada-scheduler";
/// Names of controllers. `OF_HUB` are the controllers that write only to the hub. `OF_CELLS` are the controllers that
/// write to cells. `workStatus` writes to cells to correct differences there.
const OF_HUB: &str = "cluster,clusterStatus,binding,bindingStatus,namespace";
const OF_CELLS: &str = "execution,workStatus";
/// Name of the APIService for the aggregated API server.
const AGGREGATED: &str = "v1alpha1.cluster.karmada.io";
/// The label of a cell that policies match.
const CITY_CODE: &str = api::labels::CITY_CODE;

/// The ports of Karmada.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KarmadaPorts {
    pub(crate) aggregated_apiserver: u16,
    pub(crate) webhook: u16,
    pub(crate) webhook_health: u16,
    pub(crate) etcd: u16,
}

impl KarmadaPorts {
    /// Reserves the ports for a hub whose etcd has this port.
    pub(crate) fn take(ports: &mut Ports, etcd: u16) -> anyhow::Result<Self> {
        Ok(Self {
            aggregated_apiserver: ports.next()?,
            webhook: ports.next()?,
            webhook_health: ports.next()?,
            etcd,
        })
    }
}

/// Returns the name of the process of Karmada's controllers on this hub.
pub(crate) fn controllers_of(hub: &Plane) -> String {
    process_name(hub, CONTROLLERS)
}

/// Returns the name of a process of Karmada on this hub.
fn process_name(hub: &Plane, program: &str) -> String {
    match hub.kind() {
        LOWER_HUB => format!("{}-{program}", hub.name()),
        _ => program.to_owned(),
    }
}

/// Flags that the hub's API server needs for the aggregated API server.
pub(crate) fn hub_flags(setup: &StartInputs<'_>) -> Vec<OsString> {
    vec![
        flag("proxy-client-cert-file", setup.pki.file("front-proxy.crt")),
        flag("proxy-client-key-file", setup.pki.file("front-proxy.key")),
        flag("requestheader-client-ca-file", setup.pki.file("ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
    ]
}

/// Starts the aggregated API server and the webhook. The configuration of Karmada's other parts depends on them.
pub(crate) async fn start(
    setup: &StartInputs<'_>,
    hub: &Plane,
    ports: KarmadaPorts,
) -> anyhow::Result<Vec<ChildProcess>> {
    let client = hub.client();
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(&client, &namespace("karmada-system")).await?;
    apply(&client, &namespace(CLUSTER_NAMESPACE)).await?;
    let kubeconfig = hub.kubeconfig();
    let names = [AGGREGATED_APISERVER, WEBHOOK].map(|it| process_name(hub, it));
    let [aggregated_name, webhook_name] = &names;
    let aggregated = ChildProcess::start(Program {
        name: aggregated_name,
        path: setup.peers.program(AGGREGATED_APISERVER),
        args: vec![
            flag("kubeconfig", kubeconfig),
            flag("authentication-kubeconfig", kubeconfig),
            flag("authorization-kubeconfig", kubeconfig),
            format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd).into(),
            flag("tls-cert-file", setup.pki.file("tls.crt")),
            flag("tls-private-key-file", setup.pki.file("tls.key")),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", ports.aggregated_apiserver).into(),
        ],
        logs: setup.logs,
        remove: None,
    });
    let webhook = ChildProcess::start(Program {
        name: webhook_name,
        path: setup.peers.program(WEBHOOK),
        args: vec![
            flag("kubeconfig", kubeconfig),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", ports.webhook).into(),
            flag("cert-dir", setup.pki.directory()),
            "--metrics-bind-address=0".into(),
            format!(
                "--health-probe-bind-address=127.0.0.1:{}",
                ports.webhook_health
            )
            .into(),
        ],
        logs: setup.logs,
        remove: None,
    });
    let (aggregated, webhook) = tokio::try_join!(aggregated, webhook)?;
    tokio::try_join!(
        aggregated.while_running(register_aggregated(
            setup,
            &client,
            ports.aggregated_apiserver
        )),
        webhook.while_running(register_webhook(setup, &client, ports.webhook)),
    )?;
    Ok(vec![aggregated, webhook])
}

async fn register_aggregated(
    setup: &StartInputs<'_>,
    client: &Client,
    port: u16,
) -> anyhow::Result<()> {
    apply(
        client,
        &json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": AGGREGATED_APISERVER, "namespace": "karmada-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }),
    )
    .await?;
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": AGGREGATED},
        "spec": {
            "group": "cluster.karmada.io",
            "version": "v1alpha1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
            "caBundle": setup.pki.ca_bundle(),
            "service": {"name": AGGREGATED_APISERVER, "namespace": "karmada-system", "port": port},
        },
    });
    // The aggregated API server must listen before its registration. After a failed request, the aggregator repeats the
    // request only every 30 s.
    listening(port).await;
    apply(client, &service).await?;
    serving(client).await
}

/// Waits until the hub serves the resources of the aggregated API server.
pub(crate) async fn serving(client: &Client) -> anyhow::Result<()> {
    let api: Api<APIService> = Api::all(client.clone());
    let is_available = |service: &APIService| {
        let conditions = service
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one.type_ == "Available" && one.status == "True")
        })
    };
    wait::until(&api, AGGREGATED, "available", READY, is_available)
        .await
        .map(drop)
}

/// Registers Karmada's webhooks. Call this function only when the webhook listens. Before that, every request to it
/// fails and is rejected.
async fn register_webhook(
    setup: &StartInputs<'_>,
    client: &Client,
    port: u16,
) -> anyhow::Result<()> {
    listening(port).await;
    let file = setup.peers.karmada_webhooks();
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let text = text
        .replace(
            "https://karmada-webhook.karmada-system.svc:443",
            &format!("https://127.0.0.1:{port}"),
        )
        .replace("{{caBundle}}", &setup.pki.ca_bundle());
    let configurations: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| file.display().to_string())?;
    ensure!(!configurations.is_empty(), "{} is empty", file.display());
    try_join_all(
        configurations
            .iter()
            .map(|configuration| apply(client, configuration)),
    )
    .await
    .map(drop)
}

async fn listening(port: u16) {
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        sleep(POLL).await;
    }
}

/// Starts Karmada's controllers and its scheduler.
pub(crate) async fn start_controllers(
    setup: &StartInputs<'_>,
    hub: &Plane,
    default_thresholds: bool,
) -> anyhow::Result<Vec<ChildProcess>> {
    // With Karmada's default client limits, a burst of objects would take minutes.
    let common = || {
        vec![
            flag("kubeconfig", hub.kubeconfig()),
            "--leader-elect=false".into(),
            "--metrics-bind-address=0".into(),
            "--health-probe-bind-address=0".into(),
            "--kube-api-qps=1000".into(),
            "--kube-api-burst=2000".into(),
        ]
    };
    let mut args = common();
    args.extend([
        format!("--controllers={OF_HUB},{OF_CELLS}").into(),
        "--cluster-status-update-frequency=10s".into(),
        // The Works of a recovered cell are retried sooner than by default.
        "--rate-limiter-max-delay=5s".into(),
        "--cluster-api-qps=1000".into(),
        "--cluster-api-burst=2000".into(),
        "--enable-cluster-resource-modeling=false".into(),
    ]);
    if !default_thresholds {
        // A dead or returned cell is detected sooner than by default.
        args.extend([
            "--cluster-failure-threshold=10s".into(),
            "--cluster-success-threshold=1s".into(),
        ]);
    }
    let start = |program: &'static str, args: Vec<OsString>| async move {
        ChildProcess::start(Program {
            name: &process_name(hub, program),
            path: setup.peers.program(program),
            args,
            logs: setup.logs,
            remove: None,
        })
        .await
    };
    let (controllers, scheduler) =
        tokio::try_join!(start(CONTROLLERS, args), start(SCHEDULER, common()))?;
    Ok(vec![controllers, scheduler])
}

/// Returns the flags of the agent of a cluster in pull mode. The paths are those of kubeconfigs.
pub(crate) fn agent_flags(name: &str, cluster: &Path, hub: &Path) -> Vec<OsString> {
    vec![
        flag("karmada-kubeconfig", hub),
        flag("kubeconfig", cluster),
        format!("--cluster-name={name}").into(),
        "--report-secrets=None".into(),
        "--enable-cluster-resource-modeling=false".into(),
        "--leader-elect=false".into(),
        "--metrics-bind-address=0".into(),
        "--health-probe-bind-address=0".into(),
        // Works are retried sooner than by default.
        "--rate-limiter-max-delay=5s".into(),
    ]
}

/// Returns a start command for Karmada's controllers without those that write to cells.
pub(crate) fn held(controllers: &StartCommand) -> StartCommand {
    controllers.with_flag("controllers", OF_HUB)
}

/// Registers a cell as a member of Karmada.
pub(crate) async fn join(
    setup: &StartInputs<'_>,
    hub: &Plane,
    cell: &Plane,
    config: &CellConfig,
) -> anyhow::Result<()> {
    let labels = json!({CITY_CODE: config.city});
    join_as(setup, hub, cell, cell.name(), &labels).await
}

/// Registers a plane as a member of Karmada, with this name and these labels.
pub(crate) async fn join_as(
    setup: &StartInputs<'_>,
    hub: &Plane,
    member: &Plane,
    name: &str,
    labels: &Value,
) -> anyhow::Result<()> {
    let access = CellAccess {
        url: &format!("https://127.0.0.1:{}", member.port()),
        token: CELL_TOKEN,
        ca_bundle: &setup.pki.ca_bundle(),
    };
    register(hub, name, labels, &access).await
}

/// Writes the credentials with which Karmada authenticates to a member. Returns the flag of its API server.
pub(crate) fn member_flag(setup: &StartInputs<'_>, name: &str) -> anyhow::Result<OsString> {
    let tokens = setup.directory.join(format!("{name}-tokens.csv"));
    let line = format!("{CELL_TOKEN},karmada,karmada,\"system:masters\"\n");
    fs::write(&tokens, line).with_context(|| tokens.display().to_string())?;
    Ok(flag("token-auth-file", &tokens))
}

/// How Karmada reaches the API server of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellAccess<'a> {
    pub(crate) url: &'a str,
    pub(crate) token: &'a str,
    /// The CA of the API server, in base64.
    pub(crate) ca_bundle: &'a str,
}

/// Registers a cluster as a member of Karmada, with these labels.
pub(crate) async fn register(
    hub: &Plane,
    name: &str,
    labels: &Value,
    access: &CellAccess<'_>,
) -> anyhow::Result<()> {
    let client = hub.client();
    apply(
        &client,
        &json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": CLUSTER_NAMESPACE},
            "data": {"token": STANDARD.encode(access.token), "caBundle": access.ca_bundle},
        }),
    )
    .await?;
    apply(
        &client,
        &json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "syncMode": "Push",
                "apiEndpoint": access.url,
                "secretRef": {"namespace": CLUSTER_NAMESPACE, "name": name},
            },
        }),
    )
    .await
    .map(drop)
}

/// Waits until the agent of a pull cell has renewed its Lease. Without the right to renew it, the cell would be Ready only
/// for a time after each report of its status.
pub(crate) async fn renews_its_lease(hub: &Plane, cell: &str) -> anyhow::Result<()> {
    let leases = Api::<Lease>::namespaced(hub.client(), CLUSTER_NAMESPACE);
    wait::eventually(
        &format!("the agent of {cell} renews its Lease"),
        READY,
        || async {
            let spec = leases.get(cell).await?.spec.unwrap_or_default();
            ensure!(spec.renew_time.is_some(), "the Lease was never renewed");
            Ok(())
        },
    )
    .await
}

/// Waits until Karmada can place our kinds in a cell.
pub(crate) async fn joined(hub: &Plane, cell: &str) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "Cluster");
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &ApiResource::from_gvk(&kind));
    wait::eventually(&format!("{cell} has joined"), READY, || async {
        let cluster = api.get(cell).await?;
        let status = cluster.data.pointer("/status").context("no status")?;
        let list = |name: &str| {
            status
                .get(name)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let ready = list("conditions")
            .iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True");
        let serves = list("apiEnablements")
            .iter()
            .any(|one| one["groupVersion"] == api::API_VERSION);
        ensure!(ready && serves, "status of the Cluster: {status}");
        Ok(())
    })
    .await
}
