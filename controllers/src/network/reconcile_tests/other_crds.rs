//! Tests of cells with other CRDs, or without some of them.

use super::*;

/// The CRD of Instances in the cell is older. What it prunes from the interfaces holds nothing back.
#[tokio::test(start_paused = true)]
async fn a_cell_that_prunes_a_part_of_the_interfaces_opens_the_gate() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    system.planes.cell.amend::<Instance>(|instance| {
        let interfaces = instance.pointer_mut("/status/networkInterfaces");
        for interface in interfaces
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            interface
                .as_object_mut()
                .unwrap()
                .remove("networkInterfaceRef");
        }
    });
    system.prepare().await;
    let (outcome, writes) = system.reconcile().await;
    assert_eq!(outcome, Outcome::Settled);
    assert_eq!(writes, [STATUS, INSTANCE, HOLDER]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
    // One more write is needed to see that it changes nothing.
    let (outcome, writes) = system.reconcile().await;
    assert_eq!(
        (outcome, writes.as_slice()),
        (Outcome::Settled, &[STATUS.to_owned()][..])
    );
    for _ in 0..3 {
        assert_eq!(system.reconcile().await, (Outcome::Settled, Vec::new()));
    }
}
