//! compute-federation takes over the objects of the Go baseline without a visible disturbance.

use anyhow::{Context, ensure};
use api::{Workload, WorkloadDeployment};
use harness::former::{
    CUSTOMIZATION, Customer, FormerDeployment, FormerNamespace, Shown, WEB, customization,
};
use harness::{Federation, wait};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use crate::customizations::{self, until_counted};
use crate::fixture::{self, DFW, ORD, Space, WITHIN, create, patch, policies, workload};

use crate::verify_command::verify;

/// Name of our webhook's registration with Karmada.
const REGISTRATION: &str = "compute-federation";

const DEPLOYMENTS: [FormerDeployment; 2] = [
    FormerDeployment {
        placement: "us",
        city: "DFW",
        cell: DFW,
    },
    FormerDeployment {
        placement: "west",
        city: "ORD",
        cell: ORD,
    },
];

/// I-7: every legacy form of a label is accepted.
pub(crate) async fn objects_of_the_baseline_are_adopted() -> anyhow::Result<()> {
    let federation = fixture::start("takeover").await?;
    tokio::select! {
        result = take_over(&federation) => {
            result.with_context(|| format!("in {}", federation.directory().display()))?;
        }
        death = federation.death() => return Err(death),
    }
    federation.stop().await;
    Ok(())
}

async fn take_over(federation: &Federation) -> anyhow::Result<()> {
    let managers = [
        federation.management()?,
        federation.cell_manager(DFW)?,
        federation.cell_manager(ORD)?,
    ];
    for manager in managers {
        manager.lock().await.terminate().await;
    }
    let hub = federation.hub().client();
    let customizations = customizations::all(hub.clone());
    let lua = customization(CUSTOMIZATION, "WorkloadDeployment")?;
    create(&customizations, lua).await?;
    let registration = InterpreterRegistration::remove(federation).await?;
    let space = Space::create(federation, "takeover").await?;
    let former = former(&space);
    former.leave_objects().await?;
    let before = Shown::to_the_customer(&former).await?;
    let inside = former.uids_of_others().await?;
    let customer = Customer::watch(&former);

    let (is_safe, report) = verify(federation, &[]).await?;
    let conclusion = report["conclusion"].as_str().unwrap_or_default();
    let expected = "Safe to remove after compute-federation is registered for WorkloadDeployment";
    ensure!(is_safe && conclusion.starts_with(expected), "{report:#}");
    ensure!(report["onHub"]["objects"] == 2, "{report:#}");

    // The order in which the managers start does not matter. In this test, the manager of a cell starts last.
    registration.restore().await?;
    for manager in managers {
        manager.lock().await.restart().await?;
    }
    former.until_adopted().await?;
    until_counted(federation, 1).await?;
    let same = || async {
        let after = Shown::to_the_customer(&former).await?;
        before.is_kept_in(&after)
    };
    wait::eventually("the project is as before", WITHIN, same).await?;
    assert_eq!(former.uids_of_others().await?, inside);

    // In the last step, an operator removes the customization. Then Karmada calls the webhook. The way back is open.
    let (is_safe, report) = verify(federation, &[]).await?;
    let conclusion = report["conclusion"].as_str().unwrap_or_default();
    ensure!(
        is_safe && conclusion.starts_with("Safe to remove: "),
        "{report:#}"
    );
    ensure!(report["onHub"]["objects"] == 2, "{report:#}");
    for (count, step) in [(0, "removed"), (1, "back"), (0, "removed-again")] {
        match count {
            0 => {
                let now = DeleteParams::default();
                customizations.delete(CUSTOMIZATION, &now).await?;
            }
            _ => {
                let lua = customization(CUSTOMIZATION, "WorkloadDeployment")?;
                create(&customizations, lua).await?;
            }
        }
        until_counted(federation, count).await?;
        interpret_anew(&space, step).await?;
        wait::eventually("the project is as before", WITHIN, same).await?;
    }
    assert_eq!(former.uids_of_others().await?, inside);
    customer.was_never_disturbed(&former).await?;

    update_and_delete(&space, &former).await
}

/// Changes the hub's objects, so that Karmada interprets them.
async fn interpret_anew(space: &Space<'_>, value: &str) -> anyhow::Result<()> {
    let relabelled = json!({"metadata": {"labels": {"example.com/interpreted": value}}});
    for it in &DEPLOYMENTS {
        let copies = space.on_hub::<WorkloadDeployment>();
        patch(&copies, &it.name(), relabelled.clone()).await?;
    }
    space.until_settled(WEB, 2).await.map(drop)
}

/// The registration of our webhook. The baseline has no such registration.
struct InterpreterRegistration {
    all: Api<DynamicObject>,
    former: DynamicObject,
}

impl InterpreterRegistration {
    async fn remove(federation: &Federation) -> anyhow::Result<Self> {
        let kind = "ResourceInterpreterWebhookConfiguration";
        let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
        let hub = federation.hub().client();
        let all = Api::all_with(hub, &ApiResource::from_gvk(&kind));
        let former = all.get(REGISTRATION).await?;
        all.delete(REGISTRATION, &DeleteParams::default()).await?;
        Ok(Self { all, former })
    }

    async fn restore(self) -> anyhow::Result<()> {
        let mut registration = self.former;
        registration.metadata.resource_version = None;
        registration.metadata.uid = None;
        self.all
            .create(&PostParams::default(), &registration)
            .await?;
        Ok(())
    }
}

/// Returns the namespace on all planes.
fn former(space: &Space<'_>) -> FormerNamespace {
    let federation = space.federation;
    let cells = federation.cells();
    FormerNamespace {
        project: federation.project().client(),
        project_name: "single".to_owned(),
        name: space.name.clone(),
        hub: federation.hub().client(),
        hub_name: space.hub_name.clone(),
        cells: cells
            .map(|cell| (cell.name().to_owned(), cell.client()))
            .collect(),
        network: fixture::NETWORK.to_owned(),
        deployments: DEPLOYMENTS.to_vec(),
    }
}

/// Scales one city up. Then deletes the Workload and checks that no object is left.
async fn update_and_delete(space: &Space<'_>, former: &FormerNamespace) -> anyhow::Result<()> {
    let wanted = workload(WEB, &[("us", &["DFW"], 2), ("west", &["ORD"], 1)]);
    let scaled = json!({"spec": {"placements": wanted["spec"]["placements"]}});
    patch::<Workload>(&space.in_project(), WEB, scaled).await?;
    space.until_settled(WEB, 3).await?;
    let all = ["web-us-dfw-0", "web-us-dfw-1", "web-west-ord-0"];
    space.until_instances(space.in_project(), &all).await?;
    space.until_instances(space.on_hub(), &all).await?;

    former.give_claims_back().await?;
    space.delete_workload(WEB).await?;
    space.until_empty().await?;
    space.until_instances(space.in_project(), &[]).await?;
    for it in &DEPLOYMENTS {
        wait::gone(&policies(space), &it.policy(), WITHIN).await?;
    }
    Ok(())
}
