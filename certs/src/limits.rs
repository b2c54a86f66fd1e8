//! Limits on connections.

use std::time::Duration;

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open connections. Further connections wait in the backlog of the socket.
    pub connections: usize,
    /// Requests in flight on one HTTP/2 connection.
    pub requests_per_connection: u32,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the first bytes of a connection, and for the header of an HTTP/1.1 request from its first byte.
    pub header: Duration,
    /// Longest time that a write may wait for the client to read.
    pub write: Duration,
    /// How long a connection stays open without a request. Karmada closes its idle connections after 90 s
    /// (docs/concepts/interpreter.md). This is longer, so that the server never closes a connection at the moment in which
    /// Karmada sends a request.
    pub idle: Duration,
    /// Interval of HTTP/2 pings, which find dead connections.
    pub ping: Duration,
    /// Time for the answer to an HTTP/2 ping.
    pub ping_answer: Duration,
    /// Age, ±20 %, at which a connection is closed after its current requests, so that load spreads over replicas and
    /// clients see a new certificate.
    pub age: Duration,
    /// Time for requests in flight when the server stops, or when their connection is too old or idle.
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
