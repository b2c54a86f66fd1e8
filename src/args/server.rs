//! Flags of the webhook server: its bounds and its certificate.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use super::values::{duration, positive_duration};

/// Bounds of the webhook server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Webhook server")]
pub(crate) struct ServerArgs {
    /// Largest body of a request, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = positive(), default_value_t = webhooks::Limits::default().body)]
    max_body: usize,

    /// Bytes of all requests that are being read or answered.
    #[arg(long, value_name = "BYTES", value_parser = positive(), default_value_t = webhooks::Limits::default().bytes_in_flight)]
    max_bytes_in_flight: usize,

    /// Requests at a time; further ones are answered 429.
    #[arg(long, value_name = "COUNT", value_parser = positive(), default_value_t = webhooks::Limits::default().requests)]
    max_requests: usize,

    /// Time for a request whose caller names none, and the most that a caller is given.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "10s")]
    request_timeout: Duration,

    /// Connections at a time; further ones wait.
    #[arg(long, value_name = "COUNT", value_parser = positive(), default_value_t = certs::Limits::default().connections)]
    max_connections: usize,

    /// Requests at a time on one HTTP/2 connection.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), default_value_t = certs::Limits::default().requests_per_connection)]
    max_requests_per_connection: u32,

    /// Time for a TLS handshake.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "5s")]
    handshake_timeout: Duration,

    /// Time for the first bytes of a connection, and for the header of an HTTP/1.1 request.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "5s")]
    header_timeout: Duration,

    /// Time for which a client may not take what is sent to it.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "30s")]
    write_timeout: Duration,

    /// How long a connection is kept without a request.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "2m")]
    idle_timeout: Duration,

    /// Age, give or take a fifth, at which a connection is ended after its current requests.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "15m")]
    max_connection_age: Duration,

    /// How often the files of the certificate are looked at.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "1s")]
    pub(crate) certificate_poll: Duration,

    /// How long new connections are still served when the process stops, until no one sends any more.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) shutdown_delay: Duration,

    /// Time for requests in flight when the process stops, or when their connection is idle or too old.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    drain_timeout: Duration,
}

/// A number of which there must be some.
fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

impl ServerArgs {
    /// The bounds on requests.
    pub(crate) fn requests(&self) -> webhooks::Limits {
        webhooks::Limits {
            body: self.max_body,
            bytes_in_flight: self.max_bytes_in_flight,
            requests: self.max_requests,
            time: self.request_timeout,
            ..webhooks::Limits::default()
        }
    }

    /// The bounds on connections.
    pub(crate) fn connections(&self) -> certs::Limits {
        certs::Limits {
            connections: self.max_connections,
            requests_per_connection: self.max_requests_per_connection,
            handshake: self.handshake_timeout,
            header: self.header_timeout,
            write: self.write_timeout,
            idle: self.idle_timeout,
            age: self.max_connection_age,
            drain: self.drain_timeout,
            ..certs::Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn the_defaults_are_those_of_the_servers() {
        let Alone { server } = Alone::parse_from(["x"]);
        let debug = |limits: &dyn std::fmt::Debug| format!("{limits:?}");
        assert_eq!(
            debug(&server.requests()),
            debug(&webhooks::Limits::default())
        );
        assert_eq!(
            debug(&server.connections()),
            debug(&certs::Limits::default())
        );
    }
}
