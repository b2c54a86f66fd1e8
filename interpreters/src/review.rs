//! The wire protocol: `ResourceInterpreterContext`, `config.karmada.io/v1alpha1`. See docs/concepts/interpreter.md.

mod answer;
mod kind;
mod operation;
mod outcome;
mod request;

pub use answer::Interpretation;
pub use kind::InterpretedKind;
pub use operation::Operation;
pub use request::MalformedReview;

pub(crate) use answer::encode;
pub(crate) use outcome::{Component, Dependencies, OperationOutcome, Requirements};
pub(crate) use request::{InterpretRequest, RequestMeta, decode, text};
