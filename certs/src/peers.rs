//! The clients of one server, by source address, and what each of them uses.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handshakes::HandshakeTurns;
use crate::limits::Limits;

/// Divisor: one source address may use the requests, and the handshakes, of a server divided by this number.
const PARTS: usize = 4;

/// The requests and handshakes of all clients of a server.
#[derive(Debug)]
pub(crate) struct AllPeers {
    requests: AtomicUsize,
    requests_max: usize,
    handshakes_max: usize,
    pub(crate) handshakes: HandshakeTurns,
}

/// One source address, with what it uses. All IPv6 addresses with the same first 64 bits are one source address,
/// because one machine can use all of them.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    requests: AtomicUsize,
    pub(crate) handshakes: HandshakeTurns,
    pub(crate) all: Arc<AllPeers>,
}

impl AllPeers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: AtomicUsize::default(),
            requests_max: limits.requests,
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
            handshakes: HandshakeTurns::new(all.handshakes_max.div_ceil(PARTS)),
            all,
        }
    }

    /// Counts a request. Returns false if there are too many.
    pub(crate) fn begin_request(&self) -> bool {
        let most = self.all.requests_max.div_ceil(PARTS);
        if !increment(&self.requests, most) {
            return false;
        }
        let counted = increment(&self.all.requests, self.all.requests_max);
        if !counted {
            self.requests.fetch_sub(1, Ordering::AcqRel);
        }
        counted
    }

    pub(crate) fn end_request(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.all.requests.fetch_sub(1, Ordering::AcqRel);
    }
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
