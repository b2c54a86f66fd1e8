//! Decides which authorities the bundles must have, and computes which of them callers already trust.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

/// Certificates of authorities, in DER.
pub type Authorities = BTreeSet<Vec<u8>>;

/// How long a change of the bundle takes to reach every caller.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// Time from the write of a bundle until callers trust the new authorities in the bundle.
    pub trust: Duration,
    /// Time for which an authority stays in the bundle after this process stopped needing it. In this time, other
    /// replicas may still serve a certificate of the authority.
    pub retirement: Duration,
}

/// The observations of the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    /// The authorities of the certificate in the files. It is served as soon as callers trust these authorities.
    pub(super) mounted: &'a Authorities,
    /// The authorities of the served certificate.
    pub(super) served: &'a Authorities,
    /// The bundle of each webhook in the configuration; `None` for a bundle that cannot be read.
    pub(super) bundles: &'a [Option<Authorities>],
    /// When the bundles were last written. Needed only for the first check of this process.
    pub(super) written: Option<Timestamp>,
    pub(super) delays: Delays,
    pub(super) now: Timestamp,
}

/// The state that the controller keeps between two checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BundleHistory {
    /// When each authority was first seen in all bundles.
    pub(super) published: BTreeMap<Vec<u8>, Timestamp>,
    /// When this process stopped needing each authority of a bundle.
    pub(super) unneeded: BTreeMap<Vec<u8>, Timestamp>,
}

/// The result of planning.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// The bundle that each webhook must have, if a webhook has another one.
    pub(super) write: Option<Authorities>,
    /// The authorities that callers trust.
    pub(super) trusted: Authorities,
    pub(super) history: BundleHistory,
}

/// Returns the bundle to write and the trusted authorities. An authority is needed while it is mounted or served. It is
/// kept for `Delays::retirement` after that. An authority is trusted once it has been in all bundles for
/// `Delays::trust`.
pub(super) fn plan(observed: &Observed<'_>, history: &BundleHistory) -> Plan {
    let Observed {
        mounted,
        served,
        bundles,
        written,
        delays,
        now,
    } = *observed;
    let needed: Authorities = mounted.union(served).cloned().collect();
    let in_any: Authorities = bundles.iter().flatten().flatten().cloned().collect();
    let in_all = |authority: &Vec<u8>| {
        bundles.iter().all(|bundle| {
            bundle
                .as_ref()
                .is_some_and(|bundle| bundle.contains(authority))
        })
    };
    let since = |former: &BTreeMap<Vec<u8>, Timestamp>, authority: &Vec<u8>, new: Timestamp| {
        former.get(authority).copied().unwrap_or(new)
    };
    let published_before = written.unwrap_or(now).min(now);
    let published: BTreeMap<_, _> = in_any
        .iter()
        .filter(|authority| in_all(authority))
        .map(|authority| {
            let since = since(&history.published, authority, published_before);
            (authority.clone(), since)
        })
        .collect();
    let unneeded: BTreeMap<_, _> = in_any
        .difference(&needed)
        .map(|authority| (authority.clone(), since(&history.unneeded, authority, now)))
        .collect();
    let retiring = unneeded
        .iter()
        .filter(|(_, since)| !has_passed(**since, delays.retirement, now))
        .map(|(authority, _)| authority);
    let wanted: Authorities = needed.iter().chain(retiring).cloned().collect();
    // An empty bundle is never written. With it, callers would trust the roots of their operating system.
    let differs = |bundle: &Option<Authorities>| bundle.as_ref() != Some(&wanted);
    let write = !needed.is_empty() && bundles.iter().any(differs);
    let trusted = published
        .iter()
        .filter(|(_, since)| has_passed(**since, delays.trust, now))
        .map(|(authority, _)| authority.clone())
        .collect();
    Plan {
        write: write.then_some(wanted),
        trusted,
        history: BundleHistory {
            published,
            unneeded,
        },
    }
}

