use serde_json::json;

use super::*;
use crate::fixtures::{deployment, instance, now, object, terminating};
use crate::objects::controller_reference;

#[test]
fn only_an_instance_with_a_successor_is_replaced() {
    let wanted = || {
        let mut deployment = deployment("ns-1", "web", "DFW", 2);
        deployment.metadata.finalizers = Some(vec![finalizers::WORKLOAD_CONTROLLER.to_owned()]);
        deployment
    };
    let ended = |name: &str, seconds: i64| {
        let mut instance = terminating(instance("ns-1", name));
        instance.metadata.owner_references = Some(vec![controller_reference(&wanted())]);
        let since = now() - SignedDuration::from_secs(seconds);
        instance.metadata.deletion_timestamp = Some(object(json!(since)));
        instance.metadata
    };
    let is = |deployment: &WorkloadDeployment, instance: &ObjectMeta| {
        is_replaced(deployment, instance, now())
    };
    assert!(is(&wanted(), &ended("web-1", 10)));
    assert!(!is(&wanted(), &ended("web-1", 9)), "it may answer soon");
    assert!(!is(&wanted(), &ended("web-2", 60)), "not wanted");
    assert!(!is(&wanted(), &ended("other-0", 60)), "another name");
    assert!(!is(&terminating(wanted()), &ended("web-1", 60)));
    let mut unfinalized = wanted();
    unfinalized.metadata.finalizers = None;
    assert!(!is(&unfinalized, &ended("web-1", 60)));
    let mut other = wanted();
    other.metadata.uid = Some("other".to_owned());
    assert!(!is(&other, &ended("web-1", 60)), "another controller");
}
