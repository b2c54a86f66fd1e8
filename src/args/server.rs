//! Flags of the webhook server: limits, and how often the certificate is read.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use super::values::{duration, positive_duration};

/// The flags of the webhook server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Webhook server")]
pub(crate) struct ServerArgs {
    /// Largest body of a request, in bytes. Larger requests are answered 413. The limit is lower if the decoded body
    /// would not fit into --max-bytes-in-flight.
    #[arg(long, value_name = "BYTES", value_parser = positive(), default_value_t = webhooks::Limits::default().body)]
    max_body: usize,

    /// Memory of all requests, in bytes: their bodies, the memory that their decoding may need, and their answers until
    /// the client has read them. Interpreter and admission have half each. Further requests are answered 429.
    #[arg(long, value_name = "BYTES", value_parser = positive(), default_value_t = webhooks::Limits::default().bytes_in_flight)]
    max_bytes_in_flight: usize,

    /// Requests in flight, counted separately for the interpreter and for admission. Further requests are answered 429.
    #[arg(long, value_name = "COUNT", value_parser = positive(), default_value_t = webhooks::Limits::default().requests)]
    max_requests: usize,

    /// Timeout of a request whose caller names none, and the longest timeout that a caller gets. A body that arrives
    /// later is answered 408.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "10s")]
    request_timeout: Duration,

    /// Open connections. Above this number, an idle connection is closed. A quarter is for
    /// connections without a request yet; interpreter and admission share the rest equally. With
    /// webhookServer.interpreterPort, each port has half.
    #[arg(long, value_name = "COUNT", value_parser = positive(), default_value_t = certs::Limits::default().connections)]
    max_connections: usize,

    /// Open connections of one source address, or of one IPv6 network (/64), at one port. If unset, a quarter of the
    /// connections of the port.
    #[arg(long, value_name = "COUNT", value_parser = positive())]
    max_connections_per_address: Option<usize>,

    /// Requests in flight on one HTTP/2 connection. The client holds further requests back.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), default_value_t = certs::Limits::default().requests_per_connection)]
    max_requests_per_connection: u32,

    /// Time for a TLS handshake. A slower connection is closed.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "5s")]
    handshake_timeout: Duration,

    /// Time for the first bytes of a connection, and for the header of an HTTP/1.1 request. A slower connection is
    /// closed.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "5s")]
    header_timeout: Duration,

    /// Longest time that an answer waits for the client to read it. A slower connection is closed, at the latest after
    /// one and a half times this time.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "30s")]
    write_timeout: Duration,

    /// How long a connection stays open without a request. Must be longer than the 90 s for which Karmada keeps idle
    /// connections.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "2m")]
    idle_timeout: Duration,

    /// Age, plus or minus 20 %, at which a connection ends, so that load spreads over replicas. On HTTP/2 it is closed
    /// after its current requests. On HTTP/1.1 its next answer asks the client to close it.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "15m")]
    max_connection_age: Duration,

    /// How often the certificate files are read. A changed certificate is served without a restart.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "1s")]
    pub(crate) certificate_poll: Duration,

    /// How long new connections are still served after the process began to stop. Load balancers need this time to
    /// notice that the process is not ready.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) shutdown_delay: Duration,

    /// Time for requests in flight when the process stops, or when their connection is too old or idle. Then the
    /// connection is closed.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    drain_timeout: Duration,
}

/// Divisor: connections hold at most one request for this number of `--max-bytes-in-flight`. A request counts with at
/// least 8 KiB while it is answered, so it is never the limit of small requests that are answered.
const REQUEST_SHARE: usize = 16 << 10;

/// Parses a number greater than 0.
fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

impl ServerArgs {
    /// Returns the limits on the requests of all of `ports` ports.
    pub(crate) fn requests(&self, ports: usize) -> webhooks::Limits {
        webhooks::Limits {
            body: self.max_body,
            bytes_in_flight: self.max_bytes_in_flight,
            requests: self.max_requests,
            connections_per_address: self.connections(ports).connections_per_address,
            time: self.request_timeout,
            ..webhooks::Limits::default()
        }
    }

    /// Returns the maximum number of requests of all connections: the requests of interpreter and admission, and as many
    /// refused ones whose answer is not taken yet. Each request can have headers and trailers in memory that nobody has
    /// counted yet, so the number follows from the memory too.
    fn connection_requests(&self) -> usize {
        let requests = self.max_requests.saturating_mul(3);
        requests
            .min(self.max_bytes_in_flight / REQUEST_SHARE)
            .max(1)
    }

    /// Returns the limits on the connections of one of `ports` ports.
    pub(crate) fn connections(&self, ports: usize) -> certs::Limits {
        let connections = self.max_connections.div_ceil(ports);
        let all = certs::Limits::default();
        certs::Limits {
            connections,
            connections_per_address: self
                .max_connections_per_address
                .unwrap_or_else(|| connections.div_ceil(4)),
            requests: self.connection_requests().div_ceil(ports),
            requests_per_connection: self.max_requests_per_connection,
            handshakes: all.handshakes.div_ceil(ports),
            early_answers: all.early_answers.div_ceil(ports),
            discards: all.discards.div_ceil(ports),
            handshake: self.handshake_timeout,
            header: self.header_timeout,
            write: self.write_timeout,
            idle: self.idle_timeout,
            age: self.max_connection_age,
            drain: self.drain_timeout,
            ..all
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ServerFlags {
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn the_default_flags_are_the_default_limits() {
        let ServerFlags { server } = ServerFlags::parse_from(["x"]);
        let debug = |limits: &dyn std::fmt::Debug| format!("{limits:?}");
        assert_eq!(
            debug(&server.requests(1)),
            debug(&webhooks::Limits::default())
        );
        assert_eq!(
            debug(&server.connections(1)),
            debug(&certs::Limits::default())
        );
    }
}
