//! Answers requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future, stream};
use http::{Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use serde_json::json;
use tokio::time::sleep;
use tower::BoxError;

use crate::faults::Effect;
use crate::kinds::KindId;
use crate::refusal::Refusal;
use crate::request::{ObjectPart, Request, Target};
use crate::selector::Query;
use crate::server::ApiServer;
use crate::state::{Key, Stored};
use crate::{discovery, watch};

/// The body of a response. A fault can break the connection in the middle of the body.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The result for the client.
    pub response: Response<AnswerBody>,
    /// The object that the request created or changed, and its kind.
    pub written: Option<(KindId, Arc<Stored>)>,
    /// Whether the request deleted an object or marked it as terminating.
    pub deleted: bool,
}

impl Answer {
    fn of(response: Response<AnswerBody>) -> Self {
        Self {
            response,
            written: None,
            deleted: false,
        }
    }
}

/// The connection broke before a response was sent.
#[derive(Clone, Copy, Debug)]
pub struct Disconnected;

impl std::fmt::Display for Disconnected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection reset")
    }
}

impl std::error::Error for Disconnected {}

/// Returns a response with a JSON body.
pub fn json_response(code: StatusCode, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    with_body(code, body.boxed_unsync())
}

fn with_body(code: StatusCode, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl ApiServer {
    /// Applies the faults that match a request, then answers the request. The log and the counters record the request
    /// before that.
    pub(crate) async fn answer_with_faults(
        &self,
        request: Request,
    ) -> Result<Answer, Disconnected> {
        for effect in self.faults().effects(&request) {
            match effect {
                Effect::Hang => future::pending().await,
                Effect::Delay(time) => sleep(time).await,
                Effect::Disconnect => return Err(Disconnected),
                Effect::Answer {
                    code,
                    body,
                    retry_after,
                } => return Ok(Answer::of(fixed(code, body, retry_after))),
                Effect::LoseAnswer => {
                    self.answer_now(&request);
                    return Err(Disconnected);
                }
                Effect::DelayBody(time) => return Ok(delayed(self.answer_now(&request), time)),
                Effect::CutBody => return Ok(cut(self.answer_now(&request)).await),
            }
        }
        Ok(self.answer_now(&request))
    }

    fn answer_now(&self, request: &Request) -> Answer {
        let handled = Handler {
            server: self,
            request,
        };
        handled
            .answer()
            .unwrap_or_else(|refusal| Answer::of(refusal.response()))
    }
}

fn fixed(code: StatusCode, body: String, retry_after: Option<Duration>) -> Response<AnswerBody> {
    let mut response = json_response(code, body);
    if let Some(time) = retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, time.as_secs().into());
    }
    response
}

/// Sends the body after this time.
fn delayed(answer: Answer, time: Duration) -> Answer {
    let (parts, body) = answer.response.into_parts();
    let frames = sleep(time).map(|()| BodyStream::new(body));
    let body = StreamBody::new(frames.flatten_stream());
    Answer {
        response: Response::from_parts(parts, BodyExt::boxed_unsync(body)),
        ..answer
    }
}

/// Breaks the connection after the first half of the body. The connection of a watch breaks immediately.
async fn cut(answer: Answer) -> Answer {
    let (parts, body) = answer.response.into_parts();
    let is_whole = http_body::Body::size_hint(&body).exact().is_some();
    let first = match is_whole {
        true => body.collect().await.unwrap().to_bytes(),
        false => Bytes::new(),
    };
    let half = Frame::data(first.slice(..first.len() / 2));
    let frames = stream::iter([Ok(half), Err(Disconnected.into())]);
    Answer {
        response: Response::from_parts(parts, BodyExt::boxed_unsync(StreamBody::new(frames))),
        ..answer
    }
}

/// The request that is being answered.
struct Handler<'a> {
    server: &'a ApiServer,
    request: &'a Request,
}

