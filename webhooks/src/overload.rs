//! Admits requests while capacity is free, and answers 429 otherwise.
//!
//! A request never waits for capacity. Under overload, the wait would be longer than the timeout of the caller.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;
use crate::status;

/// Value of `Retry-After`, in seconds. Karmada's client repeats a request within its own deadline only after a 429
/// (docs/concepts/interpreter.md).
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Estimated size of a decoded object, as a multiple of the size of its body. A hostile object can need at least this
/// much memory.
const DECODED_FACTOR: usize = 8;

/// The free capacity of one server. All requests share this capacity.
#[derive(Debug)]
pub(crate) struct Capacity {
    bytes_max: usize,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The capacity that one request holds. The capacity is free again after the answer.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    slot: Option<OwnedSemaphorePermit>,
    bytes: OwnedSemaphorePermit,
}

/// The error of a request for which no capacity is free.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many requests are in flight; try again")]
pub(crate) struct Overloaded;

impl Overloaded {
    /// Returns the HTTP answer: 429 with `Retry-After`.
    pub(crate) fn response(self) -> Response {
        let code = StatusCode::TOO_MANY_REQUESTS;
        let mut response = status::response(code, "TooManyRequests", &self.to_string());
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        response
    }
}

impl RequestPermit {
    /// Gives the slot back. The request no longer counts in [`Limits::requests`], but its bytes still count in
    /// [`Limits::bytes_in_flight`].
    pub(crate) fn release_slot(&mut self) {
        self.slot = None;
    }
}

impl Capacity {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = limits.bytes_in_flight.min(Semaphore::MAX_PERMITS);
        Self {
            bytes_max: limits.bytes_in_flight,
            requests: Arc::new(Semaphore::new(limits.requests)),
            bytes: Arc::new(Semaphore::new(bytes)),
        }
    }

    /// Takes a slot for one request.
    pub(crate) fn admit(&self) -> Result<RequestPermit, Overloaded> {
        Ok(RequestPermit {
            slot: Some(acquire(&self.requests, 1)?),
            bytes: acquire(&self.bytes, 0)?,
        })
    }

    /// Takes capacity for `bytes` more bytes of the request.
    pub(crate) fn reserve(
        &self,
        permit: &mut RequestPermit,
        bytes: usize,
    ) -> Result<(), Overloaded> {
        let bytes = u32::try_from(bytes).map_err(|_| Overloaded)?;
        permit.bytes.merge(acquire(&self.bytes, bytes)?);
        Ok(())
    }

    /// Takes capacity for the decoded form of a body of `bytes` bytes. If the request is the only one in flight, the
    /// capacity is always sufficient.
    pub(crate) fn reserve_decoded(
        &self,
        permit: &mut RequestPermit,
        bytes: usize,
    ) -> Result<(), Overloaded> {
        let most = self.bytes_max.saturating_sub(bytes);
        self.reserve(permit, bytes.saturating_mul(DECODED_FACTOR).min(most))
    }
}

fn acquire(semaphore: &Arc<Semaphore>, count: u32) -> Result<OwnedSemaphorePermit, Overloaded> {
    Arc::clone(semaphore)
        .try_acquire_many_owned(count)
        .map_err(|_| Overloaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_bytes_count_more_and_one_request_always_fits() {
        let capacity = Capacity::new(&Limits {
            bytes_in_flight: 100,
            ..Limits::default()
        });
        let mut first = capacity.admit().unwrap();
        capacity.reserve(&mut first, 10).unwrap();
        capacity.reserve_decoded(&mut first, 10).unwrap();
        let mut second = capacity.admit().unwrap();
        capacity.reserve(&mut second, 10).unwrap();
        assert!(capacity.reserve_decoded(&mut second, 10).is_err());
        drop(first);
        drop(second);
        let mut large = capacity.admit().unwrap();
        capacity.reserve(&mut large, 60).unwrap();
        capacity.reserve_decoded(&mut large, 60).unwrap();
    }

    #[test]
    fn a_dropped_permit_returns_its_capacity() {
        let capacity = Capacity::new(&Limits {
            requests: 2,
            bytes_in_flight: 100,
            ..Limits::default()
        });
        let mut large = capacity.admit().unwrap();
        let mut small = capacity.admit().unwrap();
        assert!(capacity.admit().is_err());
        capacity.reserve(&mut large, 60).unwrap();
        capacity.reserve(&mut large, 30).unwrap();
        assert!(capacity.reserve(&mut small, 11).is_err());
        capacity.reserve(&mut small, 10).unwrap();
        small.release_slot();
        let third = capacity.admit().unwrap();
        drop((large, small, third));
        assert_eq!(
            (
                capacity.requests.available_permits(),
                capacity.bytes.available_permits()
            ),
            (2, 100)
        );
    }
}
