//! Tests of the caBundle in a registration, with an in-memory API server.

use api::{DEFAULT_NAMESPACE, annotations};
use apiserver::{ApiServer, Fault, Verb, objects};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;

use super::*;
use crate::fixtures::servers::{FakePlanes, HUB_UID, hub_key, recorded, settle};
use crate::fixtures::{now, of_hub};

const KIND: &str = "MutatingWebhookConfiguration";

struct Bench {
    server: ApiServer,
    tasks: Tasks,
    may_write: CancellationToken,
    names: watch::Receiver<BTreeSet<String>>,
    mounted: watch::Sender<Mounted>,
    rules: watch::Sender<Option<Value>>,
    trusted: watch::Receiver<Authorities>,
}

fn authority() -> Authorities {
    Authorities::from([b"authority".to_vec()])
}

/// A registration whose bundle is still empty.
fn registration() -> Value {
    let service = json!({"name": "webhook", "namespace": "compute"});
    let webhook = json!({"name": WEBHOOK_OF_CUSTOMIZATIONS, "clientConfig": {"service": service}});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": Registration::MUTATING.name},
        "webhooks": [webhook, webhook],
    })
}

/// Starts the controller with a registration whose bundle is still empty.
fn start(prepare: impl FnOnce(&ApiServer)) -> Bench {
    start_on(None, prepare)
}

/// Starts like [`start`], on the hub of these planes.
fn start_on(planes: Option<&FakePlanes>, prepare: impl FnOnce(&ApiServer)) -> Bench {
    let server = ApiServer::new();
    server.put(registration());
    prepare(&server);
    let (tasks, may_write) = (Tasks::default(), CancellationToken::new());
    let (mounted, certificates) = watch::channel(Mounted {
        mounted: authority(),
        served: authority(),
    });
    let (names, told_names) = watch::channel(BTreeSet::new());
    let (rules, wanted_rules) = watch::channel(None);
    let (trusted, told_trusted) = watch::channel(Authorities::new());
    let config = Config {
        registrations: vec![Maintained {
            rules: Some(wanted_rules),
            hub: planes.map(|planes| planes.hub_in_use.clone().into()),
            ..Maintained::ca_bundle(Registration::MUTATING, server.client())
        }],
        are_all: true,
        certificates,
        trusted,
        names,
        delays: Delays {
            trust: Duration::ZERO,
            retirement: Duration::ZERO,
        },
        metrics: Metrics::default(),
        may_write: may_write.clone(),
        clock: now,
    };
    super::start(&tasks, config);
    Bench {
        server,
        tasks,
        may_write,
        names: told_names,
        mounted,
        rules,
        trusted: told_trusted,
    }
}

impl Bench {
    async fn pass(&self) {
        sleep(2 * LATER).await;
    }

    /// Returns the webhooks of the registration.
    fn webhooks(&self) -> Vec<Value> {
        let key = (String::new(), Registration::MUTATING.name.to_owned());
        let stored = self
            .server
            .stored(apiserver::KindId::named(KIND), &key)
            .unwrap();
        stored.value()["webhooks"].as_array().unwrap().clone()
    }