fn has_passed(since: Timestamp, time: Duration, now: Timestamp) -> bool {
    now.duration_since(since).unsigned_abs() >= time && now >= since
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: Delays = Delays {
        trust: Duration::from_secs(5),
        retirement: Duration::from_mins(1),
    };

    fn authorities(names: &[&str]) -> Authorities {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    /// A directory, a server and a configuration, checked every second.
    struct BundleModel {
        mounted: Authorities,
        served: Authorities,
        bundles: Vec<Option<Authorities>>,
        history: BundleHistory,
        written: Option<Timestamp>,
        now: Timestamp,
        writes: usize,
    }

    impl BundleModel {
        fn look(&mut self) -> Plan {
            let observed = Observed {
                mounted: &self.mounted,
                served: &self.served,
                bundles: &self.bundles,
                written: self.written.take(),
                delays: DELAYS,
                now: self.now,
            };
            let plan = plan(&observed, &self.history);
            self.history = plan.history.clone();
            if let Some(bundle) = &plan.write {
                self.bundles.fill(Some(bundle.clone()));
                self.writes += 1;
            }
            if self.mounted.is_subset(&plan.trusted) {
                self.served.clone_from(&self.mounted);
            }
            self.now += Duration::from_secs(1);
            plan
        }
    }

    #[test]
    fn a_new_authority_is_published_before_its_leaf_is_served_and_the_old_one_retires_last() {
        let mut world = BundleModel {
            mounted: authorities(&["new"]),
            served: authorities(&["old"]),
            bundles: vec![Some(authorities(&["old"])), None],
            history: BundleHistory::default(),
            written: None,
            now: Timestamp::UNIX_EPOCH,
            writes: 0,
        };
        assert_eq!(world.look().write, Some(authorities(&["new", "old"])));
        let mut looks = 0;
        while world.served != world.mounted {
            world.look();
            assert_eq!(world.bundles[1], Some(authorities(&["new", "old"])));
            looks += 1;
        }
        assert_eq!(looks, 6, "seen once more, then five seconds");
        while world.writes == 1 {
            world.look();
            looks += 1;
        }
        assert_eq!(world.bundles[0], Some(authorities(&["new"])));
        assert!((66..70).contains(&looks), "{looks}");
        for _ in 0..100 {
            assert_eq!(world.look().write, None);
        }
    }

    /// The API server refuses the write that removes the authority.
    #[test]
    fn an_authority_retires_once() {
        let bundles = [Some(authorities(&["new", "old"]))];
        let needed = authorities(&["new"]);
        let mut history = BundleHistory::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut look = || {
            let observed = Observed {
                mounted: &needed,
                served: &needed,
                bundles: &bundles,
                written: None,
                delays: DELAYS,
                now,
            };
            let plan = plan(&observed, &history);
            history = plan.history;
            now += DELAYS.retirement;
            plan.write
        };
        assert_eq!(look(), None);
        for _ in 0..3 {
            assert_eq!(look(), Some(needed.clone()));
        }
    }

    #[test]
    fn an_edited_bundle_is_repaired_and_nothing_is_written_without_an_authority() {
        let mut world = BundleModel {
            mounted: authorities(&["a"]),
            served: authorities(&["a"]),
            bundles: vec![Some(authorities(&[]))],
            history: BundleHistory::default(),
            written: None,
            now: Timestamp::UNIX_EPOCH,
            writes: 0,
        };
        assert_eq!(world.look().write, Some(authorities(&["a"])));
        assert_eq!(world.look().write, None);
        world.bundles = vec![None];
        assert_eq!(world.look().write, Some(authorities(&["a"])));
        (world.mounted, world.served) = (authorities(&[]), authorities(&[]));
        world.bundles = vec![None];
        assert_eq!(world.look().write, None);
    }

    #[test]
    fn a_bundle_that_is_older_than_the_process_is_trusted_at_once() {
        let start = Timestamp::UNIX_EPOCH + Duration::from_mins(1);
        let trusted = |written: Option<Timestamp>| {
            let mut world = BundleModel {
                mounted: authorities(&["a"]),
                served: authorities(&["a"]),
                bundles: vec![Some(authorities(&["a"]))],
                history: BundleHistory::default(),
                written,
                now: start,
                writes: 0,
            };
            world.look().trusted
        };
        assert_eq!(trusted(Some(start - DELAYS.trust)), authorities(&["a"]));
        assert_eq!(
            trusted(Some(start - Duration::from_secs(4))),
            authorities(&[])
        );
        assert_eq!(
            trusted(Some(start + Duration::from_mins(1))),
            authorities(&[])
        );
        assert_eq!(trusted(None), authorities(&[]));
    }
}
