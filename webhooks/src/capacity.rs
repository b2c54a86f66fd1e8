//! Counts the work and the memory of the requests of one webhook protocol.
//!
//! Work is counted in slots: one for each request that is being read or answered. Memory is counted in bytes. A request
//! holds its bytes until the client has taken the answer.
//!
//! The bytes are divided into three parts, so that requests with large bodies never take the memory that small ones
//! need:
//!
//! - small: one eighth. Requests with small bodies.
//! - large: one eighth. The bodies and the answers of all other requests.
//! - decoding: the rest. The decoded forms of bodies. When it is full, the decoded form of a small body uses the part
//!   `small`.
//!
//! One source address holds at most three quarters of each of the first two parts. It takes at most three quarters of
//! what others leave of the part `small`, so a few source addresses cannot fill it. In the part `large`, it leaves room
//! for the largest body of another source address, as far as the part has room for two such bodies, unless a single
//! request needs more for its answer. Large bodies wait for `decoding`, and long work waits for a CPU. Only one request
//! of a source address waits for each of them at a time, so that the requests of other source addresses are next.

mod pool;
mod requesters;
mod sources;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::http_error::HttpError;
use crate::limits::Limits;
use crate::metrics::InFlightGuard;
use crate::overload::Overloaded;
use pool::Pool;
use requesters::{Held, RequesterShare, Requesters};
use sources::{Source, Sources};

/// Largest body that counts as small, in bytes. The work on a larger body is long (see [`is_long_work`]).
pub(crate) const SMALL_BODY: usize = 32 << 10;

/// Largest body whose work is never long, in bytes. The worst known body of this size takes less than 1 ms of CPU.
const BRIEF_BODY: usize = 8 << 10;

/// Maximum number of separators in a small body whose work is not long. The most expensive values take 360 ns each.
const BRIEF_SEPARATORS: usize = 2048;

/// Bytes that one request holds besides its body, its decoded form and its answer: the state of its stream and of its
/// handler.
pub(crate) const REQUEST_OVERHEAD: usize = 8 << 10;

/// Bytes of the part `small` that a source address may hold for each byte that stays free.
const SOURCE_PER_FREE: usize = 3;

/// Longest time for which a request waits for memory and for its turn: the sum of all its waits. After this time the
/// answer is 429. Only [`Work::run_last`] waits longer.
const QUEUE_MAX: Duration = Duration::from_secs(1);

/// The free capacity of one webhook protocol. All requests of the protocol share this capacity.
#[derive(Debug)]
pub(crate) struct Capacity {
    slots: Pool,
    small: Pool,
    large: Pool,
    /// Bytes of the part `large` that one source address may hold, unless a single request needs more.
    large_max: usize,
    decoding: Arc<Semaphore>,
    decoding_max: usize,
    sources: Sources,
    requesters: Arc<Requesters>,
    /// One permit for each request whose long work may use a CPU at a time. All protocols share the permits.
    workers: Arc<Semaphore>,
}

/// The capacity that one request holds. Dropping the value gives the capacity back.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    capacity: Arc<Capacity>,
    /// The source address of the client, if it is known.
    source: Option<(IpAddr, Arc<Source>)>,
    has_slot: bool,
    is_large: bool,
    /// Bytes of the part `large` if the request is large, else of the part `small`.
    bytes: usize,
    /// Bytes of the part `decoding`.
    decoding: Option<OwnedSemaphorePermit>,
    /// The rest of [`QUEUE_MAX`].
    queue: Duration,
    _in_flight: InFlightGuard,
}

impl Capacity {
    /// Returns the capacities of the two protocols of a server that has `protocols` protocols. Half of the CPUs stay
    /// free for small bodies.
    pub(crate) fn of_protocols(limits: &Limits, protocols: usize) -> [Arc<Self>; 2] {
        let workers = Arc::new(Semaphore::new(long_work_max()));
        [(); 2].map(|()| Arc::new(Self::new(limits, protocols, Arc::clone(&workers))))
    }

    /// Returns the capacity of one of `protocols` protocols. They share the bytes in equal parts.
    fn new(limits: &Limits, protocols: usize, workers: Arc<Semaphore>) -> Self {
        let bytes = limits.bytes_in_flight / protocols.max(1);
        let decoding_max = (bytes - bytes / 4).min(u32::MAX as usize);
        let part = bytes / 8;
        let body_max = limits
            .body
            .min(decoding_max / interpreters::PEAK_BYTES_PER_BYTE);
        let largest = body_max.saturating_add(REQUEST_OVERHEAD).min(part);
        // One source address may send the largest body, and leaves room for the largest body of another one.
        let large_max = (part - part / 4).min(part - largest).max(largest);
        let everything = Held {
            requests: limits.connections_per_address,
            bytes: decoding_max,
        };
        Self {
            slots: Pool::new(limits.requests),
            small: Pool::new(part),
            large: Pool::new(part),
            large_max,
            sources: Sources::new(part),
            requesters: Arc::new(Requesters::new(everything)),
            decoding: Arc::new(Semaphore::new(decoding_max)),
            decoding_max,
            workers,
        }
    }

