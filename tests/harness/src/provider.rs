//! A fake infrastructure provider for a cell. It moves Instances to Programmed and Running, or misbehaves on request.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::condition::{self, Condition, ConditionStatus};
use api::instance::{InstanceControllerStatus, PROGRAMMED, RUNNING};
use api::reasons::instance::SUSPENDED;
use api::{Instance, InstanceStatus};
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use multicluster::{clock, connect};
use serde_json::json;

use crate::process::{ChildProcess, Program};
use crate::wait::SteadyBackoff;

/// First command-line argument of a provider process.
pub(crate) const RUN: &str = "harness-provider";

/// Annotation of an Instance that selects the behaviour of the provider. It usually comes from the template.
pub const BEHAVIOUR: &str = "harness.compute.datumapis.com/provider";
/// Value of [`BEHAVIOUR`]: the provider ignores the Instance.
pub const IGNORES: &str = "ignores";
/// Value of [`BEHAVIOUR`]: the provider programs the Instance, but the process of the Instance stops.
pub const STOPS: &str = "stops";

/// Starts a provider for the cell of this kubeconfig.
///
/// # Errors
///
/// When the process cannot be started.
pub async fn start(cell: &str, kubeconfig: &Path, logs: &Path) -> anyhow::Result<ChildProcess> {
    ChildProcess::start(Program {
        name: &format!("{cell}-provider"),
        path: std::env::current_exe()?,
        args: vec![RUN.into(), kubeconfig.into()],
        logs,
        remove: None,
    })
    .await
}

/// Serves one cell until the provider is killed. The only argument is the path of the kubeconfig.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> i32 {
    let result = args
        .next()
        .context("the kubeconfig is missing")
        .and_then(|kubeconfig| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(serve(&PathBuf::from(kubeconfig)))
        });
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error:#}");
            1
        }
    }
}

async fn serve(kubeconfig: &Path) -> anyhow::Result<()> {
    let config = connect::kubeconfig(kubeconfig, None).await?;
    let client = connect::client(config, "infrastructure-provider")?;
    let instances: Api<Instance> = Api::all(client.clone());
    let mut events = watcher(instances, watcher::Config::default())
        .backoff(SteadyBackoff)
        .applied_objects()
        .boxed();
    while let Some(event) = events.next().await {
        let provided = match event {
            Ok(instance) => provide(&client, &instance).await,
            Err(error) => Err(error.into()),
        };
        // The next version of the object triggers a retry.
        if let Err(error) = provided {
            eprintln!("{error:#}");
        }
    }
    Ok(())
}

async fn provide(client: &Client, instance: &Instance) -> anyhow::Result<()> {
    let former = instance.status.clone().unwrap_or_default();
    let Some(status) = realised(instance, former.clone()).filter(|status| *status != former) else {
        return Ok(());
    };
    let api: Api<Instance> =
        Api::namespaced(client.clone(), &instance.namespace().unwrap_or_default());
    let name = instance.name_any();
    let body =
        json!({"metadata": {"resourceVersion": instance.resource_version()}, "status": status});
    let params = PatchParams {
        field_manager: Some("infrastructure-provider".into()),
        ..PatchParams::default()
    };
    api.patch_status(&name, &params, &Patch::Merge(&body))
        .await
        .with_context(|| name.clone())?;
    println!("{name} provided");
    Ok(())
}

/// Returns the final status of the Instance for its behaviour, or `None` if the provider must not write a status.
fn realised(instance: &Instance, mut status: InstanceStatus) -> Option<InstanceStatus> {
    let behaviour = instance.annotations().get(BEHAVIOUR).map(String::as_str);
    let controller = instance.spec.controller.as_ref()?;
    if instance.metadata.deletion_timestamp.is_some()
        || !controller.scheduling_gates.is_empty()
        || behaviour == Some(IGNORES)
    {
        return None;
    }
    let now = clock::now();
    let programmed = Condition::new(
        PROGRAMMED,
        ConditionStatus::True,
        "Programmed",
        "programmed",
        now,
    );
    let running = match behaviour {
        _ if instance.is_suspended() => Condition::new(
            RUNNING,
            ConditionStatus::False,
            SUSPENDED,
            "the process is stopped",
            now,
        ),
        Some(STOPS) => Condition::new(
            RUNNING,
            ConditionStatus::False,
            "Stopped",
            "the process has ended",
            now,
        ),
        _ => Condition::new(RUNNING, ConditionStatus::True, "Running", "running", now),
    };
    for condition in [programmed, running] {
        condition::set(
            &mut status.conditions,
            condition.observed(instance.metadata.generation),
        );
    }
    let observed_template_hash = controller.template_hash.clone();
    status.controller = Some(InstanceControllerStatus {
        observed_template_hash,
    });
    Some(status)
}
