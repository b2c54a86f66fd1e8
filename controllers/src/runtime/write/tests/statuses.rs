//! Tests of statuses of which an older CRD prunes a part.

use jiff::Timestamp;

use super::*;

fn later() -> Timestamp {
    now() + SignedDuration::from_mins(61)
}

impl Bench {
    /// Writes a status to the stored object, and returns the number of writes.
    async fn write_status(
        &self,
        context: &ReconcileContext,
        applies: bool,
        status: &Value,
    ) -> usize {
        let (collection, stored) = (self.collection(), self.stored());
        take_writes(&[&self.server]);
        let (writer, status) = (&self.writer, status.clone());
        match applies {
            true => {
                let written = writer.apply_status(context, &collection, &stored, status);
                written.await.unwrap();
            }
            false => {
                let written = writer.patch_status(context, &collection, &stored, status);
                assert_eq!(written.await.unwrap().uid(), stored.uid());
            }
        }
        take_writes(&[&self.server]).len()
    }
}

fn status(ready: i32) -> Value {
    json!({
        "replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": ready, "cells": [{"name": "dfw1"}],
    })
}

#[tokio::test(start_paused = true)]
async fn a_pruned_status_is_written_once_an_hour() {
    for applies in [true, false] {
        let bench = Bench::new();
        bench.ensure(None, &wanted()).await.unwrap();
        bench.server.amend::<WorkloadDeployment>(|object| {
            if let Some(status) = object["status"].as_object_mut() {
                status.remove("cells");
            }
        });
        let (at_once, later) = (context(), ReconcileContext::new(later, None));
        for (context, ready, writes) in [
            // The first write changes the counters, and the second changes nothing.
            (&at_once, 1, [1, 1, 0, 0]),
            (&at_once, 0, [1, 1, 0, 0]),
            (&later, 0, [1, 0, 0, 0]),
        ] {
            for expected in writes {
                let written = bench.write_status(context, applies, &status(ready)).await;
                // An apply of an undeclared field is refused, and a patch follows.
                let requests = if applies { 2 * expected } else { expected };
                assert_eq!(written, requests, "{applies} {ready}");
            }
            assert_eq!(bench.stored().status.unwrap().ready_replicas, ready);
        }
    }
}