impl Handler<'_> {
    fn answer(&self) -> Result<Answer, Refusal> {
        let Self { server, request } = self;
        if let (&Method::GET, Some(found)) =
            (&request.method, discovery::answer(server, &request.path))
        {
            return Ok(Answer::of(json_response(StatusCode::OK, found.to_string())));
        }
        let Some(target) = &request.target else {
            return Err(request.no_path());
        };
        if let Some(kind) = request.kind().filter(|kind| !server.serves(*kind)) {
            return Err(Refusal::not_served(kind.kind()));
        }
        match (target, &request.method) {
            (Target::KindStore(kind, namespace), &Method::GET) => {
                let query = request.query(*kind, namespace.clone())?;
                match request.is_set("watch") {
                    true => self.watch(query),
                    false => self.list(&query),
                }
                .map(Answer::of)
            }
            (Target::KindStore(kind, namespace), &Method::POST) => {
                let namespace = namespace.clone().unwrap_or_default();
                Ok(self.written(*kind, server.create(*kind, &namespace, request.json()?)?))
            }
            (Target::Object(kind, key, part), _)
                if *part == ObjectPart::Main || kind.kind().has_status =>
            {
                self.answer_object(*kind, key, *part)
            }
            (Target::Object(..), _) => Err(request.no_path()),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn answer_object(&self, kind: KindId, key: &Key, part: ObjectPart) -> Result<Answer, Refusal> {
        let Self { server, request } = self;
        match (&request.method, part) {
            (&Method::GET, _) => {
                let stored = server.stored(kind, key);
                let stored = stored.ok_or_else(|| Refusal::not_found(kind.kind(), &key.1))?;
                Ok(Answer::of(self.show(StatusCode::OK, kind, &stored)))
            }
            (&Method::PUT | &Method::PATCH, _) => {
                let change = request.change()?;
                let written = match request.is_dry_run() {
                    true => server.dry_run(kind, key, part, change)?,
                    false => server.change(kind, key, part, change)?,
                };
                Ok(self.written(kind, written))
            }
            (&Method::DELETE, ObjectPart::Main) => self.delete(kind, key),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn show(&self, code: StatusCode, kind: KindId, stored: &Stored) -> Response<AnswerBody> {
        let query = Query {
            kind,
            namespace: None,
            labels: Vec::new(),
            fields: Vec::new(),
            metadata_only: self.request.wants_metadata(),
        };
        json_response(code, query.show(stored))
    }

    fn written(&self, kind: KindId, (code, stored): (StatusCode, Arc<Stored>)) -> Answer {
        Answer {
            response: self.show(code, kind, &stored),
            written: Some((kind, stored)),
            deleted: false,
        }
    }

    fn delete(&self, kind: KindId, key: &Key) -> Result<Answer, Refusal> {
        let options = match self.request.body.is_empty() {
            true => json!({}),
            false => self.request.json()?,
        };
        let (is_gone, stored) = self.server.delete(kind, key, &options)?;
        let kind = kind.kind();
        let body = match is_gone {
            false => stored.body.clone(),
            true => {
                let uid = &stored.value()["metadata"]["uid"];
                let details = Refusal::details(kind, &key.1);
                let mut status = json!({
                    "apiVersion": "v1",
                    "details": details,
                    "kind": "Status",
                    "metadata": {},
                    "status": "Success",
                });
                status["details"]["uid"] = uid.clone();
                status.to_string().into()
            }
        };
        Ok(Answer {
            response: json_response(StatusCode::OK, body),
            written: None,
            deleted: true,
        })
    }

    fn watch(&self, query: Query) -> Result<Response<AnswerBody>, Refusal> {
        if self.request.is_set("sendInitialEvents") {
            // An API server without this feature rejects the request. Clients then send a list, and start the watch at
            // the version of the list.
            return Err(Refusal::invalid("sendInitialEvents is forbidden"));
        }
        let frames = watch::watch(self.server, query, self.request)?;
        let frames = frames.map(|chunk| chunk.map(Frame::data).map_err(BoxError::from));
        let body = BodyExt::boxed_unsync(StreamBody::new(frames));
        Ok(with_body(StatusCode::OK, body))
    }

    fn list(&self, query: &Query) -> Result<Response<AnswerBody>, Refusal> {
        let request = self.request;
        let limit = request.parameter("limit");
        let limit = limit.and_then(|limit| limit.parse().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        // A token contains the version of the first page, and the last key of the previous page. All pages contain the
        // objects at the version of the first page, so a watch from this version receives all later changes.
        let (first, after) = match request.parameter("continue") {
            None => {
                let exact = request.exact_version()?;
                if let Some(version) = exact {
                    self.server.state().check_version(query.kind, version)?;
                }
                (exact, None)
            }
            Some(token) => {
                let (version, key) = read_token(token).ok_or_else(|| {
                    Refusal::bad("invalid continue token: continue key is not valid")
                })?;
                self.server.check_token(query.kind, version)?;
                (Some(version), Some(key))
            }
        };
        let (objects, has_more, version) = self.server.page(query, first, after, limit);
        let version = first.unwrap_or(version);
        let next = objects.last().filter(|_| has_more);
        let next = next.map(|last| format!("{version}/{}/{}", last.key.0, last.key.1));
        let (list, api_version) = query.form();
        let head =
            json!({"resourceVersion": version.to_string(), "continue": next.unwrap_or_default()});
        let mut body = Vec::from(format!(
            r#"{{"kind":"{list}List","apiVersion":"{api_version}","metadata":{head},"items":["#
        ));
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&query.show(object));
        }
        body.extend_from_slice(b"]}");
        Ok(json_response(StatusCode::OK, body))
    }
}

fn read_token(token: &str) -> Option<(u64, Key)> {
    let mut parts = token.splitn(3, '/');
    let version = parts.next()?.parse().ok()?;
    Some((
        version,
        (parts.next()?.to_owned(), parts.next()?.to_owned()),
    ))
}
