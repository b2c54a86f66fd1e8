//! Tests of compute-federation and Karmada behind proxies that close connections.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::Workload;
use api::karmada::Cluster;
use harness::proxy::RequestInfo;
use harness::site_proxy::{ConnectProxy, ConnectionLimits, ReverseProxy};
use harness::{CellConfig, Federation, networking, wait};
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Error};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{self, DFW, ORD, Space, WITHIN, patch};

/// Shorter than at real sites, so that many connections are closed within a test.
const LIMITS: ConnectionLimits = ConnectionLimits {
    idle: Duration::from_secs(2),
    age: Duration::from_secs(7),
};
/// How many connections each proxy closes before and during the changes.
const CLOSED: usize = 5;
/// Changes whose time is measured.
const CHANGES: usize = 6;

/// The pull cell, and its city.
const FAR: &str = "lax1";
const CITY: &str = "LAX";

/// The management process reaches the project and the hub below paths, with tokens, over HTTP/1.1. A cell reaches the hub
/// through CONNECT with a client certificate, and so do Karmada a push cell and the agent of a pull cell the hub. All
/// these proxies close idle and old connections.
pub(crate) async fn everything_behind_proxies() -> anyhow::Result<()> {
    let config = fixture::config("proxies")?;
    let mut federation = fixture::start_from(&config).await?;
    networking::offer_city(&federation.project().client(), "lax", CITY).await?;
    let far = CellConfig::new(FAR, CITY);
    let mut pull = federation.add_pull_cell(&config, &far).await?;
    let space = Space::create(&federation, "proxies").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD", CITY], 1)])
        .await?;
    space.until_settled("web", 3).await?;
    let direct = changes(&space, "direct", &[]).await?;

    let reverse = federation.put_reverse_proxies(LIMITS).await?;
    let connect = ConnectProxy::start(LIMITS).await?;
    federation.put_connect_proxy(DFW, &connect).await?;
    let of_karmada = ConnectProxy::start(LIMITS).await?;
    let clusters: Api<Cluster> = Api::all(federation.hub().client());
    let change = json!({"spec": {"proxyURL": of_karmada.url()}});
    patch(&clusters, ORD, change).await?;
    let of_agent = ConnectProxy::start(LIMITS).await?;
    pull.put_connect_proxy(&of_agent).await?;
    // The first change opens what the proxies then close.
    changes_once(&space, "app:first").await?;
    let logs = LogSince::now(&federation).await?;
    for proxy in &reverse {
        proxy.take_requests();
    }
    until_closed(&reverse, CLOSED).await?;

    let through = changes(&space, "through", &reverse).await?;
    until_closed(&reverse, CLOSED).await?;
    ensure!(connect.opened() > 0, "the cell uses no proxy");
    for (proxy, of) in [(&of_karmada, "Karmada"), (&of_agent, "the agent")] {
        let closed = proxy.closed();
        ensure!(closed > 0, "{of} uses no proxy, or it closes nothing");
    }
    eprintln!("a change takes, in seconds: direct {direct:.2?}, through proxies {through:.2?}");
    let counts = [
        reverse[0].closed(),
        reverse[1].closed(),
        connect.closed(),
        of_karmada.closed(),
        of_agent.closed(),
    ];
    eprintln!("connections closed: project, hub, cell to hub, Karmada to cell, agent {counts:?}");
    closed_watches_are_routine(&reverse, &logs)?;
    a_client_certificate_ends_at_the_proxy(&federation, &reverse[1]).await?;
    federation.stop().await;
    Ok(())
}

/// Waits until each proxy has closed this many connections more.
async fn until_closed(proxies: &[ReverseProxy], count: usize) -> anyhow::Result<()> {
    let before: Vec<_> = proxies.iter().map(ReverseProxy::closed).collect();
    let closed = || async {
        for (proxy, before) in proxies.iter().zip(&before) {
            let since = proxy.closed() - before;
            ensure!(since >= count, "{}: {since} closed", proxy.url());
        }
        Ok(())
    };
    wait::eventually("connections are closed", WITHIN, closed).await
}

