//! The clusters that the process connects to, and their clients.

use anyhow::Context;
use controllers::cell_controllers::ConnectLedger;
use kube::Client;
use multicluster::connect::{self, ClusterConfig, ConnectError};
use multicluster::projects::ProjectClients;
use tracing::{error, warn};

use super::context::AppContext;
use crate::args::OptionalFlag;
use crate::bind_address::BindAddress;
use crate::config::{Config, DiscoveryMode, QuotaConfig};
use crate::user_agent::user_agent;

/// Loads the configuration of the own cluster. Returns `None` if no part of the process needs the own cluster. Also
/// returns `None` if only admission needs it and there is no kubeconfig: then admission is not served.
///
/// # Errors
///
/// If a part needs the own cluster and its configuration cannot be loaded. The error contains the flag or the field.
pub(super) async fn own_cluster(
    context: &AppContext,
    config: &Config,
) -> anyhow::Result<Option<ClusterConfig>> {
    let args = &context.args;
    let single = config.discovery == DiscoveryMode::Single;
    let reviews_tokens = config.metrics.secure && config.metrics.address != BindAddress::Off;
    let needs = [
        (
            args.roles.enable_management_controllers && single,
            "--enable-management-controllers",
        ),
        (
            args.roles.enable_cell_controllers,
            "--enable-cell-controllers",
        ),
        (
            args.roles.enable_lower_hub_controllers,
            "--enable-lower-hub-controllers",
        ),
        (args.leader_elect, "--leader-elect"),
        (
            reviews_tokens,
            "metricsServer.secureServing, which is on unless it is false,",
        ),
    ];
    let needed_by = needs.into_iter().find(|(needs, _)| *needs);
    let needed_by = needed_by.map(|(_, flag)| flag);
    let is_the_project = context.serves_admission(config) && single;
    if needed_by.is_none() && !is_the_project {
        return Ok(None);
    }
    let OptionalFlag(path) = &args.kubeconfig;
    match (connect::own_cluster(path.as_deref()).await, needed_by) {
        (Err(error @ ConnectError::NotInCluster(_)), None) => {
            // The interpreter needs no cluster, so the process continues without admission.
            warn!(%error, "admission is not served");
            Ok(None)
        }
        (config, needed_by) => config.map(Some).with_context(|| match (path, needed_by) {
            (None, Some(flag)) => format!("{flag} needs the own cluster"),
            (None, None) => "webhookServer".to_owned(),
            (Some(_), _) => "--kubeconfig".to_owned(),
        }),
    }
}

/// Returns a client of the hub for the controllers of this role.
///
/// # Errors
///
/// If there is no kubeconfig of the hub, if the kubeconfig cannot be loaded, or if no client can be made from it.
pub(super) async fn hub(context: &AppContext, role: &str) -> anyhow::Result<Client> {
    let (OptionalFlag(path), OptionalFlag(kubeconfig_context)) = (
        &context.args.federation_kubeconfig,
        &context.args.federation_context,
    );
    let flag = format!("--enable-{role}-controllers");
    let path = path.as_deref().with_context(|| {
        format!("{flag} needs --federation-kubeconfig, the kubeconfig of the hub")
    })?;
    let config = connect::kubeconfig(path, kubeconfig_context.as_deref())
        .await
        .context("--federation-kubeconfig")?;
    client(context, &config, role)
}

/// Returns the function that makes the clients for quota. Returns `None` if the cell does not enforce quota.
///
/// # Errors
///
/// If the kubeconfig cannot be loaded, or if no client can be made from it. The error contains the field. A cell whose
/// Secret is not mounted must not run without quota.
pub(super) async fn quota(
    context: &AppContext,
    quota: Option<&QuotaConfig>,
) -> anyhow::Result<Option<ConnectLedger>> {
    let Some(quota) = quota else {
        error!(
            "quota is not enforced: set discovery.quotaKubeconfigPath in the file of --server-config, the kubeconfig of \
             the projects' API servers"
        );
        return Ok(None);
    };
    let field = || format!("discovery.{}", quota.field);
    let template = connect::kubeconfig(&quota.kubeconfig, None)
        .await
        .with_context(field)?;
    if !quota.per_project {
        let client = client(context, &template, "quota").with_context(field)?;
        return Ok(Some(Box::new(move |_| Ok(client.clone()))));
    }
    let leadership = context.leadership.clone();
    let clients =
        ProjectClients::new(template, &user_agent("quota"), leadership).with_context(field)?;
    Ok(Some(Box::new(move |project| clients.client(project))))
}

/// Returns a client that sends writes only while this process is the leader.
pub(super) fn client(
    context: &AppContext,
    config: &ClusterConfig,
    role: &str,
) -> anyhow::Result<Client> {
    let leadership = context.leadership.clone();
    Ok(connect::leaders_client(
        config.clone(),
        &user_agent(role),
        leadership,
    )?)
}
