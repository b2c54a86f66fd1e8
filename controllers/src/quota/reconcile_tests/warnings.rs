//! Tests of what the log says about claims that stay.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use super::*;

/// The messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            lock(&self.0).push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == Level::WARN {
            event.record(&mut self.clone());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Nobody knows in which project the claim is, so an operator must delete it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_stays_is_in_the_log() {
    let warnings = Warnings::default();
    let _default = set_default(warnings.clone());
    // If this were the only subscriber, a thread of another test that is the first to reach a warning would disable it.
    let _other = Dispatch::new(warnings.clone());
    for (is_identified, expected) in [
        (true, "it is deleted when the quota system answers"),
        (false, "an operator must delete it"),
    ] {
        let system = System::start(new_instance()).await;
        system.reconcile().await;
        system.delete_instance().await;
        system.project.fail(Fault::hang());
        if !is_identified {
            system.planes.cell.modify::<crate::objects::Namespace>(
                "",
                HUB_NAMESPACE,
                |namespace| {
                    namespace["metadata"]["labels"] = json!({});
                },
            );
            settle().await;
        }
        lock(&warnings.0).clear();
        let project = is_identified.then(|| ProjectName::new("p").unwrap());
        let key = ClaimKey {
            project,
            namespace: HUB_NAMESPACE.to_owned(),
            name: NAME.to_owned(),
        };
        let later: Clock = || now() + SignedDuration::from_secs(60);
        let context = ReconcileContext::new(later, None);
        system.controller.reconcile(&context, key).await.unwrap();
        settle().await;
        assert!(system.instance().is_none());
        let warnings = lock(&warnings.0);
        assert!(
            warnings.iter().any(|it| it.ends_with(expected)),
            "{warnings:?}"
        );
    }
}
