use api::annotations::SUSPENDED;
use jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::fixtures::{deployment, instance, now, object, terminating};
use crate::objects::controller_reference;

fn wanted() -> WorkloadDeployment {
    let mut deployment = deployment("ns-1", "web", "DFW", 2);
    deployment.metadata.finalizers = Some(vec![finalizers::WORKLOAD_CONTROLLER.to_owned()]);
    deployment
}

/// Returns the metadata of an Instance that was deleted this many milliseconds ago.
fn ended(name: &str, milliseconds: i64) -> ObjectMeta {
    let mut instance = instance("ns-1", name);
    instance.metadata.owner_references = Some(vec![controller_reference(&wanted())]);
    let since = now() - SignedDuration::from_millis(milliseconds);
    instance.metadata.deletion_timestamp = Some(object(json!(since)));
    instance.metadata
}

#[test]
fn an_instance_that_is_replaced_waits_for_some_seconds() {
    let at = |milliseconds| step(Some(&wanted()), &ended("web-1", milliseconds), now());
    assert_eq!(at(0), Step::Wait(PATIENCE));
    assert_eq!(at(-60_000), Step::Wait(PATIENCE));
    assert_eq!(at(9_999), Step::Wait(Duration::from_millis(1)));
    assert_eq!(at(10_000), Step::Release);
    assert_eq!(at(1_000_000), Step::Release);
}

#[test]
fn an_instance_that_nothing_replaces_is_left() {
    type Change = fn(&mut WorkloadDeployment);
    let changes: [Change; 7] = [
        |web| *web = terminating(web.clone()),
        |web| web.metadata.finalizers = None,
        |web| web.metadata.uid = Some("other".to_owned()),
        |web| web.spec.scale_settings.min_replicas = 1,
        |web| web.spec.scale_settings.min_replicas = i32::MAX,
        |web| web.spec.scale_settings.instance_management_policy = "Parallel".to_owned(),
        |web| {
            let suspended = (SUSPENDED.to_owned(), "true".to_owned());
            web.annotations_mut().extend([suspended]);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut deployment = wanted();
        change(&mut deployment);
        let step = step(Some(&deployment), &ended("web-1", 60_000), now());
        assert_eq!(step, Step::Leave, "{number}");
    }
    for name in ["web-2", "other-0", "web"] {
        let step = step(Some(&wanted()), &ended(name, 60_000), now());
        assert_eq!(step, Step::Leave, "{name}");
    }
    assert_eq!(step(None, &ended("web-1", 60_000), now()), Step::Leave);
}
