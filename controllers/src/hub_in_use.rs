//! Whether the hub in use is the hub of this installation, as the records of the projects say
//! (docs/operate/move-hub.md).

use std::sync::{Arc, OnceLock};

use api::annotations;

use crate::hub::HubCaches;
use crate::projects::{ProjectHub, SyncedProjects};

/// Compares the hub in use with the hub that the WorkloadDeployments of the projects record.
#[derive(Clone)]
pub struct HubInUse {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    /// Set once every project was served. A project that is added later has no WorkloadDeployments yet, and must hold
    /// nothing up.
    asked: OnceLock<()>,
}

/// The result of the comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HubVerdict {
    /// The hub has no identity yet, or the projects have not been asked.
    Unknown,
    /// Nothing speaks against the hub.
    Own,
    /// It is the hub of another installation, for this reason.
    Another(String),
}

impl HubInUse {
    pub(crate) fn new(projects: Arc<SyncedProjects>, hub: Arc<HubCaches>) -> Self {
        Self {
            projects,
            hub,
            asked: OnceLock::new(),
        }
    }

    /// Returns what is known of the hub. A first installation has no records, so nothing speaks against its hub.
    pub(crate) fn verdict(&self) -> HubVerdict {
        let identity = self.hub.identity().unwrap_or_default();
        let Some(uid) = identity.uid() else {
            return HubVerdict::Unknown;
        };
        if self.asked.get().is_none() {
            if !self.projects.are_all_served() {
                return HubVerdict::Unknown;
            }
            self.asked.get_or_init(|| ());
        }
        let projects = self.projects.all();
        let records = projects.iter().filter_map(|(_, it)| it.hub(&identity));
        verdict(uid, records)
    }
}

/// Decides by what the projects record. A customer can edit a record, and a new project can get a record of a wrong hub.
/// So a few projects do not decide.
fn verdict(uid: &str, records: impl Iterator<Item = ProjectHub>) -> HubVerdict {
    let (mut own, mut others) = (0_usize, 0_usize);
    for record in records {
        match record {
            ProjectHub::InUse => own += 1,
            ProjectHub::Another => others += 1,
        }
    }
    match others == 0 || own > others {
        true => HubVerdict::Own,
        false => HubVerdict::Another(format!(
            "it may be of another installation: most projects do not record the hub in use, {uid}, in the annotation {} \
             of their WorkloadDeployments; check --federation-kubeconfig",
            annotations::HUB_UID
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_the_one_that_most_projects_record() {
        let (own, another) = (ProjectHub::InUse, ProjectHub::Another);
        let cases: [(&[ProjectHub], bool); 7] = [
            (&[], true),
            (&[own], true),
            (&[another], false),
            (&[own, another], false),
            (&[own, another, another], false),
            (&[another, own, own], true),
            (&[another, another], false),
        ];
        for (records, is_own) in cases {
            let verdict = verdict("h", records.iter().copied());
            assert_eq!(verdict == HubVerdict::Own, is_own, "{records:?}");
        }
    }
}
