//! Bounds on requests, and the timeout of one request.

use std::time::Duration;

use http::Uri;

/// Part of the caller's timeout that is reserved for the transfer of the response.
const RESPONSE_MARGIN: Duration = Duration::from_millis(250);

/// Bounds on requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body, in bytes. Karmada sets no limit of its own. The default holds two objects of the API server's limit
    /// (about 3 MiB each).
    pub body: usize,
    /// Bytes of all bodies that are being read or answered. An answer takes time in proportion to its body, so this also
    /// bounds how long a request waits for others.
    pub bytes_in_flight: usize,
    /// Requests in flight, without those whose body is slow (see `slow`). A body that arrives in several parts is in flight
    /// while other requests are answered, so the default is large enough for one request on each of many busy connections.
    pub requests: usize,
    /// Time after which a body counts as slow. The request of a slow body no longer counts in `requests`; its bytes
    /// still count.
    pub slow: Duration,
    /// Timeout of a request without a `timeout` parameter, and the longest timeout that a caller gets.
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

impl Limits {
    /// Returns the time for a request: its `?timeout=<n>s` less a margin, at most [`Limits::time`]
    /// (docs/concepts/interpreter.md).
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
