//! Verifies the certificates of clients.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use crate::error::CertificateProblem;

/// Maximum number of intermediate certificates of a client. The verification tries their paths one after the other, and
/// the number of paths can grow exponentially. The verification cannot be interrupted, and it comes before the client
/// proves that it has the key.
const INTERMEDIATES_MAX: usize = 3;

/// A verifier that refuses long chains before it verifies them.
#[derive(Debug)]
struct ShortChains(Arc<dyn ClientCertVerifier>);

/// Returns a verifier that asks clients for a certificate of these authorities. A client may also present none, because
/// Karmada has none. The handlers decide which requests need a certificate.
///
/// # Errors
///
/// [`CertificateProblem`] if the PEM text has no certificate of an authority.
pub(crate) fn new(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, CertificateProblem> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pem) {
        let authority = authority.map_err(CertificateProblem::NotPem)?;
        let added = roots.add(authority);
        added.map_err(|error| CertificateProblem::NotX509(Box::new(error)))?;
    }
    if roots.is_empty() {
        return Err(CertificateProblem::NoCertificate);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let built = builder.allow_unauthenticated().build();
    let verifier = built.map_err(|error| CertificateProblem::NotX509(Box::new(error)))?;
    Ok(Arc::new(ShortChains(verifier)))
}

impl ClientCertVerifier for ShortChains {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if intermediates.len() > INTERMEDIATES_MAX {
            // TLS tells the client that its certificate is not accepted.
            return Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    /// Returns a chain with this number of intermediates, and the PEM text of its root.
    fn chain(intermediates: usize) -> (String, Vec<CertificateDer<'static>>) {
        let params = |name: String, is_ca| {
            let mut params = CertificateParams::new(vec![name]).unwrap();
            if is_ca {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            params
        };
        let (key, root) = (KeyPair::generate().unwrap(), params("root".into(), true));
        let pem = root.self_signed(&key).unwrap().pem();
        let mut issuer = Issuer::new(root, key);
        let mut chain = Vec::new();
        for number in 0..=intermediates {
            let is_ca = number < intermediates;
            let (key, params) = (
                KeyPair::generate().unwrap(),
                params(format!("c{number}"), is_ca),
            );
            chain.insert(0, params.signed_by(&key, &issuer).unwrap().der().clone());
            issuer = Issuer::new(params, key);
        }
        (pem, chain)
    }

    #[test]
    fn a_chain_with_many_intermediates_is_refused() {
        for (intermediates, is_accepted) in [(0, true), (INTERMEDIATES_MAX, true), (4, false)] {
            let (root, chain) = chain(intermediates);
            let (leaf, rest) = chain.split_first().unwrap();
            let verified =
                new(root.as_bytes())
                    .unwrap()
                    .verify_client_cert(leaf, rest, UnixTime::now());
            assert_eq!(
                verified.is_ok(),
                is_accepted,
                "{intermediates}: {verified:?}"
            );
        }
    }
}
