//! The names in the client certificate of a connection, if the client presented one.

use std::sync::Arc;

use http::Request;
use hyper::service::Service;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The names in the certificate of a client: its common name, and its DNS names. The TLS handshake has verified the
/// certificate. Every request of the connection has this value as an extension. A request without it comes from a
/// client without a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNames(Arc<[String]>);

impl ClientNames {
    /// Returns the names of the client that presented this chain. Returns `None` if the client presented none.
    pub(crate) fn of(chain: Option<&[CertificateDer<'_>]>) -> Option<Self> {
        let (_, leaf) = X509Certificate::from_der(chain?.first()?).ok()?;
        let common = leaf.subject().iter_common_name();
        let common = common.filter_map(|name| name.as_str().ok());
        let alternative = leaf.subject_alternative_name().ok().flatten();
        let alternative = alternative
            .into_iter()
            .flat_map(|it| &it.value.general_names);
        let dns = alternative.filter_map(|name| match *name {
            GeneralName::DNSName(name) => Some(name),
            _ => None,
        });
        Some(Self(common.chain(dns).map(str::to_owned).collect()))
    }

    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Adds the names of the client to each request.
#[derive(Clone)]
pub(crate) struct Identified<S> {
    pub(crate) service: S,
    pub(crate) client: Option<ClientNames>,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Identified<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<B>) -> S::Future {
        if let Some(client) = &self.client {
            request.extensions_mut().insert(client.clone());
        }
        self.service.call(request)
    }
}