    /// Returns the bundle of each webhook.
    fn bundles(&self) -> Vec<String> {
        let bundle = |webhook: &Value| {
            webhook["clientConfig"]["caBundle"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        self.webhooks().iter().map(bundle).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn every_webhook_gets_the_bundle_once_the_process_may_write() {
    let bench = start(|_| {});
    bench.pass().await;
    assert_eq!(bench.server.writes(), [""; 0]);
    bench.may_write.cancel();
    bench.pass().await;
    let expected = encode(&authority());
    assert_eq!(bench.bundles(), [expected.clone(), expected]);
    assert_eq!(
        bench.server.writes(),
        ["patch mutatingwebhookconfigurations compute-mutating"]
    );
    bench.pass().await;
    assert_eq!(
        bench.server.writes().len(),
        1,
        "nothing is written when settled"
    );
    bench.tasks.stop().cancel();
}

#[tokio::test(start_paused = true)]
async fn the_rules_are_those_that_are_wanted() {
    let bench = start(|_| {});
    bench.may_write.cancel();
    bench.pass().await;
    let rules = || bench.webhooks().into_iter().map(|it| it["rules"].clone());
    assert!(rules().all(|rules| rules.is_null()), "no rules are known");
    for kind in ["Pod", "Job"] {
        let before = bench.server.writes().len();
        let wanted = json!([{"kinds": [kind]}]);
        bench.rules.send_replace(Some(wanted.clone()));
        bench.pass().await;
        assert!(rules().all(|rules| rules == wanted));
        bench.pass().await;
        assert_eq!(bench.server.writes().len(), before + 1);
    }
}

/// Karmada can refuse rules. They must not delay a bundle.
#[tokio::test(start_paused = true)]
async fn the_bundle_is_written_before_the_rules() {
    let bench = start(|_| {});
    bench.may_write.cancel();
    let rules = || bench.webhooks()[0]["rules"].clone();
    let wanted = |kind| json!([{"kinds": [kind]}]);
    bench.rules.send_replace(Some(wanted("Pod")));
    bench.pass().await;
    assert_eq!(rules(), wanted("Pod"));
    let new = Authorities::from([b"new".to_vec()]);
    let both: Authorities = authority().union(&new).cloned().collect();
    let slow = Fault::delay(Duration::from_millis(100));
    bench.server.fail(slow.on_writes());
    bench.rules.send_replace(Some(wanted("Job")));
    bench.mounted.send_replace(Mounted {
        mounted: new,
        served: authority(),
    });
    let before = bench.webhooks();
    while bench.webhooks() == before {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.bundles()[0], encode(&both));
    assert_eq!(rules(), wanted("Pod"));
    bench.pass().await;
    assert_eq!(rules(), wanted("Job"));
}

/// The leader of a former version, or without customizations, does not maintain this registration.
#[tokio::test(start_paused = true)]
async fn an_optional_registration_counts_once_it_had_our_authority() {
    let bench = start(|_| {});
    bench.pass().await;
    assert_eq!(*bench.trusted.borrow(), authority());
    bench.may_write.cancel();
    bench.pass().await;
    bench.mounted.send_replace(Mounted {
        mounted: Authorities::from([b"new".to_vec()]),
        served: authority(),
    });
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*bench.trusted.borrow(), authority(), "not yet written");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_or_hangs_is_tried_again() {
    let bench = start(|server| {
        server.fail(Fault::refuse(500).on_writes().times(2));
        server.fail(Fault::refuse(409).on_writes().times(1));
    });
    bench.may_write.cancel();
    bench.pass().await;
    assert_eq!(bench.bundles()[0], encode(&authority()));
    assert_eq!(bench.server.writes().len(), 4);
    let bench = start(|server| server.fail(Fault::hang().on(&[Verb::Get])));
    bench.may_write.cancel();
    bench.pass().await;
    assert_eq!(bench.server.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_asked_for_rarely() {
    let bench = start(|server| server.fail(Fault::refuse(403)));
    bench.may_write.cancel();
    sleep(Duration::from_mins(1)).await;
    let requests = bench.server.requests();
    assert!((10..=14).contains(&requests), "{requests}");
    assert_eq!(bench.bundles(), ["", ""]);
}

/// A proxy answers 404 while it does not reach the API server. This is no proof that the registration is gone.
#[tokio::test(start_paused = true)]
async fn a_404_of_a_proxy_changes_neither_names_nor_trust() {
    let bench = start(|_| {});
    bench.pass().await;
    let expected = BTreeSet::from(["webhook.compute.svc".to_owned()]);
    assert_eq!(*bench.names.borrow(), expected);
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(404),
    ] {
        bench.server.heal();
        bench.server.fail(fault);
        bench.mounted.send_modify(|_| {});
        bench.pass().await;
        assert_eq!(*bench.names.borrow(), expected);
    }
    bench.server.heal();
    bench
        .server
        .remove::<MutatingWebhookConfiguration>("", Registration::MUTATING.name);
    bench.pass().await;
    assert_eq!(*bench.names.borrow(), BTreeSet::new());
}

/// The kubeconfig leads to the hub of another installation, which must keep its authority and its rules.
#[tokio::test(start_paused = true)]
async fn the_registration_of_another_hub_is_left_alone() {
    let on_another = of_hub(recorded("web"), Some("another"));
    let planes = FakePlanes::start(vec![on_another], Vec::new()).await;
    let bench = start_on(Some(&planes), |_| {});
    bench.rules.send_replace(Some(json!([{"kinds": ["Pod"]}])));
    bench.may_write.cancel();
    bench.pass().await;
    assert_eq!(bench.server.writes(), [""; 0]);
    assert_eq!(*bench.names.borrow(), BTreeSet::new());
    assert_eq!(*bench.trusted.borrow(), authority(), "it has no callers");

    let mut moved = objects::namespace(DEFAULT_NAMESPACE, HUB_UID);
    moved["metadata"]["annotations"] = json!({annotations::REPLACES_HUBS: "another"});
    planes.hub.put(moved);
    bench.pass().await;
    assert_eq!(bench.bundles()[0], encode(&authority()));
    assert_eq!(bench.server.writes().len(), 2, "the bundle, then the rules");
}

#[tokio::test(start_paused = true)]
async fn the_registration_of_a_hub_waits_for_the_projects() {
    let planes = FakePlanes::start(Vec::new(), Vec::new()).await;
    let name = hub_key().project.unwrap();
    let project = planes.projects.get(&name).unwrap();
    planes.projects.unregister(&name, &project, || ());
    // The authority of one webhook shows that the registration is our own.
    let ours = json!({"caBundle": encode(&authority())});
    let has_ours = start_on(Some(&planes), |server| {
        let mut registration = registration();
        registration["webhooks"][0]["clientConfig"] = ours;
        server.put(registration);
    });
    has_ours.may_write.cancel();
    has_ours.pass().await;
    assert_eq!(has_ours.bundles()[1], encode(&authority()));

    let bench = start_on(Some(&planes), |_| {});
    bench.may_write.cancel();
    bench.pass().await;
    assert_eq!(bench.server.writes(), [""; 0]);
    planes.projects.register(name.clone(), Arc::clone(&project));
    bench.pass().await;
    assert_eq!(bench.bundles()[0], encode(&authority()));

    // A project that is added later holds nothing up.
    planes.projects.unregister(&name, &project, || ());
    settle().await;
    bench.mounted.send_replace(Mounted {
        mounted: Authorities::from([b"new".to_vec()]),
        served: authority(),
    });
    bench.pass().await;
    assert_eq!(bench.server.writes().len(), 2);
}
