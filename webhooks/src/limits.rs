//! Limits on requests, and the timeout of one request.

use std::time::Duration;

use http::Uri;

/// Time that is reserved to send the response before the timeout of the caller ends.
const RESPONSE_MARGIN: Duration = Duration::from_millis(250);

/// Limits on requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body, in bytes. Karmada has no limit for the body. The default is large enough for two objects of the
    /// largest size that an API server accepts (about 3 MiB each).
    pub body: usize,
    /// Memory of all requests, in bytes: their bodies, the decoded forms of the bodies, their answers, and an overhead
    /// for each request. A request holds its bytes until the client has taken the answer.
    pub bytes_in_flight: usize,
    /// Maximum number of requests in flight of one webhook protocol. The interpreter and admission are counted
    /// separately. Requests with a slow body do not count (see `slow`). Requests of admission that wait for access
    /// reviews do not count either. While the server waits for the next part of a body, it answers other requests. The
    /// default is large enough for one request on each of many busy connections.
    pub requests: usize,
    /// Number of connections of one source address. On HTTP/1.1, each request in flight needs one. Requests
    /// that wait for access reviews may have three quarters of this number (`capacity/requesters.rs`).
    pub connections_per_address: usize,
    /// Time after which a body counts as slow. A request with a slow body no longer counts in `requests`, but its bytes
    /// still count in `bytes_in_flight`.
    pub slow: Duration,
    /// Timeout of a request without a `timeout` parameter. A longer `timeout` parameter is reduced to this value.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            bytes_in_flight: 256 << 20,
            requests: 4096,
            connections_per_address: 1024,
            slow: Duration::from_millis(250),
            time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Returns the timeout for a request: the value of `?timeout=<n>s` minus a margin for the response, but at most
    /// [`Limits::time`] (docs/concepts/interpreter.md).
    pub(crate) fn timeout_for(&self, uri: &Uri) -> Duration {
        let parameters = uri.query().unwrap_or_default().split('&');
        let named = parameters
            .filter_map(|parameter| parameter.strip_prefix("timeout=")?.strip_suffix('s'))
            .find_map(|seconds| seconds.parse().ok().map(Duration::from_secs));
        named.map_or(self.time, |named| {
            named.saturating_sub(RESPONSE_MARGIN).min(self.time)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_the_callers_within_bounds() {
        let time = |uri: &str| Limits::default().timeout_for(&uri.parse().unwrap());
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
}
