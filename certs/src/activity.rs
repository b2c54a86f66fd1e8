//! The requests of one connection, and since when the connection waits for its client.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::BUFFER_MAX;
use crate::peers::{EarlyAnswer, Peer};

/// Number of periods for which unread answers are counted. An answer that became ready three periods ago is late.
const PERIODS: usize = 4;

/// Time for which a connection with unfinished requests must have waited for its client before it counts as idle. A
/// client that sends a body or reads an answer needs milliseconds.
const UNFINISHED_IDLE: Duration = Duration::from_secs(1);

/// The shared state of the parts of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The time at which the connection began. `last_progress` is relative to this time.
    start: Instant,
    peer: Arc<Peer>,
    /// Number of requests since the connection began.
    started: AtomicUsize,
    /// Number of requests whose answer the client has not taken yet.
    in_flight: AtomicUsize,
    /// Number of requests whose body has not arrived yet.
    receiving: AtomicUsize,
    /// Number of answers that the client has not taken yet, by the period in which they became ready.
    unread: [AtomicUsize; PERIODS],
    period: AtomicUsize,
    /// The time at which a request last began, was answered or ended, in milliseconds after `start`.
    last_progress: AtomicU64,
    /// Whether the connection has moved to the share of the slots that its first request belongs to (see `slots`).
    is_classified: AtomicBool,
    /// Whether the connection has reached its age.
    is_old: AtomicBool,
    /// Whether the handler of the last request has not read its whole body.
    has_unread_body: AtomicBool,
    /// Whether the unread body is so long that an HTTP/1.1 connection is closed after the answer.
    has_long_unread_body: AtomicBool,
    /// Notified when another connection gets the slot of this connection.
    pub(crate) evicted: Notify,
}

/// A request from its first byte until the client has taken its answer.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    activity: Arc<Activity>,
    /// The index in `Activity::unread` as soon as the answer is ready.
    answered: Option<usize>,
}

/// A request whose body has not arrived yet.
#[derive(Debug)]
pub(crate) struct Receiving(Arc<Activity>);

impl Activity {
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        Self {
            start: Instant::now(),
            peer,
            started: AtomicUsize::default(),
            in_flight: AtomicUsize::default(),
            receiving: AtomicUsize::default(),
            unread: Default::default(),
            period: AtomicUsize::default(),
            last_progress: AtomicU64::default(),
            is_classified: AtomicBool::default(),
            is_old: AtomicBool::default(),
            has_unread_body: AtomicBool::default(),
            has_long_unread_body: AtomicBool::default(),
            evicted: Notify::new(),
        }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.peer.address
    }

    /// Returns the number of requests since the connection began.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Acquire)
    }

    pub(crate) fn is_classified(&self) -> bool {
        self.is_classified.load(Ordering::Acquire)
    }

    pub(crate) fn set_classified(&self) {
        self.is_classified.store(true, Ordering::Release);
    }

    pub(crate) fn is_old(&self) -> bool {
        self.is_old.load(Ordering::Acquire)
    }

    /// Records that the connection has reached its age.
    pub(crate) fn set_old(&self) {
        self.is_old.store(true, Ordering::Release);
    }

    /// Returns whether the handler of the last request has not read its whole body.
    pub(crate) fn has_unread_body(&self) -> bool {
        self.has_unread_body.load(Ordering::Acquire)
    }

    /// Begins a request. Returns `None` if the client or all clients together have too many requests.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<ActiveRequest> {
        if !self.peer.begin_request() {
            return None;
        }
        self.started.fetch_add(1, Ordering::AcqRel);
        self.has_unread_body.store(false, Ordering::Release);
        self.has_long_unread_body.store(false, Ordering::Release);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.progress();
        Some(ActiveRequest {
            activity: Arc::clone(self),
            answered: None,
        })
    }

    /// Counts the body of a request as not arrived until the returned [`Receiving`] is dropped.
    pub(crate) fn receiving(self: &Arc<Self>) -> Receiving {
        self.receiving.fetch_add(1, Ordering::AcqRel);
        Receiving(Arc::clone(self))
    }

    pub(crate) fn has_no_request(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// Returns the time of the last progress.
    pub(crate) fn last_progress(&self) -> Instant {
        self.start + Duration::from_millis(self.last_progress.load(Ordering::Acquire))
    }

    /// Returns the time since which the connection is idle: it has no request, or it waits for its client only. Returns
    /// `None` if the connection is not idle.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let in_flight = self.in_flight.load(Ordering::Acquire);
        let since = self.last_progress();
        if in_flight == 0 {
            return Some(since);
        }
        let unread = self
            .unread
            .iter()
            .map(|count| count.load(Ordering::Acquire));
        let waiting = unread.sum::<usize>() + self.receiving.load(Ordering::Acquire);
        (in_flight <= waiting && since.elapsed() >= UNFINISHED_IDLE).then_some(since)
    }

    /// Begins the next period. Returns whether an answer became ready three periods ago and is still unread.
    pub(crate) fn next_period(&self) -> bool {
        let period = self.period.fetch_add(1, Ordering::AcqRel) + 1;
        let oldest = self.unread.get((period + 1) % PERIODS);
        oldest.is_some_and(|count| count.load(Ordering::Acquire) > 0)
    }

    fn progress(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_progress.store(now, Ordering::Release);
    }
}

impl ActiveRequest {
    /// Returns whether an HTTP/1.1 connection ends with the answer to this request: it has reached its age, or the
    /// handler has left a long part of the body unread.
    pub(crate) fn ends_connection(&self) -> bool {
        let is_long = &self.activity.has_long_unread_body;
        self.activity.is_old() || is_long.load(Ordering::Acquire)
    }

    /// Counts an answer with a body that comes before the body of its request. Returns `None` if there are too many.
    pub(crate) fn begin_early_answer(&self) -> Option<EarlyAnswer> {
        self.activity.peer.begin_early_answer()
    }

    /// Records that the answer is ready. From now on the request waits for its client.
    pub(crate) fn answered(&mut self) {
        let index = self.activity.period.load(Ordering::Acquire) % PERIODS;
        if let Some(unread) = self.activity.unread.get(index) {
            unread.fetch_add(1, Ordering::AcqRel);
            self.answered = Some(index);
        }
        self.activity.progress();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let activity = &self.activity;
        if let Some(unread) = self.answered.and_then(|index| activity.unread.get(index)) {
            unread.fetch_sub(1, Ordering::AcqRel);
        }
        activity.progress();
        activity.in_flight.fetch_sub(1, Ordering::AcqRel);
        activity.peer.end_request();
    }
}

impl Receiving {
    /// Records that the handler has dropped the body before it read all of it. At least `rest` bytes are unread.
    pub(crate) fn unread(&self, rest: u64) {
        self.0.has_unread_body.store(true, Ordering::Release);
        // hyper discards a rest that is in its buffer already, and closes the connection because of a longer one.
        let is_long = rest > BUFFER_MAX as u64;
        let has_long = &self.0.has_long_unread_body;
        has_long.store(is_long, Ordering::Release);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::AcqRel);
    }
}
