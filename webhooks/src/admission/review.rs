//! The protocol of admission webhooks: `AdmissionReview` of `admission.k8s.io/v1` (Kubernetes documentation: Dynamic
//! Admission Control).

use std::borrow::Cow;

use api::decode::from_slice;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::denial::{AdmittedKind, Denial};
use super::field_error::{Quoted, Warnings};
use super::user_info::{self, UserInfo};
use crate::bounded::bounded_message;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// Longest `uid`, in bytes. API servers send 36 characters.
const UID_MAX: usize = 256;
/// Longest name of an object, in bytes (a DNS subdomain).
const NAME_MAX: usize = 253;
/// Longest name of a namespace, in bytes (a DNS label).
const NAMESPACE_MAX: usize = 63;

/// The reason why a body is not an `AdmissionReview` with a request. The message contains the name of the field.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// The body is not JSON, or a field has the wrong type.
    #[error("the body is not an AdmissionReview: {0}")]
    Undecodable(#[from] serde_json::Error),
    /// The body has another version or kind.
    #[error("{field}: is {value}, must be {expected:?}")]
    Unexpected {
        /// The path of the field.
        field: &'static str,
        /// The value of the field, in quotes.
        value: String,
        /// The only supported value of the field.
        expected: &'static str,
    },
    /// A field is longer than API servers allow. Answers and access reviews repeat these fields.
    #[error("{field}: is longer than {max} bytes")]
    TooLong {
        /// The path of the field.
        field: &'static str,
        /// The longest allowed value, in bytes.
        max: usize,
    },
    /// A required field is missing.
    #[error("{0}: is missing")]
    Missing(&'static str),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewedRequest<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<AdmissionRequest<'a>>,
}

/// The `request` of an `AdmissionReview`, borrowed from the body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest<'a> {
    #[serde(borrow, default)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    pub(crate) sub_resource: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) operation: Cow<'a, str>,
    #[serde(default, deserialize_with = "user_info::bounded")]
    pub(crate) user_info: UserInfo,
    #[serde(borrow)]
    pub(crate) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) old_object: Option<&'a RawValue>,
}

/// Group, version and kind of an object.
#[derive(Default, Deserialize)]
pub(crate) struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub(crate) group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: Cow<'a, str>,
}

impl AdmissionRequest<'_> {
    /// Denies a request about an object of another kind than that of the webhook.
    pub(crate) fn expect_kind(&self, admitted: AdmittedKind) -> Result<(), Denial> {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        let is_it = group == api::GROUP && version == api::VERSION && kind == admitted.as_str();
        match is_it {
            true => Ok(()),
            false => Err(Denial::bad_request(
                admitted,
                &self.name,
                &format!(
                    "request.kind: {}/{} {} is not admitted here, {} of {} is",
                    bounded_message(group),
                    bounded_message(version),
                    bounded_message(kind),
                    admitted.as_str(),
                    api::API_VERSION
                ),
            )),
        }
    }
}

/// Decodes the request of an `AdmissionReview`.
///
/// # Errors
///
/// [`ReviewError`] if the body has no request that can be answered.
pub(crate) fn decode(body: &[u8]) -> Result<AdmissionRequest<'_>, ReviewError> {
    let review: ReviewedRequest<'_> = from_slice(body)?;
    let expect = |field, value: &str, expected| match value == expected {
        true => Ok(()),
        false => Err(ReviewError::Unexpected {
            field,
            value: Quoted(value).to_string(),
            expected,
        }),
    };
    expect("apiVersion", &review.api_version, API_VERSION)?;
    expect("kind", &review.kind, KIND)?;
    let request = review.request.ok_or(ReviewError::Missing("request"))?;
    if request.uid.is_empty() {
        return Err(ReviewError::Missing("request.uid"));
    }
    for (field, text, max) in [
        ("request.uid", &request.uid, UID_MAX),
        ("request.name", &request.name, NAME_MAX),
        ("request.namespace", &request.namespace, NAMESPACE_MAX),
    ] {
        if text.len() > max {
            return Err(ReviewError::TooLong { field, max });
        }
    }
    Ok(request)
}

/// Encodes the answer to the request with this `uid`.
pub(crate) fn encode(uid: &str, outcome: Result<Warnings, Denial>) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ReviewedResponse<'a> {
        api_version: &'a str,
        kind: &'a str,
        response: AdmissionResponse<'a>,
    }
    #[derive(Serialize)]
    struct AdmissionResponse<'a> {
        uid: &'a str,
        allowed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a Denial>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }
    let (warnings, denial) = match outcome {
        Ok(warnings) => (warnings.into_texts(), None),
        Err(denial) => (Vec::new(), Some(denial)),
    };
    let review = ReviewedResponse {
        api_version: API_VERSION,
        kind: KIND,
        response: AdmissionResponse {
            uid,
            allowed: denial.is_none(),
            status: denial.as_ref(),
            warnings,
        },
    };
    // The serialization of texts and numbers cannot fail.
    serde_json::to_vec(&review).unwrap_or_default()
}
