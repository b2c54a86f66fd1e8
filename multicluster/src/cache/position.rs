//! The position of a watch in the history of its API server, and the signs that the history has changed.
//!
//! An API server that was restored from an older snapshot issues the same resource versions a second time. A watch that
//! continues from a version of the former history misses changes. So a watch continues only while there is no sign that
//! the history has changed. A later change of the same object is no sign: a writer can repeat its change in the new
//! history.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;

use super::entry::{NamespacedName, ObjectVersion, is_older, key};
use super::sync_state::answer;

/// Where a watch continues.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// The last resource version that the API server sent; `None` if everything must be listed.
    version: Option<String>,
    /// The object that changed last.
    witness: Option<Witness>,
    /// Whether no change was reported since the list.
    is_from_list: bool,
    /// Whether the API server may have been restored since the last answer.
    is_doubtful: bool,
}

/// The object that changed last. If a restored API server has lost changes of the kind that the cache has seen, it has
/// lost this one. A list shows no deletions: they can be newer than all objects of the list.
#[derive(Debug)]
struct Witness {
    key: NamespacedName,
    /// Its version; `None` if it was deleted.
    version: Option<ObjectVersion>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing contradicts the former history.
    Continues,
    /// Nothing contradicts the former history if the API server had the known objects at the position.
    ContinuesIfKnown {
        /// The watch must then report a change of this object.
        reported: Option<NamespacedName>,
    },
    /// The API server has lost a change. It was restored from a snapshot.
    Restored,
}

impl Position {
    /// Returns the version from which the watch continues; `None` if everything must be listed.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns whether a check must precede the continuation.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Returns the object whose state is checked.
    pub(super) fn witness(&self) -> Option<&NamespacedName> {
        self.witness.as_ref().map(|witness| &witness.key)
    }

    /// Returns the object that changed last and its version at the position. Returns `None` if a deletion can be newer,
    /// and if there was no object.
    pub(super) fn newest(&self) -> Option<(&NamespacedName, &ObjectVersion)> {
        let witness = self
            .witness
            .as_ref()
            .filter(|_| !self.may_hide_deletion())?;
        Some((&witness.key, witness.version.as_ref()?))
    }

    /// Returns whether an object may have been deleted after the last change of the witness, and before the list.
    fn may_hide_deletion(&self) -> bool {
        let version = self.witness.as_ref().and_then(|it| it.version.as_ref());
        self.is_from_list && version.is_some_and(|it| it.resource_version != self.version)
    }

    /// Sets the position after a complete list of this version. `newest` is the listed object that changed last.
    pub(super) fn listed(&mut self, version: String, newest: Option<&ObjectMeta>) {
        *self = Self {
            version: Some(version),
            witness: newest.map(|newest| Witness {
                key: key(newest),
                version: Some(ObjectVersion::of(newest)),
            }),
            is_from_list: true,
            is_doubtful: false,
        };
    }

    /// Records that an object was created or changed. Returns whether the event continues the history.
    pub(super) fn changed(&mut self, object: &ObjectMeta) -> bool {
        let version = object.resource_version.as_deref().unwrap_or_default();
        self.witness = Some(Witness {
            key: key(object),
            version: Some(ObjectVersion::of(object)),
        });
        self.is_from_list = false;
        self.advance(version)
    }

    /// Records that an object was deleted. Returns whether the event continues the history.
    pub(super) fn deleted(&mut self, object: &ObjectMeta) -> bool {
        self.witness = Some(Witness {
            key: key(object),
            version: None,
        });
        self.is_from_list = false;
        self.advance(object.resource_version.as_deref().unwrap_or_default())
    }

    /// Records a version that the watch reported. Returns whether the version continues the history.
    pub(super) fn advance(&mut self, version: &str) -> bool {
        let is_older = is_older(version, self.version().unwrap_or_default());
        if version.is_empty() || is_older {
            return false;
        }
        self.version = Some(version.to_owned());
        true
    }

    /// Requires a list before the next watch.
    pub(super) fn lose(&mut self) {
        *self = Self::default();
    }

    /// Requires a check before the watch continues, because the connection broke.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Records that a check has found no contradiction.
    pub(super) fn trust(&mut self) {
        self.is_doubtful = false;
    }

    /// Records an error of a watch. The watch continues after a 429, a refusal of the right, a 5xx and a broken
    /// connection. Everything is listed again after a 410, and after an error that would repeat itself.
    pub(super) fn failed(&mut self, error: &watcher::Error) {
        let code = answer(error).map(|status| status.code);
        match (code, error) {
            (Some(429), _) => {}
            (Some(401 | 403 | 500..), _)
            | (
                None,
                watcher::Error::WatchStartFailed(_)
                | watcher::Error::WatchFailed(
                    kube::Error::ReadEvents(_)
                    | kube::Error::HyperError(_)
                    | kube::Error::Service(_),
                ),
            ) => self.doubt(),
            _ => self.lose(),
        }
    }

