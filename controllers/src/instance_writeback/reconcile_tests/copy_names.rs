//! Tests of the names of copies on a hub that does not have the copies yet.

use super::*;

/// Writes a copy of a cell with the name of the Instance.
fn put_of(planes: &CellPlanes, cell: &str) {
    let mut other = json!(instance(HUB_NAMESPACE, NAME));
    other["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: cell});
    planes.hub.put(other);
}

/// The second cell of a city moves to an empty hub before the first cell does.
#[tokio::test(start_paused = true)]
async fn a_copy_has_the_same_name_on_an_empty_hub() {
    let (planes, writeback) = start().await;
    put_of(&planes, "dfw2");
    let own = names::copy_name(NAME, "dfw1");
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let expected = [
        "patch instances ns-1/web-0".to_owned(),
        format!("create instances ns-1/{own}"),
        format!("apply instances/status ns-1/{own}"),
    ];
    assert_eq!(writes, expected);
    for name in [NAME, &own] {
        planes.hub.remove::<Instance>(HUB_NAMESPACE, name);
    }
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(writes, expected[1..]);
    assert_eq!(copies(&planes), [(own, "dfw1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_version_without_records_keeps_the_readable_name() {
    let (planes, writeback) = start().await;
    put_of(&planes, "dfw2");
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let own = names::copy_name(NAME, "dfw1");
    planes.hub.remove::<Instance>(HUB_NAMESPACE, &own);
    put_of(&planes, "dfw1");
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let readable = (NAME.to_owned(), "dfw1".to_owned());
    assert_eq!(copies(&planes), [readable]);
}

/// A customer can write the annotation into the template.
#[tokio::test(start_paused = true)]
async fn another_name_in_the_record_is_not_used() {
    let (planes, writeback) = start().await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["annotations"] = json!({annotations::COPY_NAME: "web-7"});
        });
    settle().await;
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let expected = [
        "create instances ns-1/web-0",
        "apply instances/status ns-1/web-0",
    ];
    assert_eq!(writes, expected);
}