/// Returns the times of changes of a Workload until its status is current, in seconds. Each change meets other
/// connections.
async fn changes(
    space: &Space<'_>,
    label: &str,
    proxies: &[ReverseProxy],
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for number in 0..CHANGES {
        times.push(changes_once(space, &format!("{label}:{number}")).await?);
        until_closed(proxies, 1).await?;
    }
    Ok(times)
}

async fn changes_once(space: &Space<'_>, image: &str) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let change = fixture::image_change(image);
    patch(&space.in_project::<Workload>(), "web", change).await?;
    for (cell, city) in [(DFW, "dfw"), (ORD, "ord"), (FAR, "lax")] {
        let has = |instance: &api::Instance| fixture::has_image(instance, image);
        let name = format!("web-us-{city}-0");
        wait::until(&space.in_cell(cell), &name, image, WITHIN, has).await?;
    }
    space.until_settled("web", 3).await?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The log of a process behind a proxy, from a moment on.
struct LogSince {
    file: PathBuf,
    length: usize,
}

impl LogSince {
    /// Returns the logs of the management process and of the cell behind CONNECT.
    async fn now(federation: &Federation) -> anyhow::Result<[Self; 2]> {
        let management = federation.management()?.lock().await.log();
        let cell = federation.cell_manager(DFW)?.lock().await.log();
        let since = |file: PathBuf| {
            let length = fs::read(&file).context(file.display().to_string())?.len();
            anyhow::Ok(Self { file, length })
        };
        Ok([since(management)?, since(cell)?])
    }

    /// Returns the warnings and errors of the process.
    fn problems(&self) -> anyhow::Result<Vec<String>> {
        let log = fs::read_to_string(&self.file).context(self.file.display().to_string())?;
        let since = log.get(self.length..).unwrap_or_default();
        let is_problem = |line: &&str| line.contains("WARN") || line.contains("ERROR");
        Ok(since
            .lines()
            .filter(is_problem)
            .map(str::to_owned)
            .collect())
    }
}

/// Closed watches cause no list of whole objects and no warning. The cell has no watch on the hub, so it has no reason to
/// warn.
fn closed_watches_are_routine(
    proxies: &[ReverseProxy],
    [management, cell]: &[LogSince; 2],
) -> anyhow::Result<()> {
    let mut problems = management.problems()?;
    // A connection that gets too old can also have a request on it.
    problems.retain(|line| line.contains("watch failed") || line.contains("kube_client"));
    problems.extend(cell.problems()?);
    ensure!(problems.is_empty(), "{problems:#?}");
    for proxy in proxies {
        let requests = proxy.take_requests();
        let watches = requests.iter().filter(|it| it.is_watch()).count();
        ensure!(watches >= CLOSED, "{}: {watches} watches", proxy.url());
        let lists: Vec<_> = requests.iter().filter(|it| is_list(it)).collect();
        ensure!(lists.is_empty(), "{lists:#?}");
    }
    Ok(())
}

/// Returns whether the request reads more than one object. Events are no reaction to a closed watch: they are read when a
/// cell has lacked the current deployment for 2 s, as on a busy machine.
fn is_list(request: &RequestInfo) -> bool {
    // One object, or the metadata of the former version to check that the API server was not restored.
    let is_check = |parameter: &str| {
        let name = parameter.strip_prefix("fieldSelector=metadata.name%3D");
        name.is_some() || ["limit=1", "resourceVersionMatch=Exact"].contains(&parameter)
    };
    request.method == Method::GET
        && !request.is_watch()
        && !request.query.split('&').any(is_check)
        && names_a_kind(&request.path)
        && !request.path.ends_with("/events")
}

/// Returns whether a path names all objects of a kind, and neither one object nor what the API server serves.
fn names_a_kind(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').skip(1).collect();
    let resource = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    matches!(resource, [_] | ["namespaces", _, _])
}

/// The API server does not see a client certificate behind a proxy that ends TLS.
async fn a_client_certificate_ends_at_the_proxy(
    federation: &Federation,
    proxy: &ReverseProxy,
) -> anyhow::Result<()> {
    let client = federation.with_client_certificate(proxy).await?;
    let listed = Api::<Namespace>::all(client)
        .list(&ListParams::default())
        .await;
    match listed {
        Err(Error::Api(status)) => {
            ensure!(status.message.contains("system:anonymous"), "{status:?}");
            Ok(())
        }
        other => anyhow::bail!("{other:?}"),
    }
}
