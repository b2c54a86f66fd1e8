//! Decides whether the process of a lower hub is silent.

#[cfg(test)]
mod tests;

use api::condition::{Condition, ConditionStatus};
use api::lower_hub::REPORTING;
use api::reasons::lower_hub::{PROCESS_REPORTS, PROCESS_SILENT};
use jiff::Timestamp;
use multicluster::heartbeat::GRACE;

use crate::hub::heartbeats::LastHeartbeat;

/// Returns the wanted condition `Reporting`. `former` is the current one. Without any heartbeat, there is none: the
/// process can have a former version, which sends none.
pub(super) fn reporting(
    heartbeat: Option<LastHeartbeat>,
    former: Option<&Condition>,
    now: Timestamp,
) -> Option<Condition> {
    let LastHeartbeat {
        time,
        age,
        has_arrived,
    } = heartbeat?;
    if age >= GRACE {
        // The time of a silence does not change while it lasts, also if the clock of the other process is ahead.
        if let Some(former) = former.filter(|it| it.is_false() && it.reason == PROCESS_SILENT) {
            return Some(former.clone());
        }
        // The clock of the other process may be wrong.
        let since = time.min(now);
        let status = ConditionStatus::False;
        let message = format!(
            "no heartbeat of the process of the lower hub since {since:.0}: it does not run, or does not reach both hubs"
        );
        return Some(Condition::new(
            REPORTING,
            status,
            PROCESS_SILENT,
            message,
            since,
        ));
    }
    match former {
        // A heartbeat that this process has found, but has not seen arrive, can be old.
        former if !has_arrived => former.cloned(),
        Some(former) if former.is_true() => Some(former.clone()),
        _ => {
            let message = "the process of the lower hub reports its cells";
            let status = ConditionStatus::True;
            Some(Condition::new(
                REPORTING,
                status,
                PROCESS_REPORTS,
                message,
                now,
            ))
        }
    }
}
