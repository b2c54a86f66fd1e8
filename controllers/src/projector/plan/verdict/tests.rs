use kube::Resource;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{instance, now, object};

const CLUSTER: &str = labels::UPSTREAM_CLUSTER_NAME;
const NAMESPACE: &str = labels::UPSTREAM_NAMESPACE;
const DEPLOYMENT: &str = labels::WORKLOAD_DEPLOYMENT_NAME;

fn in_namespace(labels: &Value) -> ObjectMeta {
    object(json!({"name": "ns-1", "labels": labels}))
}

fn of_project() -> ObjectMeta {
    in_namespace(&json!({CLUSTER: "cluster-a", NAMESPACE: "default"}))
}

fn labelled(labels: &Value) -> ObjectMeta {
    let mut instance = instance("ns-1", "web-0");
    instance.meta_mut().labels = object(labels.clone());
    instance.metadata
}

fn made_ago(age: Duration) -> ObjectMeta {
    let mut instance = labelled(&json!({DEPLOYMENT: "web"}));
    let made = now() - jiff::SignedDuration::try_from(age).unwrap();
    instance.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(made));
    instance
}

#[test]
fn an_instance_must_have_the_identity_of_its_namespace() {
    let reason = |namespace: Value, instance: Value| {
        let verdict = of_hub(&in_namespace(&namespace), &labelled(&instance));
        verdict.map(|verdict| verdict.reason)
    };
    let identity = || json!({CLUSTER: "cluster-a", NAMESPACE: "default"});
    let whole = || json!({CLUSTER: "cluster-a", NAMESPACE: "default", DEPLOYMENT: "web"});
    for (namespace, instance, expected) in [
        (identity(), whole(), None),
        (identity(), json!({DEPLOYMENT: "web"}), None),
        // The identity is the same, in the form of the Go manager.
        (
            identity(),
            json!({CLUSTER: "cluster-_a", DEPLOYMENT: "web"}),
            None,
        ),
        (
            json!({CLUSTER: "cluster-org_a", NAMESPACE: "default"}),
            whole(),
            None,
        ),
        (
            json!({}),
            whole(),
            Some(QuarantineReason::NamespaceUnidentified),
        ),
        (
            json!({CLUSTER: "cluster-", NAMESPACE: "default"}),
            whole(),
            Some(QuarantineReason::NamespaceUnidentified),
        ),
        (
            json!({CLUSTER: "cluster-a"}),
            whole(),
            Some(QuarantineReason::NamespaceUnidentified),
        ),
        (
            json!({CLUSTER: "cluster-b", NAMESPACE: "default"}),
            whole(),
            Some(QuarantineReason::IdentityContradicted),
        ),
        (
            json!({CLUSTER: "cluster-a", NAMESPACE: "other"}),
            whole(),
            Some(QuarantineReason::IdentityContradicted),
        ),
        (
            identity(),
            identity(),
            Some(QuarantineReason::DeploymentNameMissing),
        ),
        (
            identity(),
            json!({DEPLOYMENT: ""}),
            Some(QuarantineReason::DeploymentNameMissing),
        ),
    ] {
        let case = format!("{namespace} {instance}");
        assert_eq!(reason(namespace, instance), expected, "{case}");
    }
}

#[test]
fn a_verdict_with_other_labels_is_a_new_one() {
    let verdict = |cluster: &str| {
        let instance = labelled(&json!({CLUSTER: cluster, DEPLOYMENT: "web"}));
        of_hub(&of_project(), &instance).unwrap()
    };
    let said = verdict("cluster-b");
    let mut instance = labelled(&json!({}));
    assert!(!said.is_said_by(&instance) && !is_marked(&instance));
    instance.annotations = Some(said.annotations(now()));
    assert!(said.is_said_by(&instance) && is_marked(&instance));
    assert!(verdict("cluster-b").is_said_by(&instance));
    assert!(!verdict("cluster-c").is_said_by(&instance));
    let other = Verdict {
        reason: QuarantineReason::DeploymentMissing,
        ..said.clone()
    };
    assert!(!other.is_said_by(&instance));
    assert!(said.message.contains("cluster-b") && said.message.contains("ns-1"));
    let keys: Vec<_> = said.annotations(now()).into_keys().collect();
    let mut expected = ANNOTATIONS.map(str::to_owned);
    expected.sort();
    assert_eq!(keys, expected);
}

#[test]
fn a_missing_deployment_has_a_grace_period_after_creation_and_first_miss() {
    let minutes = Duration::from_mins;
    let rest = |age: ObjectMeta, missed: Duration| {
        let since = now() - jiff::SignedDuration::try_from(missed).unwrap();
        without_deployment(&of_project(), &age, since, now())
            .map(|verdict| verdict.reason)
            .map_err(|rest| rest.as_secs() / 60)
    };
    let quarantined = Ok(QuarantineReason::DeploymentMissing);
    assert_eq!(rest(made_ago(minutes(15)), minutes(15)), quarantined);
    assert_eq!(rest(made_ago(minutes(60)), minutes(20)), quarantined);
    assert_eq!(rest(made_ago(minutes(14)), minutes(20)), Err(1));
    // The WorkloadDeployment was just deleted. Garbage collection on the hub will delete the Instance soon.
    assert_eq!(rest(made_ago(minutes(600)), minutes(0)), Err(15));
    // The Instance was created in the future, or at an unknown time.
    assert_eq!(
        rest(labelled(&json!({DEPLOYMENT: "web"})), minutes(60)),
        Err(15)
    );
    let mut ahead = made_ago(minutes(0));
    ahead.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        now() + jiff::SignedDuration::from_mins(5),
    ));
    assert_eq!(rest(ahead, minutes(60)), Err(15));
}

#[test]
fn a_verdict_survives_a_restart() {
    let mut instance = made_ago(Duration::from_mins(15));
    let long_ago = instance.creation_timestamp.as_ref().unwrap().0;
    let verdict = without_deployment(&of_project(), &instance, long_ago, now()).unwrap();
    instance.annotations = Some(verdict.annotations(now()));
    assert_eq!(
        without_deployment(&of_project(), &instance, now(), now()),
        Ok(verdict)
    );
    // The Instance belongs to another WorkloadDeployment now, so the verdict differs.
    instance.labels = Some(StringMap::from([(DEPLOYMENT.to_owned(), "api".to_owned())]));
    assert_eq!(
        without_deployment(&of_project(), &instance, now(), now()),
        Err(GRACE)
    );
}
