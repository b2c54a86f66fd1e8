//! Milo with two projects and two replicas of compute-federation that serve admission.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::manager::Manager;
use harness::milo::{ControlPlane, MiloUser, PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE};
use harness::{Milo, wait};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fixture::WITHIN;
use crate::kubectl::kubectl;

pub(super) const A: &str = "a";
pub(super) const B: &str = "b";
pub(super) const NAMESPACE: &str = "default";
/// Name of the permission to use a network.
pub(super) const USE: &str = "networking.datumapis.com/networks.use";
/// Path of the validating webhook.
pub(super) const VALIDATE: &str = "/validate-compute-datumapis-com-v1alpha-workload?timeout=10s";

/// The fixture of the admission tests.
pub(crate) struct Platform {
    pub(crate) milo: Milo,
    pub(super) replicas: Vec<Manager>,
}

/// Starts Milo with projects in different cities. Also starts two replicas that serve the admission webhooks for this
/// Milo.
pub(crate) async fn start(label: &str) -> anyhow::Result<Platform> {
    let milo = crate::milo::start(label, &crate::milo::PROJECTS).await?;
    for (project, cities) in [(A, ["DFW", "ORD"]), (B, ["LHR", "ORD"])] {
        let project = milo.project(project)?;
        for city in cities {
            bind(&project, city, Some(true)).await?;
        }
    }
    let mut replicas = Vec::new();
    for name in ["manager-1", "manager-2"] {
        let mut replica = milo.replica(name)?;
        replica.launch().await?;
        replicas.push(replica);
    }
    for replica in &replicas {
        replica.until_ready().await?;
    }
    let platform = Platform { milo, replicas };
    let port = platform.replica(0)?.webhook_port();
    platform.milo.register_admission(port).await?;
    Ok(platform)
}

/// Creates a LocationBinding for a city. The name of the binding is the city code in lower case.
pub(super) async fn bind(
    project: &ControlPlane,
    city: &str,
    available: Option<bool>,
) -> anyhow::Result<()> {
    let topology = json!({"topology.datum.net/city-code": city});
    project
        .bind_location(&city.to_lowercase(), &topology, available)
        .await
}

impl Platform {
    pub(super) fn replica(&self, index: usize) -> anyhow::Result<&Manager> {
        self.replicas
            .get(index)
            .context("there is no replica with this index")
    }

    /// Ends all processes.
    pub(crate) async fn stop(self) {
        for mut replica in self.replicas {
            replica.terminate().await;
        }
        self.milo.stop().await;
    }

    /// Creates a user who may use networks in these projects.
    pub(super) fn user(&self, name: &str, projects: &[&str]) -> MiloUser {
        for project in projects {
            self.milo.authorizer().allow(name, project, USE);
        }
        MiloUser::new(&format!("{name}@example.com"), name)
    }

    /// Runs `kubectl` as a user through the front, with an object on its standard input.
    pub(super) async fn kubectl(
        &self,
        user: &MiloUser,
        project: &str,
        args: &[&str],
        object: Option<&Value>,
    ) -> anyhow::Result<Output> {
        let kubeconfig = self.milo.kubeconfig(user, Some(project))?;
        kubectl(&kubeconfig, args, object).await
    }

    /// Applies a Workload that must be accepted.
    pub(super) async fn accepted(
        &self,
        user: &MiloUser,
        project: &str,
        workload: &Value,
    ) -> anyhow::Result<()> {
        let output = self.apply(user, project, workload).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{error}");
        Ok(())
    }

    /// Applies a Workload that must be refused, and returns the error output of `kubectl`.
    pub(super) async fn refused(
        &self,
        user: &MiloUser,
        project: &str,
        workload: &Value,
    ) -> anyhow::Result<String> {
        let output = self.apply(user, project, workload).await?;
        ensure!(!output.status.success(), "accepted: {workload}");
        Ok(String::from_utf8(output.stderr)?)
    }

    async fn apply(
        &self,
        user: &MiloUser,
        project: &str,
        workload: &Value,
    ) -> anyhow::Result<Output> {
        self.kubectl(user, project, &["apply", "--filename=-"], Some(workload))
            .await
    }

