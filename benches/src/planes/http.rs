//! Requests, as clients of Kubernetes make them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::{Value, json};

use super::Planes;
use super::discovery;
use super::kinds::KindId;
use super::plane::{Key, Plane, Stored};
use super::refusal::Refusal;
use super::watch::{Query, watch};
use super::write::{Change, Part};

/// Of a watch that says nothing of it.
const WATCH: Duration = Duration::from_mins(30);

/// What a path leads to.
enum Target {
    Collection(KindId, Option<String>),
    Object(KindId, Key, Part),
}

/// Answers a request to any of the planes.
pub(super) async fn answer(
    State(planes): State<Arc<Planes>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some((plane, path)) = planes.route(uri.path()) else {
        return refuse(&Refusal::no_path());
    };
    if let (&Method::GET, Some(found)) = (&method, discovery::answer(path)) {
        return json_response(StatusCode::OK, found.to_string());
    }
    let Some(target) = target(path) else {
        return refuse(&Refusal::no_path());
    };
    let request = Request {
        planes: &planes,
        plane: &plane,
        headers: &headers,
        parameters: parameters(&uri),
        body,
    };
    request
        .answer(&method, target)
        .unwrap_or_else(|refusal| refuse(&refusal))
}

struct Request<'a> {
    planes: &'a Planes,
    plane: &'a Arc<Plane>,
    headers: &'a HeaderMap,
    parameters: Vec<(String, String)>,
    body: Bytes,
}