    /// Compares the current version of the API server, and the witness as it was found, with the position. Without a
    /// witness, `found` is any object of the kind.
    pub(super) fn verdict(&self, current: Option<&str>, found: Option<&ObjectMeta>) -> Verdict {
        let version = self.version().unwrap_or_default();
        if is_older(current.unwrap_or_default(), version) {
            return Verdict::Restored;
        }
        let Some(found) = found else {
            return match &self.witness {
                Some(witness) => Verdict::ContinuesIfKnown {
                    reported: witness.version.as_ref().map(|_| witness.key.clone()),
                },
                // There was no object, and there is none.
                None => Verdict::Continues,
            };
        };
        let known = self.witness.as_ref().and_then(|it| it.version.as_ref());
        if known == Some(&ObjectVersion::of(found)) {
            return match self.may_hide_deletion() {
                true => Verdict::ContinuesIfKnown { reported: None },
                false => Verdict::Continues,
            };
        }
        let found_version = found.resource_version.as_deref();
        match is_older(version, found_version.unwrap_or_default()) {
            true => Verdict::ContinuesIfKnown {
                reported: Some(key(found)),
            },
            false => Verdict::Restored,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::core::Status;

    use super::*;

    fn object(name: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn at(version: &str, newest: Option<&ObjectMeta>) -> Position {
        let mut position = Position::default();
        position.listed(version.to_owned(), newest);
        position
    }

    #[test]
    fn a_restored_api_server_contradicts_the_position() {
        let a = object("a", "5");
        let reported = Some(("ns".to_owned(), "a".to_owned()));
        let if_reported = || Verdict::ContinuesIfKnown {
            reported: reported.clone(),
        };
        let if_known = || Verdict::ContinuesIfKnown { reported: None };
        let successor = ObjectMeta {
            uid: Some("successor".to_owned()),
            ..a.clone()
        };
        // Without an event since the list, a deletion may be newer than the object.
        let listed = at("9", Some(&a));
        assert_eq!(listed.verdict(Some("20"), Some(&a)), if_known());
        assert_eq!(listed.newest(), None);
        assert_eq!(
            at("5", Some(&a)).verdict(Some("20"), Some(&a)),
            Verdict::Continues
        );
        let mut kept = at("3", None);
        assert!(kept.changed(&a) && kept.advance("9"));
        for (current, found, expected) in [
            ("9", Some(object("a", "5")), Verdict::Continues),
            ("20", Some(object("a", "5")), Verdict::Continues),
            ("20", Some(successor), Verdict::Restored),
            ("8", Some(object("a", "5")), Verdict::Restored),
            // The change to version 5 is lost.
            ("20", Some(object("a", "3")), Verdict::Restored),
            ("20", Some(object("a", "7")), Verdict::Restored),
            // These may be changes that the watch has not reported yet.
            ("20", Some(object("a", "12")), if_reported()),
            ("20", None, if_reported()),
        ] {
            assert_eq!(kept.verdict(Some(current), found.as_ref()), expected);
        }
        let mut deleted = at("9", None);
        assert!(deleted.deleted(&object("a", "10")));
        for (found, expected) in [
            // The object may be deleted in both histories.
            (None, if_known()),
            (Some(object("a", "5")), Verdict::Restored),
            (Some(object("a", "12")), if_reported()),
        ] {
            assert_eq!(deleted.verdict(Some("20"), found.as_ref()), expected);
        }
        let empty = at("9", None);
        assert_eq!(empty.verdict(Some("20"), None), Verdict::Continues);
        assert_eq!(empty.verdict(Some("20"), Some(&a)), Verdict::Restored);
        let later = object("a", "12");
        assert_eq!(empty.verdict(Some("20"), Some(&later)), if_reported());
    }

    #[test]
    fn an_older_version_in_a_watch_contradicts_the_position() {
        let mut position = at("9", None);
        assert!(position.advance("9") && position.changed(&object("a", "12")));
        assert!(!position.advance("11") && !position.changed(&object("a", "3")));
        assert!(!position.advance(""));
        assert_eq!(position.version(), Some("12"));
    }

    #[test]
    fn a_watch_continues_unless_its_version_cannot_be_used() {
        let refused = |code| {
            let status = Status::failure("", "Reason").with_code(code).boxed();
            watcher::Error::WatchStartFailed(kube::Error::Api(status))
        };
        let broken = || kube::Error::ReadEvents(io::Error::other("connection reset"));
        let unreached = || kube::Error::Service("connection refused".into());
        let undecodable = serde_json::from_str::<u8>("x").unwrap_err();
        for (error, version, is_doubtful) in [
            (refused(429), Some("9"), false),
            (refused(500), Some("9"), true),
            (refused(503), Some("9"), true),
            (refused(403), Some("9"), true),
            (watcher::Error::WatchFailed(broken()), Some("9"), true),
            (
                watcher::Error::WatchStartFailed(unreached()),
                Some("9"),
                true,
            ),
            (refused(410), None, false),
            (refused(400), None, false),
            // The kind may have been deleted with all its objects.
            (refused(404), None, false),
            (refused(409), None, false),
            (refused(422), None, false),
            (
                watcher::Error::WatchFailed(kube::Error::SerdeError(undecodable)),
                None,
                false,
            ),
        ] {
            let mut position = at("9", None);
            position.failed(&error);
            let found = (position.version(), position.is_doubtful());
            assert_eq!(found, (version, is_doubtful), "{error}");
        }
    }
}
