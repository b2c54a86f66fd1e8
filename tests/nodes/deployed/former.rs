//! The Go manager's overlays are replaced by ours, and back, with the commands of `docs/operate/upgrade.md`. A stand-in
//! for the Go manager runs in the Pods: it has no controllers.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use api::{Instance, WorkloadDeployment};
use futures::FutureExt;
use harness::former::{
    CUSTOMIZATION, Customer, FormerDeployment, FormerNamespace, HASH, QUOTA, Shown, customization,
};
use harness::installation::{FORMER_IMAGE, Installation, NETWORK, PROJECT};
use harness::wait;
use harness::{InstallationConfig, Node};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::flow::no_container_has_restarted;
use super::load::Load;
use super::objects::bindings;
use super::replicas::Replicas;
use super::{CELL, CITY, WITHIN, config};

/// The image of compute-federation.
const IMAGE: &str = "ghcr.io/datum-cloud/compute:v1.2.3";
/// Replicas in the management cluster and in the cell.
const REPLICAS: [usize; 2] = [2, 1];
const DEPLOYMENT: FormerDeployment = FormerDeployment {
    placement: "us",
    city: CITY,
    cell: CELL,
};
/// Kubeconfigs and kustomizations of the operator.
const OURS: [(&str, &str); 2] = [("management", "management"), ("cell-dfw1", "cell-dfw1")];
const FORMER: [(&str, &str); 2] = [
    ("management", "former/management"),
    ("cell-dfw1", "former/cell"),
];
const OF_OTHER_PLANES: [(&str, &str); 2] = [
    ("root", "former/webhook"),
    ("hub", "former/downstream-rbac"),
];
/// Annotation of the former registrations. With it, cert-manager's CA injector writes the `caBundle`.
const INJECTED: &str = "cert-manager.io/inject-ca-from-secret";
/// Calls that may fail: those of one second. The Pods of the former manager end at once. They do not wait until the
/// Service leads to other Pods.
const LOST: usize = 20;
/// Annotations of the Deployment controller and of client-side apply.
const WRITTEN_BY_OTHERS: [&str; 2] = [
    "deployment.kubernetes.io/revision",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Finalizers that the Go manager removes.
const FINALIZERS: [&str; 4] = [
    api::finalizers::WORKLOAD_CONTROLLER,
    api::finalizers::FEDERATOR,
    api::finalizers::INSTANCE_CONTROLLER,
    QUOTA,
];

pub(crate) async fn the_go_manager_is_replaced_and_restored() -> anyhow::Result<()> {
    let config = config()?;
    let begin = Instant::now();
    let installation = Installation::start_former(&config).await?;
    let (booted, ready) = installation.ready_after();
    eprintln!("clusters ready after {booted:.1?}, the former manager after {ready:.1?}");
    let result = tokio::select! {
        result = replace_and_restore(&installation, &config, begin).boxed() => result,
        death = installation.death() => Err(death),
    };
    let result = result.with_context(|| format!("in {}", installation.directory().display()));
    installation.stop().await;
    result
}

async fn replace_and_restore(
    installation: &Installation,
    config: &InstallationConfig,
    begin: Instant,
) -> anyhow::Result<()> {
    let after = |what: &str| eprintln!("{what} after {:.1?}", begin.elapsed());
    let clusters = [installation.management(), installation.cell(CELL)?];
    pods_run(clusters, FORMER_IMAGE).await?;
    let manifests = objects(installation, &[FORMER, OF_OTHER_PLANES].concat()).await?;
    let former = namespace(installation).await?;
    former.leave_objects().await?;
    after("objects of the customer");
    let shown = Shown::to_the_customer(&former).await?;
    let inside = former.uids_of_others().await?;
    let customer = Customer::watch(&former);
    let load = Load::of_api_server(installation).await?;
    let is_as_before = || async {
        shown.is_kept_in(&Shown::to_the_customer(&former).await?)?;
        let now = former.uids_of_others().await?;
        ensure!(now == inside, "{inside:?} became {now:?}");
        Ok(())
    };

    take_over(installation, config, &former).await?;
    pods_run(clusters, IMAGE).await?;
    wait::eventually("all is as before", WITHIN, is_as_before).await?;
    nothing_is_left_of_the_former(installation).await?;
    admission_has_answered(&load)?;
    after("takeover");

    go_back(installation, config, &former).await?;
    pods_run(clusters, FORMER_IMAGE).await?;
    wait::eventually("all is as before", WITHIN, is_as_before).await?;
    let restored = objects(installation, &[FORMER, OF_OTHER_PLANES].concat()).await?;
    are_the_same(&manifests, &restored)?;
    all_are_of(&objects(installation, &OURS).await?, &restored)?;
    admission_has_answered(&load)?;
    customer.was_never_disturbed(&former).await?;
    for cluster in clusters {
        no_container_has_restarted(cluster).await?;
    }
    after("the way back");
    Ok(())
}

async fn take_over(
    installation: &Installation,
    config: &InstallationConfig,
    former: &FormerNamespace,
) -> anyhow::Result<()> {
    installation.begin_takeover(config).await?;
    former.until_adopted().await?;
    wait::eventually("everything is adopted", WITHIN, || async {
        let left = installation.run_step("7. Wait until everything is adopted", config);
        let left = left.await?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await?;
    for step in [
        "8. Delete what is left of the Go manager",
        "9. Remove the Lua customization",
    ] {
        let output = installation.run_step(step, config).await.context(step)?;
        eprintln!("{step}:\n{output}");
    }
    the_interpreter_is_called(former).await?;
    let applied = objects(installation, &OURS).await?;
    let again = "management apply --server-side --kustomize=management
        kubectl --kubeconfig=cell-dfw1.kubeconfig apply --server-side --kustomize=cell-dfw1";
    installation.operator().run(again).await?;
    let now = objects(installation, &OURS).await?;
    are_the_same(&applied, &now).context("a second apply has changed objects")?;
    installation.check_rights().await
}

async fn go_back(
    installation: &Installation,
    config: &InstallationConfig,
    former: &FormerNamespace,
) -> anyhow::Result<()> {
    for step in [
        "Restore the Lua customization",
        "Stop the processes of the cells",
        "Restore the management process of the Go manager",
        "Restore the template hashes",
        "Start the Go manager in the cells",
        "Delete what is left of compute-federation",
    ] {
        let output = installation.run_step(step, config).await.context(step)?;
        eprintln!("{step}:\n{output}");
    }
    installation.until_former_admits().await?;
    the_former_state_is_back(installation, former).await
}

/// Checks that the management cluster and the cell have no object that only the former overlays have.
async fn nothing_is_left_of_the_former(installation: &Installation) -> anyhow::Result<()> {
    let ours = objects(installation, &OURS).await?;
    all_are_of(&objects(installation, &FORMER).await?, &ours)?;
    let mut all = ours.iter();
    let annotated = all.find(|(_, object)| object.to_string().contains(INJECTED));
    ensure!(annotated.is_none(), "{annotated:?}");
    Ok(())
}

/// Checks that the creations of Workloads went on.
fn admission_has_answered(load: &Load) -> anyhow::Result<()> {
    let failed = load.failed();
    eprintln!("{}, {} failed", load.counts(), failed.len());
    let mut all = failed.iter();
    let untrusted = all.find(|call| call.error.contains("x509"));
    ensure!(untrusted.is_none(), "{untrusted:?}");
    ensure!(failed.len() <= LOST, "{failed:?}");
    Ok(())
}

async fn namespace(installation: &Installation) -> anyhow::Result<FormerNamespace> {
    let name = api::DEFAULT_NAMESPACE;
    let cells = installation.cells().iter();
    Ok(FormerNamespace {
        project: installation.milo().project(PROJECT)?.client(),
        project_name: PROJECT.to_owned(),
        name: name.to_owned(),
        hub: installation.hub().plane().client(),
        hub_name: installation.hub_namespace(name).await?,
        cells: cells
            .map(|cell| (cell.name().to_owned(), cell.client()))
            .collect(),
        network: NETWORK.to_owned(),
        deployments: vec![DEPLOYMENT],
    })
}

/// Waits until all Pods of `compute-system` run this image and are ready, and one of them holds the Lease.
async fn pods_run(clusters: [&Node; 2], image: &str) -> anyhow::Result<()> {
    for (cluster, count) in clusters.into_iter().zip(REPLICAS) {
        let replicas = Replicas::of(&cluster.client());
        wait::eventually("all Pods run the image", WITHIN, || async {
            let pods = replicas.pods.list(&ListParams::default()).await?.items;
            let images = pods
                .iter()
                .flat_map(|pod| &pod.spec)
                .flat_map(|spec| &spec.containers);
            let images: Vec<_> = images.flat_map(|container| &container.image).collect();
            ensure!(
                images == vec![image; count],
                "{} has {images:?}",
                cluster.name()
            );
            Ok(())
        })
        .await?;
        let pods = replicas.until_ready(count).await?;
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        wait::eventually("one of the Pods holds the Lease", WITHIN, || async {
            let holder = replicas.holder().await?;
            ensure!(
                names.iter().any(|name| holder.starts_with(name)),
                "{holder}: {names:?}"
            );
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Karmada knows the number of replicas only from the interpreter. It asks again when the object changes.
async fn the_interpreter_is_called(former: &FormerNamespace) -> anyhow::Result<()> {
    let name = DEPLOYMENT.name();
    let label = json!({"metadata": {"labels": {"example.com/interpreted": "anew"}}});
    let copies = former.on_hub::<WorkloadDeployment>();
    copies
        .patch(&name, &PatchParams::default(), &Patch::Merge(label))
        .await?;
    let bindings = bindings(&former.hub, &former.hub_name);
    let counted = |binding: &DynamicObject| binding.data["spec"]["replicas"] == 1;
    let binding = format!("{name}-workloaddeployment");
    wait::until(&bindings, &binding, "interpreted", WITHIN, counted)
        .await
        .map(drop)
}

/// Returns the objects of kustomizations that exist, without what other programs write.
async fn objects(
    installation: &Installation,
    kustomizations: &[(&str, &str)],
) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for (plane, folder) in kustomizations {
        let get = format!(
            "kubectl --kubeconfig={plane}.kubeconfig get --output=json --ignore-not-found --kustomize={folder}"
        );
        let text = installation.operator().run(&get).await?;
        let mut list: Value = serde_json::from_str(&text)?;
        for object in list["items"].as_array_mut().context("no items")? {
            let name = format!("{plane} {} {}", object["kind"], object["metadata"]["name"]);
            let fields = object.as_object_mut().context("no object")?;
            fields.remove("status");
            let metadata = fields.remove("metadata").unwrap_or_default();
            let mut annotations = metadata["annotations"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            annotations.retain(|name, _| !WRITTEN_BY_OTHERS.contains(&name.as_str()));
            let kept = json!({"labels": metadata["labels"], "annotations": annotations});
            fields.insert("metadata".to_owned(), kept);
            for webhook in fields
                .get_mut("webhooks")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                webhook["clientConfig"]["caBundle"].take();
            }
            all.insert(name, object.take());
        }
    }
    Ok(all)
}

/// Checks that each existing object is also one of the expected objects: nothing is left of another installation.
fn all_are_of(
    existing: &BTreeMap<String, Value>,
    expected: &BTreeMap<String, Value>,
) -> anyhow::Result<()> {
    let left: Vec<_> = existing
        .keys()
        .filter(|name| !expected.contains_key(*name))
        .collect();
    ensure!(left.is_empty(), "left: {left:?}");
    Ok(())
}

/// Checks that objects have not changed.
fn are_the_same(
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
) -> anyhow::Result<()> {
    let differ = before
        .iter()
        .filter(|(name, object)| after.get(*name) != Some(object));
    let differ =
        differ.map(|(name, object)| format!("{name}: {object} became {:?}", after.get(name)));
    let differ: Vec<_> = differ.collect();
    ensure!(differ.is_empty(), "{}", differ.join("\n"));
    Ok(())
}

/// Checks what the Go manager finds: the hashes, the customization, and no finalizer that it does not know.
async fn the_former_state_is_back(
    installation: &Installation,
    former: &FormerNamespace,
) -> anyhow::Result<()> {
    let instances = former.in_cell::<Instance>(CELL)?;
    let instance = instances.get(&DEPLOYMENT.instance()).await?;
    let controller = instance.spec.controller.context("no controller")?;
    ensure!(controller.template_hash == HASH, "{controller:?}");

    let operator = installation.operator();
    let interpreters = "hub get resourceinterpretercustomizations,resourceinterpreterwebhookconfigurations -o json";
    let interpreters: Value = serde_json::from_str(&operator.run(interpreters).await?)?;
    let expected = customization(CUSTOMIZATION, "WorkloadDeployment")?;
    let specs: Vec<_> = interpreters["items"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    ensure!(
        specs.len() == 1 && specs[0]["spec"] == expected["spec"],
        "{specs:?}"
    );

    let kinds = "get workloads,workloaddeployments,instances -A -o json";
    for plane in ["project", "hub", "cell-dfw1"] {
        let get = format!("kubectl --kubeconfig={plane}.kubeconfig {kinds}");
        let list: Value = serde_json::from_str(&operator.run(&get).await?)?;
        for object in list["items"].as_array().context("no items")? {
            let finalizers = object["metadata"]["finalizers"].as_array();
            let unknown = finalizers.into_iter().flatten().filter_map(Value::as_str);
            let unknown: Vec<_> = unknown.filter(|it| !FINALIZERS.contains(it)).collect();
            ensure!(
                unknown.is_empty(),
                "{plane} {}: {unknown:?}",
                object["metadata"]["name"]
            );
        }
    }
    Ok(())
}
