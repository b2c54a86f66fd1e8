//! Listen addresses, in the format of Go programs.

use std::str::FromStr;

use thiserror::Error;

/// The listen address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindAddress {
    /// The server is off.
    Off,
    /// The server listens at this address. An empty host means all addresses.
    At {
        /// Host name or IP address.
        host: String,
        /// Port number; 0 means a free port.
        port: u16,
    },
}

/// The reason why a text is not a listen address.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum BindAddressError {
    #[error(
        "{0:?} is not an address: \"host:port\", \":port\" for all addresses, or \"0\" for off"
    )]
    Form(String),
    #[error("the port of {0:?} must be a number from 0 to 65535; 0 means a free port")]
    Port(String),
}

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let form = || BindAddressError::Form(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port = port
            .parse()
            .map_err(|_| BindAddressError::Port(text.to_owned()))?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(host) => host,
            None if host.contains(':') => return Err(form()),
            None => host,
        };
        Ok(Self::At {
            host: host.to_owned(),
            port,
        })
    }
}
