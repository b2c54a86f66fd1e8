//! The clusters that the process works with, and how they are reached.

use anyhow::Context;
use kube::Client;
use multicluster::connect::{self, ConnectError};
use tracing::warn;

use super::App;
use crate::args::{BindAddress, Unset};
use crate::config::{Config, Discovery};
use crate::user_agent::user_agent;

impl App {
    /// How the own cluster is reached, if anything needs it.
    pub(super) async fn own_cluster(
        &self,
        config: &Config,
    ) -> anyhow::Result<Option<kube::Config>> {
        let args = &self.args;
        let reviews = config.metrics.secure && config.metrics.address != BindAddress::Off;
        let needs = [
            (
                args.enable_management_controllers && config.discovery == Discovery::Single,
                "--enable-management-controllers",
            ),
            (args.enable_cell_controllers, "--enable-cell-controllers"),
            (args.leader_elect, "--leader-elect"),
            (
                reviews,
                "metricsServer.secureServing, which is on unless it is false,",
            ),
        ];
        let who = needs.into_iter().find(|(needs, _)| *needs);
        let who = who.map(|(_, who)| who);
        let is_the_project = self.serves_admission(config) && config.discovery == Discovery::Single;
        if who.is_none() && !is_the_project {
            return Ok(None);
        }
        let Unset(path) = &args.kubeconfig;
        let config = match (connect::own_cluster(path.as_deref()).await, who) {
            (Err(error @ ConnectError::NotInCluster(_)), None) => {
                // Karmada can be answered without.
                warn!(%error, "admission is not served");
                return Ok(None);
            }
            (config, who) => config.with_context(|| match (path, who) {
                (None, Some(who)) => format!("{who} needs the own cluster"),
                (None, None) => "webhookServer".to_owned(),
                (Some(_), _) => "--kubeconfig".to_owned(),
            })?,
        };
        Ok(Some(config))
    }

    pub(super) async fn hub(&self, role: &str) -> anyhow::Result<Client> {
        let (Unset(path), Unset(context)) = (
            &self.args.federation_kubeconfig,
            &self.args.federation_context,
        );
        let flag = format!("--enable-{role}-controllers");
        let path = path
            .as_deref()
            .with_context(|| format!("{flag} needs --federation-kubeconfig: where the hub is"))?;
        let config = connect::kubeconfig(path, context.as_deref())
            .await
            .context("--federation-kubeconfig")?;
        self.client(&config, role)
    }

    /// A client by which only the leader writes.
    pub(super) fn client(&self, config: &kube::Config, role: &str) -> anyhow::Result<Client> {
        let leadership = self.leadership.clone();
        Ok(connect::leaders_client(
            config.clone(),
            &user_agent(role),
            leadership,
        )?)
    }
}