    /// Returns the size of the largest body for which the capacity is sufficient if no other request is in flight.
    pub(crate) fn body_max(&self) -> usize {
        let decoded = self.decoding_max / interpreters::PEAK_BYTES_PER_BYTE;
        decoded.min(self.large.max().saturating_sub(REQUEST_OVERHEAD))
    }

    /// Takes a slot, and the bytes of a request without a body.
    pub(crate) fn admit(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        in_flight: InFlightGuard,
    ) -> Result<RequestPermit, Overloaded> {
        let mut permit = RequestPermit {
            capacity: Arc::clone(self),
            source: address.map(|address| (address, self.sources.get(address))),
            has_slot: false,
            is_large: false,
            bytes: 0,
            decoding: None,
            queue: QUEUE_MAX,
            _in_flight: in_flight,
        };
        self.slots.take(1)?;
        permit.has_slot = true;
        permit.hold(0)?;
        Ok(permit)
    }
}

/// Returns the maximum number of requests whose long work runs at the same time: half of the CPUs, but at least one.
pub fn long_work_max() -> usize {
    let cpus = available_parallelism().map_or(1, usize::from);
    (cpus / 2).max(1)
}

/// Reports whether the work on a body may take more than 1 ms of CPU. Long work runs on other threads than those that
/// serve connections. The time grows with the number of values. Every value follows a separator.
pub(crate) fn is_long_work(body: &[u8]) -> bool {
    body.len() > SMALL_BODY || body.len() > BRIEF_BODY && separators(body) > BRIEF_SEPARATORS
}

/// Returns the number of separators of values. A chunk has few enough of them for a counter of one byte, so that the
/// CPU counts many bytes at a time.
fn separators(body: &[u8]) -> usize {
    let is_separator = |byte: &u8| u8::from(matches!(byte, b',' | b'[' | b'{'));
    let chunks = body.chunks(u8::MAX.into());
    let counts = chunks.map(|chunk| chunk.iter().map(is_separator).sum::<u8>());
    counts.map(usize::from).sum()
}

/// The work on one body.
pub(crate) struct Work<'p> {
    pub(crate) permit: &'p mut RequestPermit,
    /// Size of the body, in bytes.
    pub(crate) body: usize,
    /// Whether the work is long (see [`is_long_work`]).
    pub(crate) is_long: bool,
}

impl Work<'_> {
    /// Runs a part of the work (see [`RequestPermit::run`]).
    pub(crate) async fn run<T>(&mut self, part: impl FnOnce() -> T) -> Result<T, Overloaded> {
        self.permit.run(self.is_long, part).await
    }

    /// Runs the last part of the work. Long work waits for its turn until `deadline`, so that requests to other servers
    /// are not made in vain.
    pub(crate) async fn run_last<T>(
        &mut self,
        deadline: Instant,
        part: impl FnOnce() -> T,
    ) -> Result<T, Overloaded> {
        self.permit.queue = deadline.saturating_duration_since(Instant::now());
        self.run(part).await
    }
}

impl RequestPermit {
    /// Counts this request and its bytes for its requester, while its access reviews are in flight.
    ///
    /// # Errors
    ///
    /// As [`Requesters::hold`]. The limits are parts of [`Limits::connections_per_address`] and of the part `decoding`.
    pub(crate) fn hold_for(&self, project: &str, user: &str) -> Result<RequesterShare, HttpError> {
        let decoding = self
            .decoding
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let bytes = self.bytes.saturating_add(decoding);
        self.capacity.requesters.hold(project, user, bytes)
    }

