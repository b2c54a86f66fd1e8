//! The log of client requests.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Uri;

/// The verb of a request. Server-side apply is a separate verb here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Discovery of groups and kinds, or a request for a path that is not served.
    Discover,
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// A watch of a collection.
    Watch,
    /// A write with `dryRun=All`, which stores nothing.
    DryRun,
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
    /// Returns whether the verb changes objects.
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
            Self::DryRun => "dry-run",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
        })
    }
}

/// One logged request of a client of [`ApiServer::client`](crate::ApiServer::client).
#[derive(Clone, Debug)]
pub struct Logged {
    /// The verb.
    pub verb: Verb,
    /// Resource and object in short form: `workloads default/web`. For a subresource, `/status` follows the resource.
    pub target: String,
    /// The whole URI.
    pub uri: Uri,
    /// The value of the header `Accept`.
    pub accept: String,
    /// The body. Null if the request has none.
    pub body: serde_json::Value,
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)
    }
}

/// The number of received requests, by verb.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicUsize; 10]);

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
