//! Parses HTTP requests of Kubernetes clients.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header};
use serde_json::Value;

use crate::kinds::KindId;
use crate::log::{Logged, Verb};
use crate::refusal::Refusal;
use crate::selector::{Query, Requirement};
use crate::state::Key;
use crate::write::ObjectChange;

/// A part of an object that has its own write requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything except the status.
    Main,
    /// The status.
    Status,
}

/// The object or the collection of a path.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    KindStore(KindId, Option<String>),
    Object(KindId, Key, ObjectPart),
}

/// A request to one API server.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) method: Method,
    /// The path without the prefix that leads to this API server.
    pub(crate) path: String,
    pub(crate) target: Option<Target>,
    uri: Uri,
    headers: HeaderMap,
    parameters: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Request {
    /// Parses a request. `prefix` is the part of the path that leads to this API server.
    pub(crate) fn new(request: http::Request<Bytes>, prefix: &str) -> Self {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let path = path.strip_prefix(prefix).unwrap_or(path).to_owned();
        let target = target(&path);
        let mut request = Self {
            verb: Verb::Discover,
            target,
            path,
            parameters: parameters(&parts.uri),
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
        };
        request.verb = request.find_verb();
        request
    }

    fn find_verb(&self) -> Verb {
        match (&self.target, &self.method) {
            (Some(Target::KindStore(..)), &Method::GET) => match self.is_set("watch") {
                true => Verb::Watch,
                false => Verb::List,
            },
            (Some(Target::Object(..)), &Method::GET) => Verb::Get,
            (Some(_), _) if self.is_dry_run() => Verb::DryRun,
            (Some(_), &Method::POST) => Verb::Create,
            (Some(_), &Method::PUT) => Verb::Update,
            (Some(_), &Method::PATCH) => match self.content_type() {
                APPLY => Verb::Apply,
                _ => Verb::Patch,
            },
            (Some(_), &Method::DELETE) => Verb::Delete,
            _ => Verb::Discover,
        }
    }

    pub(crate) fn kind(&self) -> Option<KindId> {
        match self.target.as_ref()? {
            Target::KindStore(kind, _) | Target::Object(kind, ..) => Some(*kind),
        }
    }

    pub(crate) fn part(&self) -> Option<ObjectPart> {
        match self.target.as_ref()? {
            Target::KindStore(..) => None,
            Target::Object(.., part) => Some(*part),
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self.target.as_ref()? {
            Target::KindStore(_, namespace) => namespace.as_deref(),
            Target::Object(_, (namespace, _), _) => Some(namespace),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self.target.as_ref()? {
            Target::KindStore(..) => None,
            Target::Object(_, (_, name), _) => Some(name),
        }
    }

    /// Returns the request in the form of the log.
    pub(crate) fn logged(&self) -> Logged {
        let body = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        let plural = self.kind().map(|kind| kind.kind().plural);
        let status = match self.part() {
            Some(ObjectPart::Status) => "/status",
            _ => "",
        };
        let name = self
            .name()
            .or_else(|| body.pointer("/metadata/name").and_then(Value::as_str));
        let key = match (self.namespace().filter(|it| !it.is_empty()), name) {
            (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
            (Some(namespace), None) => format!(" {namespace}/"),
            (None, Some(name)) => format!(" {name}"),
            (None, None) => String::new(),
        };
        Logged {
            verb: self.verb,
            target: match plural {
                Some(plural) => format!("{plural}{status}{key}"),
                None => self.path.clone(),
            },
            uri: self.uri.clone(),
            accept: self.header(header::ACCEPT).to_owned(),
            body,
        }
    }

    fn header(&self, name: header::HeaderName) -> &str {
        let value = self.headers.get(name);
        let value = value.and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    fn content_type(&self) -> &str {
        self.header(header::CONTENT_TYPE)
    }

    pub(crate) fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad(error.to_string()))
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(parameter, _)| parameter == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.parameter(name), Some("true" | "1"))
    }

    /// Returns whether the request is a write that must store nothing.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun") == Some("All")
    }

    /// Returns whether a list requests the state at an exact resource version.
    pub(crate) fn is_at_a_version(&self) -> bool {
        self.parameter("resourceVersionMatch") == Some("Exact")
    }

    /// Returns the refusal of an unknown path. The core group always exists. In this group, the error is therefore that
    /// the resource does not exist.
    pub(crate) fn no_path(&self) -> Refusal {
        match self.path.starts_with("/api/v1/") {
            true => Refusal::not_served(KindId::named("Namespace").kind()),
            false => Refusal::no_path(),
        }
    }

    /// Returns the exact version of a list; `None` for a list of the current objects.
    pub(crate) fn exact_version(&self) -> Result<Option<u64>, Refusal> {
        if !self.is_at_a_version() {
            return Ok(None);
        }
        let version = self.parameter("resourceVersion").unwrap_or_default();
        match version.parse() {
            Ok(version) => Ok(Some(version)),
            Err(_) => Err(Refusal::bad(format!(
                "invalid resource version {version:?}"
            ))),
        }
    }

    /// Returns the duration of a watch.
    pub(crate) fn timeout(&self) -> Duration {
        let seconds = self.parameter("timeoutSeconds");
        let seconds = seconds.and_then(|value| value.parse().ok());
        seconds.map_or(WATCH, Duration::from_secs)
    }

    /// Returns the change that a PUT or a PATCH requests.
    pub(crate) fn change(&self) -> Result<ObjectChange, Refusal> {
        if self.method == Method::PUT {
            return Ok(ObjectChange::Put(self.json()?));
        }
        match self.content_type() {
            "application/merge-patch+json" => Ok(ObjectChange::Merge(self.json()?)),
            APPLY => {
                let manager = self.parameter("fieldManager");
                let manager = manager.ok_or_else(Refusal::no_manager)?;
                Ok(ObjectChange::Apply {
                    body: self.json()?,
                    manager: manager.to_owned(),
                    force: self.is_set("force"),
                })
            }
            "application/json-patch+json" => serde_json::from_slice(&self.body)
                .map(ObjectChange::Json)
                .map_err(|error| Refusal::bad(error.to_string())),
            other => Err(Refusal::unsupported_media_type(other)),
        }
    }

    /// Returns the selection of objects, and their representation.
    pub(crate) fn query(&self, kind: KindId, namespace: Option<String>) -> Result<Query, Refusal> {
        let requirements = |name| Requirement::parse(self.parameter(name).unwrap_or_default());
        let query = Query {
            kind,
            namespace,
            labels: requirements("labelSelector")?,
            fields: requirements("fieldSelector")?,
            metadata_only: self.wants_metadata(),
        };
        query.check()?;
        Ok(query)
    }

    pub(crate) fn wants_metadata(&self) -> bool {
        let accept = self.header(header::ACCEPT);
        accept.contains("as=PartialObjectMetadata")
    }
}

