//! Reads the hub: CellRules, Clusters, the policy of the rules, WorkloadDeployments and their ResourceBindings. Nothing is
//! written.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use anyhow::Context;
use api::karmada::{Cluster, ClusterOverridePolicy, ResourceBinding};
use api::{CellRule, WorkloadDeployment};
use controllers::cell_rules::POLICY;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::args::CellRulesArgs;
use crate::hub_client;
use crate::hub_error::hub_error;

/// Objects in one page of a list (client-go's default).
const PAGE: u32 = 500;

/// The hub.
pub(super) struct Hub {
    client: Client,
    /// Address of its API server.
    pub(super) url: String,
}

impl Hub {
    pub(super) async fn connect(args: &CellRulesArgs) -> anyhow::Result<Self> {
        let (kubeconfig, context) = (&args.federation_kubeconfig, &args.federation_context);
        let (client, url) = hub_client::connect(kubeconfig, context.as_deref(), "rules").await?;
        Ok(Self { client, url })
    }

    pub(super) async fn rules(&self) -> anyhow::Result<Vec<CellRule>> {
        let mut rules = Vec::new();
        self.each::<CellRule>(|rule| rules.push(rule)).await?;
        Ok(rules)
    }

    /// Returns the labels of each cell.
    pub(super) async fn cells(&self) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let mut cells = BTreeMap::new();
        self.each::<PartialObjectMeta<Cluster>>(|cluster| {
            cells.insert(cluster.name_any(), cluster.labels().clone());
        })
        .await?;
        Ok(cells)
    }

    /// Returns the policy that gives the cells their rules, if it exists.
    pub(super) async fn policy(&self) -> anyhow::Result<Option<ClusterOverridePolicy>> {
        let mut found = None;
        // The role of the management process has no right to get it.
        self.each::<ClusterOverridePolicy>(|policy| {
            if policy.name_any() == POLICY {
                found = Some(policy);
            }
        })
        .await?;
        Ok(found)
    }

    /// Calls `next` with each WorkloadDeployment, and the cells to which Karmada has scheduled it.
    pub(super) async fn deployments(
        &self,
        mut next: impl FnMut(&WorkloadDeployment, &[String]),
    ) -> anyhow::Result<()> {
        let mut cells = HashMap::new();
        self.each::<ResourceBinding>(|binding| {
            let targets = binding.spec.clusters.into_iter();
            let targets: Vec<_> = targets.map(|target| target.name).collect();
            cells.insert(binding.spec.resource.uid, targets);
        })
        .await?;
        self.each::<WorkloadDeployment>(|deployment| {
            let bound = cells.get(deployment.uid().unwrap_or_default().as_str());
            next(&deployment, bound.map(Vec::as_slice).unwrap_or_default());
        })
        .await
    }

    /// Calls `next` with each object of a kind, page by page.
    async fn each<K>(&self, mut next: impl FnMut(K)) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let all = Api::<K>::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = all.list(&params).await;
            let page = page.map_err(|error| hub_error(&self.url, &error));
            let page = page.with_context(|| K::plural(&()).into_owned())?;
            page.items.into_iter().for_each(&mut next);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}
