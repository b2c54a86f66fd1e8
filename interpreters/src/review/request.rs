//! Decoding of requests in any JSON form.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use thiserror::Error;

use super::kind::InterpretedKind;
use super::operation::Operation;
use crate::error::{InterpretError, Quoted};
use api::decode::from_str;

const API_VERSION: &str = "config.karmada.io/v1alpha1";
const KIND: &str = "ResourceInterpreterContext";

/// The reason why a body has no answer in the protocol.
#[derive(Debug, Error)]
pub enum MalformedReview {
    /// The body cannot be decoded.
    #[error("the body is not a ResourceInterpreterContext: {0}")]
    NotAReview(#[source] serde_json::Error),
    /// A field that every answer needs is missing, or its value is wrong.
    #[error("{0}")]
    Invalid(InterpretError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterpreterContext<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<InterpretRequest<'a>>,
}

/// One request about one object. The object and the items are not decoded yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InterpretRequest<'a> {
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    object: Option<&'a RawValue>,
    observed_object: Option<&'a RawValue>,
    #[serde(default)]
    replicas: i32,
    aggregated_status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow, default)]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

/// The fields of a request that are copied to the answer, to the logs and to the metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestMeta<'a> {
    /// Identifies the call.
    pub(crate) uid: &'a str,
    /// `None` if the operation is unknown.
    pub(crate) operation: Option<Operation>,
    /// `None` if this crate does not interpret the kind.
    pub(crate) kind: Option<InterpretedKind>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> InterpretRequest<'a> {
    pub(crate) fn meta(&self) -> RequestMeta<'_> {
        RequestMeta {
            uid: &self.uid,
            operation: self.operation().ok(),
            kind: self.kind().ok(),
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    pub(crate) fn operation(&self) -> Result<Operation, InterpretError> {
        Operation::from_name(&self.operation).ok_or_else(|| {
            let known = Operation::ALL.map(Operation::as_str).join(", ");
            let operation = Quoted(&self.operation);
            let problem = format!("unknown operation {operation}; known are {known}");
            InterpretError::new("request.operation", problem)
        })
    }

    pub(crate) fn kind(&self) -> Result<InterpretedKind, InterpretError> {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        let is_ours = group == api::GROUP && version == api::VERSION;
        let known = is_ours.then(|| InterpretedKind::from_name(kind));
        known.flatten().ok_or_else(|| {
            let names = InterpretedKind::ALL
                .map(InterpretedKind::as_str)
                .join(" and ");
            let problem = format_args!(
                "{group}/{version} {kind} is not interpreted here; {names} of {} are",
                api::API_VERSION
            );
            InterpretError::new("request.kind", problem)
        })
    }

    /// Returns the `apiVersion` and the kind of the object.
    pub(crate) fn target(&self) -> (String, &str) {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        let api_version = match group.is_empty() {
            true => version.to_string(),
            false => format!("{group}/{version}"),
        };
        (api_version, kind)
    }

    /// Returns the object. Depending on the operation, this is the desired object, the template or the object in the
    /// cell.
    pub(crate) fn object(&self) -> Result<&'a str, InterpretError> {
        self.object
            .map(RawValue::get)
            .ok_or_else(|| InterpretError::missing("request.object"))
    }

    /// Returns the object in the cell. Only Retain requests contain this object.
    pub(crate) fn observed_object(&self) -> Result<&'a str, InterpretError> {
        self.observed_object
            .map(RawValue::get)
            .ok_or_else(|| InterpretError::missing("request.observedObject"))
    }

    /// Returns the share of one cell. Only ReviseReplica requests contain a share.
    pub(crate) fn replicas(&self) -> i32 {
        self.replicas
    }

    /// Returns the reports of the cells as a JSON list. If the list is empty, Karmada omits the field.
    pub(crate) fn aggregated_status(&self) -> &'a str {
        self.reported_status().unwrap_or("[]")
    }

    /// Returns the reports of the cells as a JSON list. Returns `None` if the request does not have the field.
    pub(crate) fn reported_status(&self) -> Option<&'a str> {
        self.aggregated_status.map(RawValue::get)
    }
}

/// Decodes the envelope of a request.
pub(crate) fn decode(body: &str) -> Result<InterpretRequest<'_>, MalformedReview> {
    let InterpreterContext {
        api_version,
        kind,
        request,
    } = from_str(body).map_err(MalformedReview::NotAReview)?;
    let expect = |field: &str, value: &str, expected: &str| {
        if value.is_empty() || value == expected {
            Ok(())
        } else {
            let problem = format_args!("is {}, must be {expected:?}", Quoted(value));
            Err(MalformedReview::Invalid(InterpretError::new(
                field, problem,
            )))
        }
    };
    expect("apiVersion", &api_version, API_VERSION)?;
    expect("kind", &kind, KIND)?;
    let missing = |field: &str| MalformedReview::Invalid(InterpretError::missing(field));
    let request = request.ok_or_else(|| missing("request"))?;
    if request.uid.is_empty() {
        return Err(missing("request.uid"));
    }
    Ok(request)
}

/// Returns the body as text. Checks the encoding of the whole body, also of fields that no operation reads.
pub(crate) fn text(body: &[u8]) -> Result<&str, MalformedReview> {
    std::str::from_utf8(body)
        .map_err(serde_json::Error::custom)
        .map_err(MalformedReview::NotAReview)
}