    /// Adds a project with one city, and waits until every replica knows the city.
    pub(super) async fn add_project_in_dfw(&self, name: &str) -> anyhow::Result<Arc<ControlPlane>> {
        let project = self.milo.add_project(name).await?;
        bind(&project, "DFW", Some(true)).await?;
        self.until_cities(name, &["DFW"]).await?;
        Ok(project)
    }

    /// Posts a review to a replica, as an API server does. Returns the response.
    pub(super) async fn post(&self, replica: &Manager, review: &Value) -> anyhow::Result<Value> {
        let answer = self.post_to(replica, VALIDATE, review).await?;
        answer.get("response").cloned().context("no response")
    }

    /// Posts a body to a path of a replica. Presents no client certificate.
    pub(super) async fn post_to(
        &self,
        replica: &Manager,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let url = format!("https://127.0.0.1:{}", replica.webhook_port());
        let mut config = Config::new(url.parse()?);
        let authority = self.milo.webhook_certificate().lock().await.authority();
        config.root_cert = Some(vec![authority]);
        let request = Request::post(path)
            .header("Content-Type", "application/json")
            .body(body.to_string().into_bytes())?;
        Ok(Client::try_from(config)?.request(request).await?)
    }

    /// Returns the cities that a replica offers to a project. The function reads them from the denial of a Workload.
    pub(super) async fn cities(
        &self,
        replica: &Manager,
        project: &str,
    ) -> anyhow::Result<BTreeSet<String>> {
        let user = self.user("of-cities", &[project]);
        let review = review(&user, project, &workload("cities", "default", &["NONE"]));
        let response = self.post(replica, &review).await?;
        let causes = response.pointer("/status/details/causes");
        let message = causes
            .and_then(|causes| causes[0]["message"].as_str())
            .with_context(|| response.to_string())?;
        let (_, listed) = message.split_once("supported values: ").unwrap_or_default();
        let codes = listed.split(", ").map(|code| code.trim_matches('"'));
        Ok(codes
            .filter(|code| !code.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Waits until every replica offers exactly these cities to a project.
    pub(super) async fn until_cities(
        &self,
        project: &str,
        cities: &[&str],
    ) -> anyhow::Result<Duration> {
        let begin = tokio::time::Instant::now();
        let expected: BTreeSet<_> = cities.iter().map(|&city| city.to_owned()).collect();
        wait::eventually(&format!("{project} has {cities:?}"), WITHIN, || async {
            for replica in &self.replicas {
                let found = self.cities(replica, project).await?;
                ensure!(found == expected, "{found:?}");
            }
            Ok(())
        })
        .await?;
        Ok(begin.elapsed())
    }
}

/// Returns a Workload with placements in these cities. A project that has these cities admits this Workload.
pub(crate) fn workload(name: &str, network: &str, cities: &[&str]) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "template": {"spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{"name": "web", "image": "nginx:1"}]},
                },
                "networkInterfaces": [{"network": {"name": network}}],
            }},
            "placements": [{
                "name": "here",
                "cityCodes": cities,
                "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 1},
            }],
        },
    })
}

/// Returns an AdmissionReview as the API server of a project sends it when a user creates this object.
pub(super) fn review(user: &MiloUser, project: &str, object: &Value) -> Value {
    let mut extra: serde_json::Map<String, Value> = user
        .extra
        .iter()
        .map(|(key, values)| (key.clone(), json!(values)))
        .collect();
    for (key, value) in [
        (PARENT_TYPE, "Project"),
        (PARENT_NAME, project),
        (PARENT_API_GROUP, "resourcemanager.miloapis.com"),
    ] {
        extra.insert(key.to_owned(), json!([value]));
    }
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"},
            "resource": {"group": "compute.datumapis.com", "version": "v1alpha", "resource": "workloads"},
            "name": object["metadata"]["name"],
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "userInfo": {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": extra},
            "object": object,
            "oldObject": null,
            "dryRun": false,
        },
    })
}
