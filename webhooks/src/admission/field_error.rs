//! Errors of single fields, modelled on `k8s.io/apimachinery/pkg/util/validation/field`.
//!
//! A rule reports a [`FieldError`] at a [`FieldPath`] to an [`ErrorSink`]. A [`FieldErrorList`] collects the errors as
//! the causes of one `metav1.Status`. For an update, the list omits the errors that the object had before.

mod error;
mod list;
mod path;
mod quote;
mod warnings;

pub(crate) use error::{ErrorSink, FieldError};
pub(crate) use list::{FieldErrorList, LISTED_MAX, StatusCause};
pub(crate) use path::FieldPath;
pub(crate) use quote::{Quoted, supported};
pub(crate) use warnings::Warnings;