/// The content type of a server-side apply.
const APPLY: &str = "application/apply-patch+yaml";
/// The default duration of a watch. A kube-apiserver chooses a random time of at least this duration.
const WATCH: Duration = Duration::from_mins(30);

/// Returns the object or the collection of a path on one API server.
fn target(path: &str) -> Option<Target> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let find = |plural: &str| KindId::find(group, version, plural);
    let object = |plural: &str, namespace: &str, name: &str, part| {
        let key = (namespace.to_owned(), name.to_owned());
        find(plural).map(|kind| Target::Object(kind, key, part))
    };
    match *rest {
        ["namespaces", name] if group.is_empty() => {
            object("namespaces", "", name, ObjectPart::Main)
        }
        ["namespaces", name, "status"] if group.is_empty() => {
            object("namespaces", "", name, ObjectPart::Status)
        }
        ["namespaces", namespace, plural] => {
            find(plural).map(|kind| Target::KindStore(kind, Some(namespace.to_owned())))
        }
        ["namespaces", namespace, plural, name] => {
            object(plural, namespace, name, ObjectPart::Main)
        }
        ["namespaces", namespace, plural, name, "status"] => {
            object(plural, namespace, name, ObjectPart::Status)
        }
        [plural] => find(plural).map(|kind| Target::KindStore(kind, None)),
        [plural, name] => object(plural, "", name, ObjectPart::Main),
        [plural, name, "status"] => object(plural, "", name, ObjectPart::Status),
        _ => None,
    }
}

/// Returns the decoded parameters of the query.
fn parameters(uri: &Uri) -> Vec<(String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let pairs = pairs.filter_map(|pair| pair.split_once('=').or(Some((pair, "true"))));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn decode(text: &str) -> String {
    let mut decoded = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let escaped = |bytes: &mut std::str::Bytes<'_>| {
            let digits = [bytes.next()?, bytes.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        };
        match byte {
            b'%' => decoded.extend(escaped(&mut bytes)),
            b'+' => decoded.push(b' '),
            byte => decoded.push(byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
