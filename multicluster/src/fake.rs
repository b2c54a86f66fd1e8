//! An API server of one kind, from memory, and what it serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{StreamExt, future};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
type Chunk = Result<Frame<Bytes>, BoxError>;

/// What there was at some time.
pub(crate) type Backup = (u64, BTreeMap<String, Value>);

/// What the API server does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Serves,
    /// It never answers.
    Hangs,
    /// It refuses with this status code.
    Refuses(u16),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    served: Arc<Mutex<Served>>,
}

#[derive(Debug, Default)]
struct Served {
    mood: Mood,
    version: u64,
    objects: BTreeMap<String, Value>,
    events: Vec<(u64, Value)>,
    watches: Vec<Watch>,
    /// What was asked for, and in which form.
    requests: Vec<(String, String)>,
}

/// A watch, and the version after which it tells of events.
type Watch = (u64, UnboundedSender<Chunk>);

impl Fake {
    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let answer = fake.answer(&request);
            async {
                match answer {
                    Some(answer) => Ok::<_, BoxError>(answer),
                    None => future::pending().await,
                }
            }
        });
        Client::new(service, "default")
    }

    /// Creates an object or puts another in its place.
    pub(crate) fn put(&self, mut object: Value) {
        let mut served = self.served();
        served.version += 1;
        object["metadata"]["resourceVersion"] = json!(served.version.to_string());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let former = served.objects.insert(name, object.clone());
        let type_ = former.map_or("ADDED", |_| "MODIFIED");
        served.tell(json!({"type": type_, "object": object}));
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut served = self.served();
        served.version += 1;
        let mut object = served.objects.remove(name).unwrap();
        object["metadata"]["resourceVersion"] = json!(served.version.to_string());
        served.tell(json!({"type": "DELETED", "object": object}));
    }

    /// Goes back to what there was, and breaks all connections.
    pub(crate) fn restore(&self, backup: &Backup) {
        self.interrupt();
        let mut served = self.served();
        (served.version, served.objects) = backup.clone();
        let version = served.version;
        served.events.retain(|(of, _)| *of <= version);
    }

    pub(crate) fn backup(&self) -> Backup {
        let served = self.served();
        (served.version, served.objects.clone())
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.served().mood = mood;
    }

    /// Breaks all connections.
    pub(crate) fn interrupt(&self) {
        for (_, watch) in self.served().watches.drain(..) {
            let _ = watch.unbounded_send(Err("connection reset".into()));
        }
    }

    /// Ends all watches in order, as API servers do from time to time.
    pub(crate) fn end_watches(&self) {
        self.served().watches.clear();
    }

    /// How many requests there have been.
    pub(crate) fn requests(&self) -> usize {
        self.served().requests.len()
    }

    /// The URI and the accepted form of each request.
    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        self.served().requests.clone()
    }

    /// How many watches someone reads.
    pub(crate) fn watches(&self) -> usize {
        let mut served = self.served();
        served.watches.retain(|(_, watch)| !watch.is_closed());
        served.watches.len()
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap()
    }

    fn answer(&self, request: &Request<Body>) -> Option<Answer> {
        let mut served = self.served();
        let accept = request.headers().get(http::header::ACCEPT);
        let accept = accept.map_or("", |accept| accept.to_str().unwrap());
        let asked = (request.uri().to_string(), accept.to_owned());
        served.requests.push(asked);
        match served.mood {
            Mood::Hangs => None,
            Mood::Refuses(code) => Some(refusal(code)),
            Mood::Serves => {
                let query = request.uri().query().unwrap_or_default();
                // /apis/<group>/<version>/<resource>[/<name>]
                let path = request.uri().path();
                Some(match path.split('/').nth(5) {
                    _ if path == "/api/v1/namespaces/default" => default_namespace(),
                    Some(name) => served.get(name),
                    None if query.contains("watch=true") => served.watch(query),
                    None => served.list(),
                })
            }
        }
    }
}

impl Served {
    fn get(&self, name: &str) -> Answer {
        let absent = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": format!("{name} not found"), "details": {"name": name},
        });
        match self.objects.get(name) {
            Some(object) => whole(200, object),
            None => whole(404, &absent),
        }
    }

    fn list(&self) -> Answer {
        whole(
            200,
            &json!({
                "metadata": {"resourceVersion": self.version.to_string()},
                "items": self.objects.values().collect::<Vec<_>>(),
            }),
        )
    }

    fn watch(&mut self, query: &str) -> Answer {
        let (_, since) = query.split_once("resourceVersion=").unwrap();
        let since: u64 = since.split('&').next().unwrap().parse().unwrap();
        let (sender, chunks) = unbounded();
        for (_, event) in self.events.iter().filter(|(version, _)| *version > since) {
            sender.unbounded_send(Ok(frame(event))).unwrap();
        }
        self.watches.push((since, sender));
        let body = StreamBody::new(chunks.boxed());
        Response::new(BodyExt::boxed_unsync(body))
    }

    fn tell(&mut self, event: Value) {
        let version = self.version;
        self.watches.retain(|(since, watch)| {
            // One that begins in the future is silent till then, as with API servers.
            version <= *since || watch.unbounded_send(Ok(frame(&event))).is_ok()
        });
        self.events.push((self.version, event));
    }
}

/// What every API server has.
fn default_namespace() -> Answer {
    let metadata = json!({"name": "default", "uid": "of-default"});
    whole(
        200,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
    )
}

fn frame(event: &Value) -> Frame<Bytes> {
    Frame::data(format!("{event}\n").into())
}

fn refusal(code: u16) -> Answer {
    let reason = if code == 403 {
        "Forbidden"
    } else {
        "InternalError"
    };
    whole(
        code,
        &json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "not now",
        }),
    )
}

fn whole(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

pub(crate) fn project(name: &str, uid: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name, "uid": uid},
        "status": {"conditions": [condition("Ready", ready)]},
    })
}

pub(crate) fn binding(name: &str, city: &str, available: &str) -> Value {
    json!({
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "LocationBinding",
        "metadata": {"name": name, "uid": name},
        "spec": {"locationRef": {"name": name}, "topology": {"topology.datum.net/city-code": city}},
        "status": {"conditions": [condition("Available", available)]},
    })
}

fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "It is so.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