    /// Returns the source address of the client, if it is known.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.source.as_ref().map(|(address, _)| *address)
    }

    /// Gives the slot back. The request no longer counts in [`Limits::requests`], but its bytes still count in
    /// [`Limits::bytes_in_flight`].
    pub(crate) fn release_slot(&mut self) {
        if std::mem::take(&mut self.has_slot) {
            self.capacity.slots.give(1);
        }
    }

    /// Sets the size of the body that the request holds.
    pub(crate) fn hold_body(&mut self, body: usize) -> Result<(), Overloaded> {
        if self.is_large || body <= SMALL_BODY {
            return self.hold(body);
        }
        let bytes = body.saturating_add(REQUEST_OVERHEAD);
        let held = self.bytes;
        self.give(held);
        (self.is_large, self.bytes) = (true, 0);
        self.take(bytes)
    }

    /// Takes the bytes that the decoded form of a body of `body` bytes needs. A large body waits for them. `decoded` is
    /// at most the whole part `decoding`, so that the largest body can be answered if no other request is in flight.
    pub(crate) async fn hold_decoded(
        &mut self,
        body: usize,
        decoded: usize,
    ) -> Result<(), Overloaded> {
        let decoded = decoded.min(self.capacity.decoding_max);
        let count = u32::try_from(decoded).map_err(|_| Overloaded)?;
        let part = Arc::clone(&self.capacity.decoding);
        if !self.is_large {
            match part.try_acquire_many_owned(count) {
                Ok(permit) => self.decoding = Some(permit),
                Err(_) => self.hold(body.saturating_add(decoded))?,
            }
            return Ok(());
        }
        let permit = self.wait(|source| &source.decoding, part, count);
        let permit = Box::pin(permit).await?;
        self.decoding = Some(permit);
        Ok(())
    }

    /// Gives the bytes for the decoded form back.
    pub(crate) fn release_decoded(&mut self) {
        self.decoding = None;
    }

    /// Runs `work`. Long work (see [`is_long_work`]) waits for its turn.
    pub(crate) async fn run<T>(
        &mut self,
        is_long: bool,
        work: impl FnOnce() -> T,
    ) -> Result<T, Overloaded> {
        if !is_long {
            return Ok(work());
        }
        let workers = Arc::clone(&self.capacity.workers);
        let worker = self.wait(|source| &source.worker, workers, 1);
        let _worker = Box::pin(worker).await?;
        Ok(work())
    }

    /// Waits for permits, but all waits of the request together take at most [`QUEUE_MAX`]. `place` is the place of the
    /// source address among the requests that wait.
    async fn wait(
        &mut self,
        place: fn(&Source) -> &Semaphore,
        permits: Arc<Semaphore>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, Overloaded> {
        let begin = Instant::now();
        let taken = timeout(self.queue, async {
            let _place = match &self.source {
                Some((_, source)) => Some(place(source).acquire().await?),
                None => None,
            };
            permits.acquire_many_owned(count).await
        });
        let taken = taken.await;
        self.queue = self.queue.saturating_sub(begin.elapsed());
        match taken {
            Ok(Ok(permits)) => Ok(permits),
            _ => Err(Overloaded),
        }
    }

    /// Limits the waits of this request to the time until `deadline`. After it, nobody takes the answer. A request that
    /// is neither large nor long work never waits.
    pub(crate) fn end_queue(&mut self, is_long: bool, deadline: Instant) {
        if !is_long && !self.is_large {
            return;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        self.queue = self.queue.min(left);
    }

    /// Returns the data of the answer. The data holds the permit until the transport drops the data.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if no capacity is free, or if the capacity could never hold the answer.
    pub(crate) fn answer(mut self, answer: Vec<u8>) -> Result<Bytes, HttpError> {
        let most = self.parts().0.max();
        if answer.capacity().saturating_add(REQUEST_OVERHEAD) > most {
            return Err(HttpError::AnswerTooLarge(answer.capacity()));
        }
        self.hold(answer.capacity())?;
        self.decoding = None;
        self.release_slot();
        Ok(Bytes::from_owner(Answer {
            bytes: answer,
            _permit: self,
        }))
    }

    /// Sets the bytes that the request holds besides its overhead. Takes or gives back the difference.
    fn hold(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let bytes = bytes.saturating_add(REQUEST_OVERHEAD);
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.take(more),
            None => {
                self.give(self.bytes - bytes);
                Ok(())
            }
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let (all, of_source) = self.parts();
        all.take(bytes)?;
        if let Some(of_source) = of_source {
            let max = match self.is_large {
                // The only large request of a source address may have an answer that is larger than its body.
                true if of_source.taken() == self.bytes => all.max(),
                true => self.capacity.large_max,
                false => all.free().saturating_mul(SOURCE_PER_FREE),
            };
            of_source
                .take_up_to(max, bytes)
                .inspect_err(|_| all.give(bytes))?;
        }
        self.bytes += bytes;
        Ok(())
    }

    fn give(&mut self, bytes: usize) {
        let (all, of_source) = self.parts();
        all.give(bytes);
        if let Some(of_source) = of_source {
            of_source.give(bytes);
        }
        self.bytes -= bytes;
    }

    /// Returns the part that the bytes of the request belong to: of all requests, and of those of its source address.
    fn parts(&self) -> (&Pool, Option<&Pool>) {
        let (capacity, source) = (&self.capacity, self.source.as_ref());
        match self.is_large {
            true => (&capacity.large, source.map(|(_, source)| &source.large)),
            false => (&capacity.small, source.map(|(_, source)| &source.small)),
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.release_slot();
        self.give(self.bytes);
        if let Some((address, source)) = self.source.take() {
            self.capacity.sources.release(address, source);
        }
    }
}

/// The data of an answer, with the capacity that it holds.
struct Answer {
    bytes: Vec<u8>,
    _permit: RequestPermit,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
