//! What a client can take up.

use std::time::Duration;

/// Bounds on what a client can take up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait in the backlog of the socket.
    pub connections: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub requests_per_connection: u32,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the header of an HTTP/1.1 request, from its first byte; for the first bytes of a connection, from its
    /// beginning.
    pub header: Duration,
    /// Time for which a client may not take what is sent to it.
    pub write: Duration,
    /// How long a connection is kept without a request. Callers of webhooks keep theirs for 90 s (karmada.md 1.9): it is
    /// longer, so that the end of a connection does not meet a request.
    pub idle: Duration,
    /// Interval of HTTP/2 pings, by which dead connections are found, and the time for their answer.
    pub ping: Duration,
    /// Time for the answer to an HTTP/2 ping.
    pub ping_answer: Duration,
    /// Age, give or take a fifth, at which a connection is ended after its current requests, so that load spreads over
    /// replicas and an old certificate does not live on.
    pub age: Duration,
    /// Time for requests in flight when the server stops, and for those of a connection that is too old or idle.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests_per_connection: 250,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            write: Duration::from_secs(30),
            idle: Duration::from_mins(2),
            ping: Duration::from_secs(30),
            ping_answer: Duration::from_secs(10),
            age: Duration::from_mins(15),
            drain: Duration::from_secs(20),
        }
    }
}
