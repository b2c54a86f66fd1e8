//! Tests of connections to a real API server.

use futures::{StreamExt, TryStreamExt, future};
use harness::Federation;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use multicluster::connect;
use tokio::time::timeout;

use crate::fixture::{Space, WITHIN, create};

/// Number of watches. An API server of the harness allows only a third of this number on one connection.
const WATCHES: usize = 300;

/// Opens more watches than one connection allows. If all watches shared one connection, further requests would
/// wait for the end of a watch, and watches do not end.
pub(crate) async fn more_watches_than_one_connection_allows(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "watches").await?;
    let config = connect::kubeconfig(federation.project().kubeconfig(), None).await?;
    let client = connect::client(config, "test")?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &space.name);

    let beginning = maps.list(&ListParams::default()).await?.metadata;
    let version = beginning.resource_version.unwrap_or_default();
    let parameters = WatchParams::default();
    let watches = (0..WATCHES).map(|_| maps.watch(&parameters, &version));
    let watches = timeout(WITHIN, future::try_join_all(watches)).await??;

    create::<ConfigMap>(&maps, serde_json::json!({"metadata": {"name": "seen"}})).await?;
    let events = watches.into_iter().map(|watch| async {
        let added = watch.try_filter(|event| future::ready(matches!(event, WatchEvent::Added(_))));
        added.boxed().try_next().await
    });
    let seen = timeout(WITHIN, future::try_join_all(events)).await??;
    assert!(seen.iter().all(Option::is_some));
    Ok(())
}
