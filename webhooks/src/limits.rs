//! How much a request, and all of them together, may take up.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is left of the caller's time for the way back.
const MARGIN: Duration = Duration::from_millis(250);

/// How many times larger a hostile object becomes when it is decoded, at least.
const DECODED: usize = 8;

/// Bounds on requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body, in bytes. Karmada sets no limit, and two objects of the API server's own limit fit with room to spare.
    pub body: usize,
    /// Bytes of all bodies that are being read or answered. The time that an answer takes grows with them, so this also
    /// bounds for how long a request waits for others.
    pub bytes_in_flight: usize,
    /// Requests at a time, without those whose body comes slowly. A body that comes in several parts is in flight while
    /// other requests are answered, so that each of many busy connections has one most of the time.
    pub requests: usize,
    /// After this time a body comes slowly: its request takes no one's place any more, only the room of its bytes.
    pub slow: Duration,
    /// Time for a request whose caller names none, and the most that a caller is given.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            bytes_in_flight: 256 << 20,
            requests: 4096,
            slow: Duration::from_millis(250),
            time: Duration::from_secs(10),
        }
    }
}

/// What is free of the limits on all requests together.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) limits: Limits,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// A request's part of the capacity, held until it is answered.
#[derive(Debug)]
pub(crate) struct Part {
    place: Option<OwnedSemaphorePermit>,
    bytes: OwnedSemaphorePermit,
}

/// There is no room now. A caller that waited here would wait in vain where there is more to do than can be done.
#[derive(Debug)]
pub(crate) struct Full;

impl Part {
    /// Takes no one's place any more.
    pub(crate) fn leave_place(&mut self) {
        self.place = None;
    }
}

impl Capacity {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            requests: Arc::new(Semaphore::new(limits.requests)),
            bytes: Arc::new(Semaphore::new(
                limits.bytes_in_flight.min(Semaphore::MAX_PERMITS),
            )),
        }
    }

    /// A place for a request.
    pub(crate) fn place(&self) -> Result<Part, Full> {
        let take = |of: &Arc<Semaphore>, count| {
            Arc::clone(of)
                .try_acquire_many_owned(count)
                .map_err(|_| Full)
        };
        Ok(Part {
            place: Some(take(&self.requests, 1)?),
            bytes: take(&self.bytes, 0)?,
        })
    }

    /// Room for so many more bytes of a request.
    pub(crate) fn grow(&self, part: &mut Part, bytes: usize) -> Result<(), Full> {
        let bytes = u32::try_from(bytes).map_err(|_| Full)?;
        let more = Arc::clone(&self.bytes).try_acquire_many_owned(bytes);
        part.bytes.merge(more.map_err(|_| Full)?);
        Ok(())
    }

    /// Room for what becomes of so many bytes that are decoded, and kept while others are asked. One request alone always
    /// has it.
    pub(crate) fn grow_decoded(&self, part: &mut Part, bytes: usize) -> Result<(), Full> {
        let most = self.limits.bytes_in_flight.saturating_sub(bytes);
        self.grow(part, bytes.saturating_mul(DECODED).min(most))
    }

    /// The time that the caller's `?timeout=<n>s` leaves (karmada.md 1.6).
    pub(crate) fn time_for(&self, uri: &Uri) -> Duration {
        let parameters = uri.query().unwrap_or_default().split('&');
        let named = parameters
            .filter_map(|parameter| parameter.strip_prefix("timeout=")?.strip_suffix('s'))
            .find_map(|seconds| seconds.parse().ok().map(Duration::from_secs));
        named.map_or(self.limits.time, |named| {
            named.saturating_sub(MARGIN).min(self.limits.time)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_the_callers_within_bounds() {
        let capacity = Capacity::new(Limits::default());
        let time = |uri: &str| capacity.time_for(&uri.parse().unwrap());
        assert_eq!(time("/interpret?timeout=3s"), Duration::from_millis(2750));
        assert_eq!(time("/interpret?a=b&timeout=30s"), Duration::from_secs(10));
        for uri in [
            "/interpret",
            "/interpret?timeout=x",
            "/interpret?timeout=-1s",
        ] {
            assert_eq!(time(uri), Duration::from_secs(10), "{uri}");
        }
    }

    #[test]
    fn what_is_decoded_counts_more_and_one_request_always_fits() {
        let limits = Limits {
            bytes_in_flight: 100,
            ..Limits::default()
        };
        let capacity = Capacity::new(limits);
        let mut first = capacity.place().unwrap();
        capacity.grow(&mut first, 10).unwrap();
        capacity.grow_decoded(&mut first, 10).unwrap();
        let mut second = capacity.place().unwrap();
        capacity.grow(&mut second, 10).unwrap();
        assert!(capacity.grow_decoded(&mut second, 10).is_err());
        drop(first);
        drop(second);
        let mut large = capacity.place().unwrap();
        capacity.grow(&mut large, 60).unwrap();
        capacity.grow_decoded(&mut large, 60).unwrap();
    }

    #[test]
    fn what_is_taken_comes_back() {
        let limits = Limits {
            requests: 2,
            bytes_in_flight: 100,
            ..Limits::default()
        };
        let capacity = Capacity::new(limits);
        let mut large = capacity.place().unwrap();
        let mut small = capacity.place().unwrap();
        assert!(capacity.place().is_err());
        capacity.grow(&mut large, 60).unwrap();
        capacity.grow(&mut large, 30).unwrap();
        assert!(capacity.grow(&mut small, 11).is_err());
        capacity.grow(&mut small, 10).unwrap();
        small.leave_place();
        let third = capacity.place().unwrap();
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
