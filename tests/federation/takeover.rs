//! compute-federation takes over the objects of the Go baseline without a visible disturbance.

#[path = "takeover/baseline.rs"]
mod baseline;
#[path = "takeover/customer.rs"]
mod customer;

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, annotations, labels};
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::customizations::{self, customization, until_counted};
use crate::fixture::{self, DFW, ORD, Space, WITHIN, create, patch, policies, workload};
use customer::{Customer, Shown};

const WEB: &str = "web";
/// Name of our webhook's registration with Karmada.
const REGISTRATION: &str = "compute-federation";

/// A deployment of the Workload.
struct BaselineDeployment {
    placement: &'static str,
    city: &'static str,
    cell: &'static str,
}

const DEPLOYMENTS: [BaselineDeployment; 2] = [
    BaselineDeployment {
        placement: "us",
        city: "DFW",
        cell: DFW,
    },
    BaselineDeployment {
        placement: "west",
        city: "ORD",
        cell: ORD,
    },
];

impl BaselineDeployment {
    fn name(&self) -> String {
        format!("{WEB}-{}-{}", self.placement, self.city.to_lowercase())
    }

    fn instance(&self) -> String {
        format!("{}-0", self.name())
    }

    fn policy(&self) -> String {
        format!("city-{}", self.city.to_lowercase())
    }
}

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
    let lua = customization(customizations::NAME, "WorkloadDeployment")?;
    create(&customizations, lua).await?;
    let registration = InterpreterRegistration::remove(federation).await?;
    let space = Space::create(federation, "takeover").await?;
    baseline::leave(&space, &DEPLOYMENTS).await?;
    let before = Shown::to_the_customer(&space).await?;
    let inside = uids_of_others(&space).await?;
    let customer = Customer::watch(&space);

    // The order in which the managers start does not matter. In this test, the manager of a cell starts last.
    registration.restore().await?;
    for manager in managers {
        manager.lock().await.restart().await?;
    }
    until_adopted(&space).await?;
    until_counted(federation, 1).await?;
    let same = || async {
        let after = Shown::to_the_customer(&space).await?;
        before.is_kept_in(&after)
    };
    wait::eventually("the project is as before", WITHIN, same).await?;
    assert_eq!(uids_of_others(&space).await?, inside);

    // In the last step, an operator registers the webhook. Then Karmada calls the webhook.
    customizations
        .delete(customizations::NAME, &DeleteParams::default())
        .await?;
    until_counted(federation, 0).await?;
    let relabelled = json!({"metadata": {"labels": {"example.com/interpreted": "anew"}}});
    for it in &DEPLOYMENTS {
        let copies = space.on_hub::<WorkloadDeployment>();
        patch(&copies, &it.name(), relabelled.clone()).await?;
    }
    space.until_settled(WEB, 2).await?;
    wait::eventually("the project is as before", WITHIN, same).await?;
    assert_eq!(uids_of_others(&space).await?, inside);
    customer.was_never_disturbed(&space).await?;

    update_and_delete(&space).await
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

/// Waits until every object has the fields that the baseline did not set.
async fn until_adopted(space: &Space<'_>) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(space.federation.hub().client());
    let is_rewritten = |namespace: &Namespace| {
        namespace.labels().get(labels::UPSTREAM_CLUSTER_NAME) == Some(&"cluster-single".to_owned())
    };
    wait::until(
        &namespaces,
        &space.hub_name,
        "relabelled",
        WITHIN,
        is_rewritten,
    )
    .await?;
    for it in &DEPLOYMENTS {
        let propagates = |policy: &DynamicObject| {
            policy.data["spec"]["propagateDeps"] == true
                && policy.labels().get(labels::CITY_CODE).map(String::as_str) == Some(it.city)
        };
        let adopted = "adopted";
        wait::until(&policies(space), &it.policy(), adopted, WITHIN, propagates).await?;
        let deployments: Api<WorkloadDeployment> = space.in_project();
        let is_recorded = |deployment: &WorkloadDeployment| {
            let record = deployment
                .annotations()
                .get(annotations::FEDERATION_NAMESPACE);
            record == Some(&space.hub_name)
        };
        let name = it.name();
        let deployment = wait::until(&deployments, &name, "recorded", WITHIN, is_recorded).await?;
        let copy = space.on_hub::<WorkloadDeployment>().get(&name).await?;
        for (plane, owner) in [
            (space.on_hub::<Instance>(), copy.uid()),
            (space.in_project(), deployment.uid()),
        ] {
            let is_linked = |instance: &Instance| {
                let label = instance.labels().get(labels::WORKLOAD_DEPLOYMENT_NAME);
                let owners = instance.owner_references();
                label == Some(&name) && owners.iter().any(|it| Some(&it.uid) == owner.as_ref())
            };
            wait::until(&plane, &it.instance(), "linked", WITHIN, is_linked).await?;
        }
        let runs_ours = |instance: &Instance| {
            let controller = instance.spec.controller.as_ref();
            controller.is_some_and(|controller| controller.template_hash.starts_with("v1-"))
        };
        let instances = space.in_cell(it.cell);
        wait::until(&instances, &it.instance(), adopted, WITHIN, runs_ours).await?;
    }
    Ok(())
}

/// Returns the UIDs of all objects outside the project. The customer does not see these objects.
async fn uids_of_others(space: &Space<'_>) -> anyhow::Result<Vec<String>> {
    async fn uid<K>(api: Api<K>, name: &str) -> anyhow::Result<String>
    where
        K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let object = api.get(name).await.with_context(|| name.to_owned())?;
        ensure!(
            object.meta().deletion_timestamp.is_none(),
            "{name} is being deleted"
        );
        object.uid().context("no UID")
    }
    let hub = space.federation.hub().client();
    let mut uids = vec![uid(Api::<Namespace>::all(hub), &space.hub_name).await?];
    for it in &DEPLOYMENTS {
        let (name, instance) = (&it.name(), &it.instance());
        let cell = space.federation.cell(it.cell)?.client();
        uids.extend([
            uid(policies(space), &it.policy()).await?,
            uid(space.on_hub::<WorkloadDeployment>(), name).await?,
            uid(space.on_hub::<Instance>(), instance).await?,
            uid(Api::<Namespace>::all(cell), &space.hub_name).await?,
            uid(space.in_cell::<WorkloadDeployment>(it.cell), name).await?,
            uid(space.in_cell::<Instance>(it.cell), instance).await?,
        ]);
    }
    Ok(uids)
}

/// Scales one city up. Then deletes the Workload and checks that no object is left.
async fn update_and_delete(space: &Space<'_>) -> anyhow::Result<()> {
    let wanted = workload(WEB, &[("us", &["DFW"], 2), ("west", &["ORD"], 1)]);
    let scaled = json!({"spec": {"placements": wanted["spec"]["placements"]}});
    patch::<Workload>(&space.in_project(), WEB, scaled).await?;
    space.until_settled(WEB, 3).await?;
    let all = ["web-us-dfw-0", "web-us-dfw-1", "web-west-ord-0"];
    space.until_instances(space.in_project(), &all).await?;
    space.until_instances(space.on_hub(), &all).await?;

    baseline::give_claims_back(space, &DEPLOYMENTS).await?;
    space.delete_workload(WEB).await?;
    space.until_empty().await?;
    space.until_instances(space.in_project(), &[]).await?;
    for it in &DEPLOYMENTS {
        wait::gone(&policies(space), &it.policy(), WITHIN).await?;
    }
    Ok(())
}
