//! Tests of WorkloadDeployments that share ConfigMaps and Secrets, with all controllers. The numbers of writes do not
//! grow with the number of WorkloadDeployments that share a source.

use std::collections::BTreeMap;
use std::iter;

use api::annotations;
use apiserver::KindId;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::*;
use crate::fixtures::servers::{recorded, terminating_json};

/// WorkloadDeployments that share sources. Each source is used by as many.
struct Sharing {
    system: System,
    sources: usize,
    /// The number of WorkloadDeployments that use one source.
    users: usize,
}

/// The writes since the last look.
#[derive(Debug, Default)]
struct Writes {
    /// By companion.
    companions: BTreeMap<String, usize>,
    /// Of finalizers and annotations, by WorkloadDeployment of the project.
    deployments: BTreeMap<String, usize>,
}

impl Writes {
    fn all_companions(&self) -> usize {
        self.companions.values().sum()
    }

    fn most_of_one_companion(&self) -> usize {
        self.companions.values().copied().max().unwrap_or_default()
    }
}

fn deployment_name(number: usize) -> String {
    format!("web-{number}")
}

/// Returns the kind and the name of a source.
fn source_name(number: usize) -> (&'static str, String) {
    let kind = ["ConfigMap", "Secret"][number % 2];
    (kind, format!("source-{number}"))
}

fn source(number: usize, value: &str) -> Value {
    let (kind, name) = source_name(number);
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"namespace": "default", "name": name},
        "data": {"key": value},
    })
}

/// Returns the field `envFrom` of a container that uses these sources.
fn using(sources: impl Iterator<Item = usize>) -> Value {
    let all = sources.map(|number| match source_name(number) {
        ("Secret", name) => json!({"secretRef": {"name": name}}),
        (_, name) => json!({"configMapRef": {"name": name}}),
    });
    all.collect()
}

impl Sharing {
    /// Starts with sources and with WorkloadDeployments of which each uses some, and waits until each companion names all
    /// its users. One more source is not used.
    async fn start(deployments: usize, sources: usize, each: usize) -> Self {
        clock();
        let sharing = Self {
            system: System::start(),
            sources,
            users: deployments * each / sources,
        };
        for number in 0..=sources {
            sharing.system.project.put(source(number, "YQ=="));
        }
        for number in 0..deployments {
            let used = (0..each).map(|it| (number + it) % sources);
            let mut deployment = recorded(&deployment_name(number));
            deployment["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
                using(used);
            sharing.system.project.put(deployment);
        }
        sharing.until_named(0).await;
        sharing
    }

    /// Waits until each companion names all its users, and the one of the last source names this number.
    async fn until_named(&self, of_last: usize) {
        let named = |it: &System| {
            (0..self.sources).all(|number| referenced_by(it, number) == self.users)
                && referenced_by(it, self.sources) == of_last
        };
        self.system.until("each companion names all", named).await;
        // Events, and what the last writes have caused.
        sleep(Duration::from_mins(1)).await;
    }

    /// Returns the writes of companions, and those of the lists and finalizers, since the last call.
    fn writes(&self) -> Writes {
        let mut writes = Writes::default();
        let on_hub = take_writes(&[&self.system.hub]);
        for write in on_hub.iter().filter(|it| it.contains("/source-")) {
            let (_, companion) = write.split_once(' ').unwrap();
            *writes.companions.entry(companion.to_owned()).or_default() += 1;
        }
        let in_project = self.system.project.log();
        for request in in_project.iter().filter(|it| it.verb.is_write()) {
            let metadata = &request.body["metadata"];
            let list = &metadata["annotations"][annotations::EXPECTED_REFERENCED_DATA];
            // The federator removes its finalizer before.
            if !list.is_null() || metadata["finalizers"] == json!([]) {
                let writes = writes.deployments.entry(request.target.clone());
                *writes.or_default() += 1;
            }
        }
        self.system.project.clear_log();
        writes
    }
}

/// Returns how many WorkloadDeployments a companion names. An absent one names none.
fn referenced_by(system: &System, number: usize) -> usize {
    let (kind, name) = source_name(number);
    let metadata = match kind {
        "Secret" => system
            .hub
            .get::<Secret>(HUB_NAMESPACE, &name)
            .map(|it| it.metadata),
        _ => system
            .hub
            .get::<ConfigMap>(HUB_NAMESPACE, &name)
            .map(|it| it.metadata),
    };
    let annotations = metadata.and_then(|it| it.annotations).unwrap_or_default();
    let named = annotations.get(annotations::REFERENCED_BY);
    let named = named.map(|it| serde_json::from_str::<Vec<String>>(it).unwrap());
    named.map_or(0, |it| it.len())
}

/// Has WorkloadDeployments share sources, changes the sources and the templates, and ends all at once. One companion is
/// written far less often than once for each of them.
async fn share(deployments: usize, sources: usize, each: usize) {
    let most = deployments / 3;
    let show = |what: &str, writes: &Writes| {
        let (all, one) = (writes.all_companions(), writes.most_of_one_companion());
        eprintln!("{what}: {all} writes of companions, {one} of one");
    };
    let sharing = Sharing::start(deployments, sources, each).await;
    let created = sharing.writes();
    show("created", &created);
    assert!(created.most_of_one_companion() <= most, "{created:?}");
    // The list and the finalizer are one write.
    assert_eq!(created.deployments.len(), deployments);
    assert!(
        created.deployments.values().all(|it| *it == 1),
        "{created:?}"
    );

    for number in 0..sources {
        sharing.system.project.put(source(number, "Yg=="));
    }
    sleep(Duration::from_mins(1)).await;
    let changed = sharing.writes();
    show("changed", &changed);
    assert_eq!(
        (changed.companions.len(), changed.all_companions()),
        (sources, sources)
    );
    assert!(changed.deployments.is_empty(), "{changed:?}");

    for number in 0..deployments {
        let name = deployment_name(number);
        let project = &sharing.system.project;
        project.modify::<WorkloadDeployment>("default", &name, |it| {
            let container =
                &mut it["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
            let used = container["envFrom"].as_array_mut().unwrap();
            used.extend(using(iter::once(sources)).as_array().unwrap().clone());
        });
    }
    sharing.until_named(deployments).await;
    let listed = sharing.writes();
    show("one more is listed", &listed);
    // The other companions do not change.
    assert_eq!(listed.companions.len(), 1, "{listed:?}");
    assert!(listed.all_companions() <= most, "{listed:?}");
    assert_eq!(listed.deployments.len(), deployments);
    assert!(listed.deployments.values().all(|it| *it == 1), "{listed:?}");

    for number in 0..deployments {
        let project = &sharing.system.project;
        let deployment: WorkloadDeployment =
            project.get("default", &deployment_name(number)).unwrap();
        project.put(terminating_json(json!(deployment)));
    }
    let kind = KindId::of::<WorkloadDeployment>();
    sharing
        .system
        .until("all have ended", |it| it.project.count(kind) == 0)
        .await;
    sleep(Duration::from_mins(1)).await;
    let ended = sharing.writes();
    show("ended", &ended);
    assert!(ended.most_of_one_companion() <= most, "{ended:?}");
    assert!(ended.deployments.values().all(|it| *it == 1), "{ended:?}");
    for kind in [KindId::of::<ConfigMap>(), KindId::of::<Secret>()] {
        assert_eq!(sharing.system.hub.keys(kind), []);
    }
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_companion_do_not_grow_with_its_users() {
    share(60, 6, 6).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes: cargo xtask test soak"]
async fn a_thousand_deployments_share_a_hundred_sources() {
    share(1_000, 100, 10).await;
}