impl Request<'_> {
    fn answer(&self, method: &Method, target: Target) -> Result<Response, Refusal> {
        match (target, method) {
            (Target::Collection(kind, namespace), &Method::GET) => self.look(kind, namespace),
            (Target::Collection(kind, namespace), &Method::POST) => {
                let namespace = namespace.unwrap_or_default();
                Ok(self.written(kind, self.plane.create(kind, &namespace, self.json()?)?))
            }
            (Target::Object(kind, key, _), &Method::GET) => {
                let stored = self.plane.get(kind, &key);
                let stored = stored.ok_or_else(|| Refusal::not_found(kind.kind(), &key.1))?;
                let query = self.query(kind, None);
                Ok(json_response(StatusCode::OK, query.show(&stored)))
            }
            (Target::Object(kind, key, part), &Method::PUT | &Method::PATCH) => {
                let change = self.change(method)?;
                Ok(self.written(kind, self.plane.change(kind, &key, part, change)?))
            }
            (Target::Object(kind, key, Part::Main), &Method::DELETE) => self.delete(kind, &key),
            _ => {
                let code = StatusCode::METHOD_NOT_ALLOWED;
                Err(Refusal::new(code, "MethodNotAllowed", "not here"))
            }
        }
    }

    fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad(error.to_string()))
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(parameter, _)| parameter == name);
        found.map(|(_, value)| value.as_str())
    }

    fn change(&self, method: &Method) -> Result<Change, Refusal> {
        if method == Method::PUT {
            return Ok(Change::Put(self.json()?));
        }
        let manager = || {
            self.parameter("fieldManager")
                .unwrap_or_default()
                .to_owned()
        };
        let content_type = self.headers.get(header::CONTENT_TYPE);
        match content_type.map_or(&b""[..], |value| value.as_bytes()) {
            b"application/merge-patch+json" => Ok(Change::Merge(self.json()?)),
            b"application/apply-patch+yaml" => Ok(Change::Apply {
                body: self.json()?,
                manager: manager(),
            }),
            b"application/json-patch+json" => serde_json::from_slice(&self.body)
                .map(Change::Json)
                .map_err(|error| Refusal::bad(error.to_string())),
            _ => {
                let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Err(Refusal::new(code, "UnsupportedMediaType", "no such patch"))
            }
        }
    }

    fn written(&self, kind: KindId, (code, stored): (StatusCode, Arc<Stored>)) -> Response {
        self.planes.wrote(self.plane, kind, &stored, code);
        let query = self.query(kind, None);
        json_response(code, query.show(&stored))
    }

    fn delete(&self, kind: KindId, key: &Key) -> Result<Response, Refusal> {
        let options = match self.body.is_empty() {
            true => json!({}),
            false => self.json()?,
        };
        let (is_gone, stored) = self.plane.delete(kind, key, &options)?;
        self.planes.counts.wrote();
        if !is_gone {
            return Ok(json_response(StatusCode::OK, stored.body.clone()));
        }
        let kind = kind.kind();
        let status = json!({
            "apiVersion": "v1",
            "details": {"group": kind.group, "kind": kind.plural, "name": key.1},
            "kind": "Status",
            "metadata": {},
            "status": "Success",
        });
        Ok(json_response(StatusCode::OK, status.to_string()))
    }

    fn query(&self, kind: KindId, namespace: Option<String>) -> Query {
        let accept = self.headers.get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let pairs = |parameter| {
            let selector = self.parameter(parameter).unwrap_or_default();
            let pairs = selector.split(',').filter_map(|it| it.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.trim_start_matches('=').to_owned()))
        };
        let name = pairs("fieldSelector").find(|(field, _)| field == "metadata.name");
        Query {
            kind,
            namespace,
            name: name.map(|(_, name)| name),
            labels: pairs("labelSelector").collect(),
            metadata_only: accept.is_some_and(|it| it.contains("as=PartialObjectMetadata")),
        }
    }

    /// A list or a watch.
    fn look(&self, kind: KindId, namespace: Option<String>) -> Result<Response, Refusal> {
        let is = |name| matches!(self.parameter(name), Some("true" | "1"));
        if is("sendInitialEvents") {
            // As an API server does that cannot: clients then list, and watch from there.
            return Err(Refusal::invalid("sendInitialEvents is forbidden"));
        }
        let query = self.query(kind, namespace);
        if !is("watch") {
            return self.list(&query);
        }
        self.planes.counts.watched();
        let number = |name| self.parameter(name).and_then(|value| value.parse().ok());
        let version = number("resourceVersion").unwrap_or_default();
        let time = number("timeoutSeconds").map_or(WATCH, Duration::from_secs);
        let body = watch(self.plane, query, version, time)?;
        Ok(json_response(StatusCode::OK, body))
    }

    fn list(&self, query: &Query) -> Result<Response, Refusal> {
        self.planes.counts.listed();
        let limit = self.parameter("limit").and_then(|limit| limit.parse().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        // The version of the first page, and the last key before this one: what changes meanwhile, a watch from that version
        // tells of.
        let (first, after) = match self.parameter("continue") {
            None | Some("") => (None, None),
            Some(token) => {
                let place = || {
                    let mut parts = token.splitn(3, '/');
                    let version = parts.next()?.parse::<u64>().ok()?;
                    let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
                    Some((version, key))
                };
                let (version, key) = place().ok_or_else(Refusal::expired)?;
                (Some(version), Some(key))
            }
        };
        let namespace = query.namespace.as_deref();
        let (objects, has_more, version) = self.plane.page(query.kind, namespace, after, limit);
        let version = first.unwrap_or(version);
        let next = objects.last().filter(|_| has_more);
        let next = next.map(|last| format!("{version}/{}/{}", last.key.0, last.key.1));
        let kind = query.kind.kind();
        let (list, api_version) = match query.metadata_only {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            false => (kind.name, kind.api_version()),
        };
        let head =
            json!({"resourceVersion": version.to_string(), "continue": next.unwrap_or_default()});
        let mut body = Vec::from(format!(
            r#"{{"kind":"{list}List","apiVersion":"{api_version}","metadata":{head},"items":["#
        ));
        let asked = objects.iter().filter(|object| query.asks_for(object));
        for (index, object) in asked.enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&query.show(object));
        }
        body.extend_from_slice(b"]}");
        Ok(json_response(StatusCode::OK, body))
    }
}

/// Where a path leads, within a plane.
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
        ["namespaces", name] if group.is_empty() => object("namespaces", "", name, Part::Main),
        ["namespaces", name, "status"] if group.is_empty() => {
            object("namespaces", "", name, Part::Status)
        }
        ["namespaces", namespace, plural] => {
            find(plural).map(|kind| Target::Collection(kind, Some(namespace.to_owned())))
        }
        ["namespaces", namespace, plural, name] => object(plural, namespace, name, Part::Main),
        ["namespaces", namespace, plural, name, "status"] => {
            object(plural, namespace, name, Part::Status)
        }
        [plural] => find(plural).map(|kind| Target::Collection(kind, None)),
        [plural, name] => object(plural, "", name, Part::Main),
        [plural, name, "status"] => object(plural, "", name, Part::Status),
        _ => None,
    }
}

/// The decoded parameters of the query.
fn parameters(uri: &Uri) -> Vec<(String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
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

fn refuse(refusal: &Refusal) -> Response {
    json_response(refusal.code, refusal.status().to_string())
}

pub(super) fn json_response(code: StatusCode, body: impl Into<Body>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (code, content_type, body.into()).into_response()
}
