//! The clients of one server, by source address, and what each of them uses.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handshakes::HandshakeTurns;
use crate::limits::Limits;

/// Divisor: one source address may use the requests, the handshakes, the early answers and the discards of a server
/// divided by this number.
const PARTS: usize = 4;
/// The requests and handshakes of all clients of a server.
#[derive(Debug)]
pub(crate) struct AllPeers {
    requests: AtomicUsize,
    requests_max: usize,
    early_answers: AtomicUsize,
    early_answers_max: usize,
    discards: AtomicUsize,
    discards_max: usize,
    handshakes_max: usize,
    pub(crate) handshakes: HandshakeTurns,
}

/// One source address, with what it uses. All IPv6 addresses with the same first 64 bits are one source address,
/// because one machine can use all of them.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    requests: AtomicUsize,
    early_answers: AtomicUsize,
    discards: AtomicUsize,
    pub(crate) handshakes: HandshakeTurns,
    pub(crate) all: Arc<AllPeers>,
}

impl AllPeers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: AtomicUsize::default(),
            requests_max: limits.requests,
            early_answers: AtomicUsize::default(),
            early_answers_max: limits.early_answers,
            discards: AtomicUsize::default(),
            discards_max: limits.discards,
            handshakes_max: limits.handshakes,
            handshakes: HandshakeTurns::new(limits.handshakes),
        }
    }
}

impl Peer {
    pub(crate) fn new(address: IpAddr, all: Arc<AllPeers>) -> Self {
        Self {
            address,
            requests: AtomicUsize::default(),
            early_answers: AtomicUsize::default(),
            discards: AtomicUsize::default(),
            handshakes: HandshakeTurns::new(all.handshakes_max.div_ceil(PARTS)),
            all,
        }
    }

    /// Counts a request. Returns false if there are too many.
    pub(crate) fn begin_request(&self) -> bool {
        increment_both(&self.requests, &self.all.requests, self.all.requests_max)
    }

    pub(crate) fn end_request(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.all.requests.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts an early answer with a body until the returned value is dropped. Returns `None` if there are too many.
    pub(crate) fn begin_early_answer(self: &Arc<Self>) -> Option<EarlyAnswer> {
        let (all, most) = (&self.all.early_answers, self.all.early_answers_max);
        increment_both(&self.early_answers, all, most).then(|| EarlyAnswer(Arc::clone(self)))
    }

    /// Counts a connection whose unread body is discarded until the returned value is dropped. Returns `None` if there
    /// are too many.
    pub(crate) fn begin_discard(self: &Arc<Self>) -> Option<Discard> {
        let (all, most) = (&self.all.discards, self.all.discards_max);
        increment_both(&self.discards, all, most).then(|| Discard(Arc::clone(self)))
    }
}

/// A connection whose unread body is being discarded.
#[derive(Debug)]
pub(crate) struct Discard(Arc<Peer>);

impl Drop for Discard {
    fn drop(&mut self) {
        self.0.discards.fetch_sub(1, Ordering::AcqRel);
        self.0.all.discards.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer with a body to an HTTP/2 request whose body has not arrived.
#[derive(Debug)]
pub(crate) struct EarlyAnswer(Arc<Peer>);

impl Drop for EarlyAnswer {
    fn drop(&mut self) {
        self.0.early_answers.fetch_sub(1, Ordering::AcqRel);
        self.0.all.early_answers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Increments the counter of one source address and the counter of all. Returns false, and increments neither, if one
/// of them has reached its maximum.
fn increment_both(own: &AtomicUsize, all: &AtomicUsize, most: usize) -> bool {
    if !increment(own, most.div_ceil(PARTS)) {
        return false;
    }
    let counted = increment(all, most);
    if !counted {
        own.fetch_sub(1, Ordering::AcqRel);
    }
    counted
}

fn increment(counter: &AtomicUsize, most: usize) -> bool {
    if counter.fetch_add(1, Ordering::AcqRel) < most {
        return true;
    }
    counter.fetch_sub(1, Ordering::AcqRel);
    false
}

/// Returns the source address that the address of a client belongs to.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_address_takes_only_its_part_of_the_discards() {
        let limits = Limits::default();
        let all = Arc::new(AllPeers::new(&limits));
        let peer = |last| Arc::new(Peer::new(IpAddr::from([10, 0, 0, last]), Arc::clone(&all)));
        let part = limits.discards.div_ceil(PARTS);
        let mut held = Vec::new();
        for last in 0..4 {
            let peer = peer(last);
            held.extend((0..part).map_while(|_| peer.begin_discard()));
            assert!(peer.begin_discard().is_none());
        }
        assert_eq!(held.len(), limits.discards);
        assert!(peer(9).begin_discard().is_none());
        held.pop();
        assert!(peer(9).begin_discard().is_some());
    }
}
