//! Faults that a test injects into an API server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::kinds::KindId;
use crate::log::Verb;
use crate::refusal::Refusal;
use crate::request::{ObjectPart, Request};

/// A fault and the requests that it affects. Without conditions, it affects all requests until
/// [`ApiServer::heal`](crate::ApiServer::heal).
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) effect: Effect,
    verbs: Vec<Verb>,
    kind: Option<KindId>,
    part: Option<ObjectPart>,
    namespace: Option<String>,
    name: Option<String>,
    /// Whether the fault affects only lists at an exact resource version.
    at_a_version: bool,
    /// The number of times that the fault may still happen. `None` means no limit.
    times: Option<usize>,
}

/// The effect of a fault.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Hang,
    Delay(Duration),
    DelayBody(Duration),
    Answer {
        code: StatusCode,
        body: String,
        retry_after: Option<Duration>,
    },
    Disconnect,
    LoseAnswer,
    CutBody,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self {
            effect,
            verbs: Vec::new(),
            kind: None,
            part: None,
            namespace: None,
            name: None,
            at_a_version: false,
            times: None,
        }
    }

    /// Never answers the requests.
    pub fn hang() -> Self {
        Self::new(Effect::Hang)
    }

    /// Answers the requests after this time.
    pub fn delay(time: Duration) -> Self {
        Self::new(Effect::Delay(time))
    }

    /// Begins the responses at once, and sends their bodies after this time. A watch then sends its first events late.
    pub fn delay_body(time: Duration) -> Self {
        Self::new(Effect::DelayBody(time))
    }

    /// Rejects the requests with a `Status`. The `Status` has this code, the usual reason for the code, and the message
    /// `not now`.
    pub fn refuse(code: u16) -> Self {
        let code = StatusCode::from_u16(code).unwrap();
        let reason = match code.as_u16() {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        let status = Refusal::new(code, reason, "not now").status();
        Self::answer(code.as_u16(), status.to_string())
    }

    /// Rejects the requests like an API server that cannot call an admission webhook.
    pub fn webhook_down() -> Self {
        let message = r#"failed calling webhook "a.example": refused"#;
        let status = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        Self::answer(500, status.status().to_string())
    }

    /// Answers reads of this object as if it were absent.
    pub fn absent<K: kube::Resource<DynamicType = ()>>(name: &str) -> Self {
        let status = Refusal::not_found(KindId::of::<K>().kind(), name).status();
        let answer = Self::answer(404, status.to_string());
        answer.of::<K>().on(&[Verb::Get]).name(name)
    }

    /// Answers the requests with this code and this body.
    pub fn answer(code: u16, body: impl Into<String>) -> Self {
        Self::new(Effect::Answer {
            code: StatusCode::from_u16(code).unwrap(),
            body: body.into(),
            retry_after: None,
        })
    }

    /// Breaks the connection before the request is processed.
    pub fn disconnect() -> Self {
        Self::new(Effect::Disconnect)
    }

    /// Processes the request, then breaks the connection before the response.
    pub fn lose_answer() -> Self {
        Self::new(Effect::LoseAnswer)
    }

    /// Processes the request, then breaks the connection in the middle of the response.
    pub fn cut_body() -> Self {
        Self::new(Effect::CutBody)
    }

    /// Adds the header `Retry-After` to the response, in whole seconds.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        if let Effect::Answer { retry_after, .. } = &mut self.effect {
            *retry_after = Some(time);
        }
        self
    }

    /// Limits the fault to requests with one of these verbs.
    #[must_use]
    pub fn on(mut self, verbs: &[Verb]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// Limits the fault to requests that change objects.
    #[must_use]
    pub fn on_writes(self) -> Self {
        use Verb::{Apply, Create, Delete, Patch, Update};
        self.on(&[Create, Update, Patch, Apply, Delete])
    }

    /// Limits the fault to objects of this kind.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>(mut self) -> Self {
        self.kind = Some(KindId::of::<K>());
        self
    }

    /// Limits the fault to one part of an object: the status, or everything else.
    #[must_use]
    pub fn part(mut self, part: ObjectPart) -> Self {
        self.part = Some(part);
        self
    }

    /// Limits the fault to requests in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Limits the fault to objects with this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the fault to lists at an exact resource version.
    #[must_use]
    pub fn at_a_version(mut self) -> Self {
        self.at_a_version = true;
        self
    }

    /// Limits the fault to this number of requests.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    fn is_for(&self, request: &Request) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && (self.kind.is_none() || self.kind == request.kind())
            && (self.part.is_none() || self.part == request.part())
            && is(&self.namespace, request.namespace())
            && is(&self.name, request.name())
            && (!self.at_a_version || request.is_at_a_version())
            && self.times != Some(0)
    }
}

/// The faults of an API server.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Returns the effects of the faults that match a request, the oldest fault first.
    pub(crate) fn effects(&self, request: &Request) -> Vec<Effect> {
        let mut faults = self.lock();
        let mut effects = Vec::new();
        for fault in faults.iter_mut().filter(|fault| fault.is_for(request)) {
            fault.times = fault.times.map(|times| times - 1);
            effects.push(fault.effect.clone());
            if !matches!(fault.effect, Effect::Delay(_)) {
                break;
            }
        }
        effects
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
