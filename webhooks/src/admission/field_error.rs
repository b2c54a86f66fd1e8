//! Errors of single fields, modelled on `k8s.io/apimachinery/pkg/util/validation/field`.
//!
//! A rule reports a [`FieldError`] at a [`FieldPath`] to an [`ErrorSink`]. A [`FieldErrorList`] collects the reported
//! errors as the causes of one `metav1.Status`, and leaves out those that the object had before an update.

mod error;
mod list;
mod path;
mod quote;

pub(crate) use error::{ErrorSink, FieldError};
pub(crate) use list::{FieldErrorList, LISTED_MAX, StatusCause};
pub(crate) use path::FieldPath;
pub(crate) use quote::{supported, truncated};
