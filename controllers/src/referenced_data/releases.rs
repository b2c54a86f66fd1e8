//! The WorkloadDeployments that are being taken out of companions although they still list the source. A restart
//! forgets them. The next reconciliation of each WorkloadDeployment begins its releases again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::ProjectName;
use api::references::Source;

use crate::deletion_locks::DeletionLocks;
use crate::runtime::keys::{ProjectKey, SourceKey};

/// The releases of all WorkloadDeployments.
#[derive(Debug, Default)]
pub(super) struct Releases {
    sources: HashMap<ProjectKey, BTreeMap<Source, Release>>,
    /// The names of the WorkloadDeployments that are being taken out of the companions of each source.
    names: HashMap<SourceKey, BTreeSet<String>>,
}

/// How far a release is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Release {
    Begun,
    /// No companion of the source names the WorkloadDeployment. None will name it before the release ends.
    Proved,
}

impl Releases {
    /// Releases exactly these sources of a WorkloadDeployment. `listed` are the sources that it lists at present. Returns
    /// the sources whose companions have to be written with or without it.
    ///
    /// # Errors
    ///
    /// A source that the WorkloadDeployment needs again, and whose companion is being deleted.
    pub(super) fn set(
        &mut self,
        deployment: &ProjectKey,
        listed: &[Source],
        released: &[Source],
        locks: &DeletionLocks<SourceKey>,
    ) -> Result<Vec<SourceKey>, Source> {
        let former = self.of(deployment);
        let (ended, needed): (Vec<_>, Vec<_>) = former
            .keys()
            .filter(|it| !released.contains(it))
            .partition(|it| !listed.contains(it));
        let mut changed: Vec<_> = needed
            .iter()
            .map(|source| SourceKey::new(deployment, source))
            .collect();
        // A deletion that begins from now on finds that the source is needed.
        let locks = changed.iter().zip(&needed).map(|(key, source)| {
            let lock = locks.for_a_use(key.clone());
            lock.ok_or_else(|| (*source).clone())
        });
        let _locks = locks.collect::<Result<Vec<_>, _>>()?;
        for source in ended.into_iter().chain(needed) {
            self.end(deployment, source);
        }
        let released = released.iter();
        for source in released.filter(|it| former.get(it) != Some(&Release::Proved)) {
            self.begin(deployment, source);
            changed.push(SourceKey::new(deployment, source));
        }
        Ok(changed)
    }

    /// Begins a release, unless it has begun already.
    fn begin(&mut self, deployment: &ProjectKey, source: &Source) {
        let sources = self.sources.entry(deployment.clone()).or_default();
        sources.entry(source.clone()).or_insert(Release::Begun);
        let names = self.names.entry(SourceKey::new(deployment, source));
        names.or_default().insert(deployment.name.clone());
    }

    /// Ends a release: the WorkloadDeployment does not list the source any more, or it needs the source again.
    fn end(&mut self, deployment: &ProjectKey, source: &Source) {
        if let Some(sources) = self.sources.get_mut(deployment) {
            sources.remove(source);
            if sources.is_empty() {
                self.sources.remove(deployment);
            }
        }
        let key = SourceKey::new(deployment, source);
        if let Some(names) = self.names.get_mut(&key) {
            names.remove(&deployment.name);
            if names.is_empty() {
                self.names.remove(&key);
            }
        }
    }

    /// Returns the releases of a WorkloadDeployment.
    pub(super) fn of(&self, deployment: &ProjectKey) -> BTreeMap<Source, Release> {
        self.sources.get(deployment).cloned().unwrap_or_default()
    }

    /// Returns the names of the WorkloadDeployments that are being taken out of the companions of a source.
    pub(super) fn names(&self, source: &SourceKey) -> BTreeSet<String> {
        self.names.get(source).cloned().unwrap_or_default()
    }

