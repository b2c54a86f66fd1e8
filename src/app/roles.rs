//! The controllers that the flags enable.

use anyhow::{Context, ensure};
use api::CellName;
use api::identity::CLUSTER_SEPARATOR;
use controllers::cell_controllers;
use controllers::lower_hub_controllers::{self, HeldReport};
use controllers::management_controllers::{self, Management};
use controllers::runtime::Synced;
use kube::Client;
use multicluster::{ProjectRegistry, clock};
use tracing::warn;

use super::clusters;
use super::context::AppContext;
use crate::args::RoleArgs;
use crate::config::Config;

/// The controllers that were started.
#[derive(Default)]
pub(super) struct StartedControllers {
    /// The caches of the controllers. Readiness waits for them.
    pub(super) caches: Vec<Synced>,
    /// Watches each project that discovery engages, and serves it to the management controllers. `None` if these
    /// controllers are not enabled.
    pub(super) management: Option<Management>,
    /// Whether the report of a lower hub is held. `None` if its controller is not enabled.
    pub(super) held_report: Option<HeldReport>,
}

/// Starts the enabled controllers.
///
/// # Errors
///
/// If a prerequisite of a role is missing or invalid. The error contains the flag or the field (I-28). If no client can
/// be made from the hub's kubeconfig, the error contains the URL of the hub instead.
pub(super) async fn start_controllers(
    context: &AppContext,
    config: &Config,
    own: Option<&Client>,
    projects: Option<ProjectRegistry>,
) -> anyhow::Result<StartedControllers> {
    let RoleArgs {
        enable_management_controllers,
        enable_cell_controllers,
        enable_lower_hub_controllers,
    } = context.args.roles;
    ensure!(
        !(enable_cell_controllers && enable_lower_hub_controllers),
        "--enable-lower-hub-controllers cannot be combined with --enable-cell-controllers: the own cluster is a hub or a \
         cell"
    );
    ensure!(
        !(enable_management_controllers && enable_lower_hub_controllers),
        "--enable-lower-hub-controllers cannot be combined with --enable-management-controllers: the process of a lower \
         hub has few rights on the upper hub, and does not maintain its caBundle"
    );
    if !context.args.roles.has_controllers() && config.webhooks.is_none() {
        warn!(
            "nothing is enabled: set --enable-management-controllers, --enable-cell-controllers, \
             --enable-lower-hub-controllers, or webhookServer in the file of --server-config"
        );
    }
    let mut started = StartedControllers::default();
    if enable_lower_hub_controllers && let Some(own) = own {
        let config = lower_hub(context, config, own).await?;
        let (synced, held) = lower_hub_controllers::start(&context.controllers, config);
        started.caches.push(synced);
        started.held_report = Some(held);
    }
    if enable_cell_controllers && let Some(own) = own {
        let name: CellName = config.cluster_name.clone().context(
            "--enable-cell-controllers needs discovery.clusterName in the file of --server-config: the name of \
             this cell, which is in a label of each Instance that the cell copies to the hub",
        )?;
        let config = cell_controllers::Config {
            name,
            former_names: config.former_cluster_names.clone(),
            client: own.clone(),
            hub: clusters::hub(context, "cell").await?,
            quota: clusters::quota(context, config.quota.as_ref()).await?,
            networking: config.networking(context.args.feature_gates)?,
            awaits_data: config.awaits_data,
            metrics: context.planes_metrics.clone(),
            may_write: context.leadership.gained(),
            clock: clock::now,
        };
        started
            .caches
            .push(cell_controllers::start(&context.controllers, config));
    }
    if enable_management_controllers {
        let config = management_controllers::Config {
            hub: clusters::hub(context, "management").await?,
            projects: projects.context(
                "--enable-management-controllers needs the process's own cluster (--kubeconfig), or discovery.mode: milo \
                 or kubeconfigs in the file of --server-config",
            )?,
            metrics: context.planes_metrics.clone(),
            may_write: context.leadership.gained(),
            clock: clock::now,
        };
        let (synced, management) = management_controllers::start(&context.controllers, config);
        started.caches.push(synced);
        started.management = Some(management);
    }
    Ok(started)
}

/// Returns the dependencies of the controller of a lower hub.
async fn lower_hub(
    context: &AppContext,
    config: &Config,
    own: &Client,
) -> anyhow::Result<lower_hub_controllers::Config> {
    let name = config.cluster_name.clone().context(
        "--enable-lower-hub-controllers needs discovery.clusterName in the file of --server-config: the name of the \
         Cluster of this lower hub on the upper hub",
    )?;
    ensure!(
        !name.as_str().contains(CLUSTER_SEPARATOR),
        "discovery.clusterName: {name:?}: with --enable-lower-hub-controllers it is the name of a Cluster of the upper \
         hub, which has no dot",
        name = name.as_str()
    );
    Ok(lower_hub_controllers::Config {
        name,
        client: own.clone(),
        upper_hub: clusters::hub(context, "lower-hub").await?,
        metrics: context.planes_metrics.clone(),
        may_write: context.leadership.gained(),
        clock: clock::now,
    })
}
