//! Reading a request within its bounds, and what is answered where that fails.

use std::future::ready;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

use crate::limits::{Capacity, Full, Part};
use crate::status::response;

/// Why a request gets an HTTP error instead of an answer.
pub(crate) enum Refusal {
    Overloaded,
    TooLarge(usize),
    TooSlow(Duration),
    Broken(String),
    Malformed(String),
}

/// Reads the body in the caller's time.
pub(crate) async fn read(
    capacity: &Capacity,
    request: Request,
    part: &mut Part,
) -> Result<Bytes, Refusal> {
    let (limits, time) = (capacity.limits, capacity.time_for(request.uri()));
    let announced = request.body().size_hint().lower();
    if announced > u64::try_from(limits.body).unwrap_or(u64::MAX) {
        return Err(Refusal::TooLarge(limits.body));
    }
    let mut body = Arriving::new(capacity, request.into_body());
    // Most often all of it is here already: then no timer is needed.
    tokio::select! {
        biased;
        read = body.read(part) => return read,
        () = ready(()) => {}
    }
    match timeout(limits.slow.min(time), body.read(part)).await {
        Ok(read) => return read,
        Err(_) if limits.slow >= time => return Err(Refusal::TooSlow(time)),
        Err(_) => part.leave_place(),
    }
    let rest = timeout(time.saturating_sub(limits.slow), body.read(part)).await;
    rest.unwrap_or(Err(Refusal::TooSlow(time)))
}

/// A body, and what has come of it.
struct Arriving<'s> {
    capacity: &'s Capacity,
    body: Body,
    /// The first frame, which is most often the whole body and is then not copied. Empty once there are more.
    first: Bytes,
    /// All frames, once there are several.
    all: BytesMut,
}

impl<'s> Arriving<'s> {
    fn new(capacity: &'s Capacity, body: Body) -> Self {
        Self {
            capacity,
            body,
            first: Bytes::new(),
            all: BytesMut::new(),
        }
    }

    /// Reads to the end; goes on where a former call was given up.
    async fn read(&mut self, part: &mut Part) -> Result<Bytes, Refusal> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Refusal::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.add(data, part)?;
        }
        Ok(match self.all.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.all).freeze(),
        })
    }

    fn add(&mut self, data: Bytes, part: &mut Part) -> Result<(), Refusal> {
        let longest = self.capacity.limits.body;
        if self.first.len() + self.all.len() + data.len() > longest {
            return Err(Refusal::TooLarge(longest));
        }
        self.capacity.grow(part, data.len())?;
        if self.first.is_empty() && self.all.is_empty() {
            self.first = data;
        } else {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.extend_from_slice(&data);
        }
        Ok(())
    }
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::Overloaded
    }
}

impl Refusal {
    /// The value of a label.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::TooLarge(_) => "too_large",
            Self::TooSlow(_) => "too_slow",
            Self::Broken(_) => "broken",
            Self::Malformed(_) => "malformed",
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Self::Overloaded => "too many requests are in flight; try again".to_owned(),
            Self::TooLarge(longest) => format!("the body is larger than {longest} bytes"),
            Self::TooSlow(time) => {
                format!("the body did not arrive within {} ms", time.as_millis())
            }
            Self::Broken(problem) => format!("the body could not be read: {problem}"),
            Self::Malformed(problem) => problem.clone(),
        }
    }

    pub(crate) fn response(&self, message: &str) -> Response<Body> {
        let (code, reason) = match self {
            Self::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Broken(_) | Self::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        };
        let mut response = response(code, reason, message);
        if matches!(self, Self::Overloaded) {
            // The one answer that Karmada's client repeats within its deadline (karmada.md 1.7).
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}