    /// Returns those of these WorkloadDeployments whose release of the source is not proved.
    pub(super) fn unproved(&self, key: &SourceKey, names: &BTreeSet<String>) -> BTreeSet<String> {
        let is_begun = |name: &&String| {
            let deployment = ProjectKey::new(&key.project, &key.namespace, name);
            let sources = self.sources.get(&deployment);
            sources.and_then(|it| it.get(&key.source)) == Some(&Release::Begun)
        };
        names.iter().filter(is_begun).cloned().collect()
    }

    /// Notes that no companion of the source names these WorkloadDeployments. Their releases had begun before the
    /// companions were read. Returns the WorkloadDeployments of which now all releases are proved.
    pub(super) fn prove(&mut self, key: &SourceKey, names: &BTreeSet<String>) -> Vec<ProjectKey> {
        let mut proved = Vec::new();
        for name in names {
            let deployment = ProjectKey::new(&key.project, &key.namespace, name);
            let Some(sources) = self.sources.get_mut(&deployment) else {
                continue;
            };
            let Some(release @ Release::Begun) = sources.get_mut(&key.source) else {
                continue;
            };
            *release = Release::Proved;
            if sources.values().all(|it| *it == Release::Proved) {
                proved.push(deployment);
            }
        }
        proved
    }

    /// Forgets the releases of a project that is no longer served.
    pub(super) fn forget_project(&mut self, project: &ProjectName) {
        self.sources.retain(|key, _| key.project != *project);
        self.names.retain(|key, _| key.project != *project);
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use api::references::SourceKind;

    use super::*;

    #[test]
    fn a_release_is_proved_for_those_that_were_left_out_and_ends_once() {
        let project = ProjectName::new("p").unwrap();
        let [web, api] = ["web", "api"].map(|name| ProjectKey::new(&project, "default", name));
        let [a, b] = ["a", "b"].map(|name| Source::new(SourceKind::Secret, name));
        let key = |source| SourceKey::new(&web, source);
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut releases = Releases::default();
        releases.begin(&web, &a);
        releases.begin(&web, &b);
        let read: BTreeSet<String> = releases.names(&key(&a));
        releases.begin(&api, &a);
        assert_eq!(releases.prove(&key(&a), &read), []);
        // It has begun already, and stays proved.
        releases.begin(&web, &a);
        assert_eq!(releases.of(&web)[&a], Release::Proved);
        assert_eq!(releases.of(&api)[&a], Release::Begun);
        assert_eq!(
            releases.prove(&key(&b), &names(&["web", "other"])),
            slice::from_ref(&web)
        );
        assert_eq!(releases.prove(&key(&b), &names(&["web"])), []);
        releases.end(&web, &a);
        releases.end(&web, &b);
        assert_eq!(releases.names(&key(&a)), names(&["api"]));
        releases.end(&api, &a);
        assert!(releases.sources.is_empty() && releases.names.is_empty());
    }
    /// A source that is being deleted keeps the releases of the others as they are: the next attempt needs them.
    #[test]
    fn sources_are_needed_again_together_or_not_at_all() {
        let project = ProjectName::new("p").unwrap();
        let web = ProjectKey::new(&project, "default", "web");
        let both = ["a", "b"].map(|name| Source::new(SourceKind::Secret, name));
        let keys = both.each_ref().map(|source| SourceKey::new(&web, source));
        let (mut releases, locks) = (Releases::default(), DeletionLocks::default());
        assert_eq!(releases.set(&web, &both, &both, &locks), Ok(keys.to_vec()));
        let deletion = locks.for_a_deletion(keys[1].clone());
        assert_eq!(releases.set(&web, &both, &[], &locks), Err(both[1].clone()));
        assert_eq!(releases.of(&web).len(), 2);
        drop(deletion);
        assert_eq!(releases.set(&web, &both, &[], &locks), Ok(keys.to_vec()));
        assert!(releases.of(&web).is_empty());
    }
}
