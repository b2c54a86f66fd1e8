//! Decides whether the process of a lower hub is silent.

#[cfg(test)]
mod tests;

use std::time::Duration;

use api::condition::{Condition, ConditionStatus};
use api::lower_hub::REPORTING;
use api::reasons::lower_hub::{PROCESS_REPORTS, PROCESS_SILENT};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::heartbeat::GRACE;

use crate::hub::heartbeats::LastHeartbeat;

/// Message of a LowerHub that has never had a list.
const NEVER_REPORTED: &str =
    "the process of the lower hub has never reported its cells to this LowerHub";

/// Returns the wanted condition `Reporting` of a LowerHub that has a status. `former` is the current one. `is_reported`
/// says whether the LowerHub has a list. Before its first list, the cells below are not known, also if the process runs.
pub(super) fn with_status(
    heartbeat: Option<LastHeartbeat>,
    former: Option<&Condition>,
    is_reported: bool,
    now: Timestamp,
) -> Option<Condition> {
    let is_unreported = !is_reported && former.is_some_and(|it| it.message == NEVER_REPORTED);
    match heartbeat {
        _ if is_unreported => former.cloned(),
        Some(heartbeat) => reporting(heartbeat, former, now),
        None => without_heartbeat(former, is_reported, now),
    }
}

/// Returns the wanted condition of a LowerHub with a known heartbeat.
fn reporting(
    heartbeat: LastHeartbeat,
    former: Option<&Condition>,
    now: Timestamp,
) -> Option<Condition> {
    let LastHeartbeat {
        time,
        age,
        has_arrived,
    } = heartbeat;
    if age >= GRACE {
        // The clock of the other process may be wrong.
        let since = time.min(now);
        let message = format!(
            "no heartbeat of the process of the lower hub since {since:.0}: it does not run, or does not reach both hubs"
        );
        return Some(silent(former, message, since));
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

/// Returns the wanted condition of a LowerHub without any known heartbeat. If there never was one, there is no condition:
/// the process can have a former version, which sends none. If there was one, the Lease is lost.
/// `is_reported` says whether the LowerHub has a list. A former version can begin to report at any time.
fn without_heartbeat(
    former: Option<&Condition>,
    is_reported: bool,
    now: Timestamp,
) -> Option<Condition> {
    let former = former?;
    if former.message == NEVER_REPORTED && is_reported {
        return None;
    }
    let message = "the Lease of the process of the lower hub does not exist, or was never renewed";
    Some(silent(Some(former), message.to_owned(), now))
}

/// Returns the wanted condition of a LowerHub with this metadata that has never had a status.
pub(super) fn unreported(metadata: &ObjectMeta, now: Timestamp) -> Option<Condition> {
    let created = metadata.creation_timestamp.as_ref()?.0;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    (age >= GRACE).then(|| silent(None, NEVER_REPORTED.to_owned(), created))
}

/// Returns the condition of a silent process. The time of a silence does not change while it lasts, also if the clock of
/// the other process is ahead.
fn silent(former: Option<&Condition>, message: String, since: Timestamp) -> Condition {
    let is_silent = |it: &&Condition| it.is_false() && it.reason == PROCESS_SILENT;
    let former = former.filter(is_silent).cloned();
    let status = ConditionStatus::False;
    former.unwrap_or_else(|| Condition::new(REPORTING, status, PROCESS_SILENT, message, since))
}
