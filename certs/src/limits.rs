//! Limits on connections.

use std::time::Duration;

use http::Uri;

/// Maximum number of TLS handshakes at a time.
const HANDSHAKES: usize = 64;

/// Maximum number of HTTP/2 requests that were answered before their body arrived, and whose answer with a body the
/// client has not taken yet.
const EARLY_ANSWERS: usize = 64;

/// Maximum number of connections whose unread body is discarded at a time.
const DISCARDS: usize = 16;

/// Size of the read buffer of each HTTP/1.1 connection, in bytes. The size is also the maximum size of the request
/// header.
pub(crate) const BUFFER_MAX: usize = 12 << 10;

/// Time for which the rest of an HTTP/1.1 body is discarded after its request was answered: 3 s, the deadline of a call
/// (docs/concepts/interpreter.md).
const LINGER: Duration = Duration::from_secs(3);

/// Divides the slots of a server into equal shares, by the path of the first request of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The number of shares.
    pub count: usize,
    /// Returns the index of the share of a request, less than `count`.
    pub of: fn(&Uri) -> usize,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open connections. Above this number, an idle connection is closed.
    pub connections: usize,
    /// Maximum number of open connections of one source address.
    pub connections_per_address: usize,
    /// The shares of the connections, if there are any.
    pub shares: Option<Shares>,
    /// Maximum number of requests of all connections, from the first byte until the client has taken the answer.
    /// Further requests are reset. One source address may have a quarter of them.
    pub requests: usize,
    /// Maximum number of requests in flight on one HTTP/2 connection.
    pub requests_per_connection: u32,
    /// Maximum number of TLS handshakes at a time. One source address may have a quarter of them. A full handshake
    /// costs about 0.2 ms of CPU, so a request waits for 64 handshakes for at most 13 ms.
    pub handshakes: usize,
    /// Maximum number of HTTP/2 requests that were answered before their body arrived, and whose answer with a body the
    /// client has not taken yet. Until then, HTTP/2 keeps the trailers of the request, at most about 20 KiB, although
    /// nobody reads them. One source address may have a quarter of them.
    pub early_answers: usize,
    /// Maximum number of connections whose unread body is discarded at a time. The clients of the others wait, although
    /// they have their answer already. One source address may have a quarter of them.
    pub discards: usize,
    /// Time limit of a TLS handshake.
    pub handshake: Duration,
    /// Time limit for the first bytes of a connection, and for the header of an HTTP/1.1 request after its first byte. A
    /// header that begins in the same read as the request before it has the time `idle` instead.
    pub header: Duration,
    /// Longest time that a write may wait for the client to read. An answer that the client has not taken completely
    /// closes the connection after this time, at the latest after one and a half times this time.
    pub write: Duration,
    /// Time after which a connection without a request is closed. Karmada closes its idle connections after 90 s
    /// (docs/concepts/interpreter.md). The limit must be longer than 90 s. Otherwise the server could close a
    /// connection while Karmada sends a request.
    pub idle: Duration,
    /// Interval of HTTP/2 pings, which find dead connections.
    pub ping: Duration,
    /// Time limit for the answer to an HTTP/2 ping.
    pub ping_answer: Duration,
    /// Age at which a connection ends, with a random deviation of up to 20 %. The limit spreads the load over all
    /// replicas. It also lets clients see a new certificate. On HTTP/2 the connection is closed after its current
    /// requests. On HTTP/1.1 its next answer asks the client to close it.
    pub age: Duration,
    /// Time for which the rest of a body is discarded after its request was answered. The connection is then closed. If
    /// it were closed at once, the client could lose the answer: a TCP reset makes its next write fail.
    pub linger: Duration,
    /// Time limit for requests in flight when the server stops, or when their connection is too old or idle.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 1024,
            shares: None,
            requests: 12_288,
            requests_per_connection: 250,
            handshakes: HANDSHAKES,
            early_answers: EARLY_ANSWERS,
            discards: DISCARDS,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            write: Duration::from_secs(30),
            idle: Duration::from_mins(2),
            ping: Duration::from_secs(30),
            ping_answer: Duration::from_secs(10),
            age: Duration::from_mins(15),
            linger: LINGER,
            drain: Duration::from_secs(20),
        }
    }
}
