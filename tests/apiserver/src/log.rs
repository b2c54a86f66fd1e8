//! The log of client requests.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Uri;

/// The verb of a request. Server-side apply is a separate verb here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// The discovery of groups and kinds, and requests for paths that are not served.
    Discover,
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// A watch of a collection.
    Watch,
    /// POST of an object.
    Create,
    /// PUT of an object.
    Update,
    /// A merge patch or a JSON patch.
    Patch,
    /// A server-side apply.
    Apply,
    /// DELETE of an object.
    Delete,
}

impl Verb {
    /// Whether the verb changes objects.
    pub fn is_write(self) -> bool {
        self >= Self::Create
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "discover",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
        })
    }
}

/// One request of a client of [`ApiServer::client`](crate::ApiServer::client).
#[derive(Clone, Debug)]
pub struct Logged {
    /// The verb.
    pub verb: Verb,
    /// Resource and object in short form: `workloads default/web`. `/status` follows the resource in requests for the
    /// subresource.
    pub target: String,
    /// The whole URI.
    pub uri: Uri,
    /// The header `Accept`.
    pub accept: String,
    /// The body, null if there is none.
    pub body: serde_json::Value,
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)
    }
}

/// How many requests there have been of each verb.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicUsize; 9]);

impl Counts {
    pub(crate) fn add(&self, verb: Verb) {
        if let Some(count) = self.0.get(verb as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, verb: Verb) -> usize {
        let count = self.0.get(verb as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }
}
