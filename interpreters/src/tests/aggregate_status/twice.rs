//! Tests of statuses with two conditions of one type. The CRD allows such statuses.

use serde_json::json;

use super::{aggregate, aggregate_at, condition, hub, with_status};

#[test]
fn two_conditions_of_one_type_keep_their_own_generations() {
    let former = json!({"replicas": 0, "conditions": [condition("ReplicasReady", "True", 2)]});
    let carried = condition("ReplicasReady", "True", 1);
    let mut bare = carried.clone();
    bare.as_object_mut().unwrap().remove("observedGeneration");
    let item = json!({"clusterName": "a", "status": {"conditions": [bare, carried]}});
    let status = aggregate(&with_status(hub(2, 1), former), std::slice::from_ref(&item));
    let again = aggregate_at(&with_status(hub(2, 1), status), &[item], super::NOW);
    assert_eq!(again, None);
}
