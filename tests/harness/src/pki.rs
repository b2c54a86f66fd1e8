//! The certificates of a federation. One CA signs all of them, except the certificate of compute-federation's webhook
//! server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::rights::PlaneUser;

/// The host names and addresses of the federation's servers. Pods on nodes use the address 172.30.0.1.
const SERVER_NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "172.30.0.1",
    "kubernetes.default.svc",
    "karmada-aggregated-apiserver.karmada-system.svc",
    "karmada-webhook.karmada-system.svc",
];

/// Certificates and keys. They are files in one directory.
#[derive(Clone)]
pub(crate) struct Pki {
    directory: PathBuf,
    ca: String,
    issuer: Arc<CertifiedIssuer<'static, KeyPair>>,
    admin: (String, String),
}

impl Pki {
    /// Creates all keys and certificates.
    pub(crate) fn create(directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let issuer = authority("federation-ca")?;

        let write = |name: &str, text: &str| {
            fs::write(directory.join(name), text).with_context(|| name.to_owned())
        };
        let ca = issuer.pem();
        write("ca.crt", &ca)?;
        let server = issue(&issuer, "localhost", &[], true)?;
        // Secret volumes and CSI drivers use these file names.
        write("tls.crt", &server.0)?;
        write("tls.key", &server.1)?;
        let front_proxy = issue(&issuer, "front-proxy-client", &[], false)?;
        write("front-proxy.crt", &front_proxy.0)?;
        write("front-proxy.key", &front_proxy.1)?;
        let service_accounts = KeyPair::generate()?;
        write("sa.key", &service_accounts.serialize_pem())?;
        write("sa.pub", &service_accounts.public_key_pem())?;
        let masters = ["system:masters".to_owned()];
        let admin = issue(&issuer, "system:admin", &masters, false)?;
        Ok(Self {
            directory: directory.to_owned(),
            ca,
            issuer: Arc::new(issuer),
            admin,
        })
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the directory, for servers that reload certificates.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the CA in base64, for `caBundle`.
    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca)
    }

    /// Returns a self-contained kubeconfig for the API server at this port. It has all rights.
    pub(crate) fn kubeconfig(&self, port: u16) -> String {
        self.kubeconfig_with(port, &self.admin)
    }

    /// Returns a self-contained kubeconfig for the API server at this port. It has the rights of this user.
    pub(crate) fn user_kubeconfig(&self, port: u16, user: &PlaneUser) -> anyhow::Result<String> {
        let certificate = issue(&self.issuer, &user.name, &user.groups, false)?;
        Ok(self.kubeconfig_with(port, &certificate))
    }

    fn kubeconfig_with(&self, port: u16, (certificate, key): &(String, String)) -> String {
        let user = format!(
            "{{client-certificate-data: {}, client-key-data: {}}}",
            STANDARD.encode(certificate),
            STANDARD.encode(key),
        );
        self.kubeconfig_of(&format!("https://127.0.0.1:{port}"), &user)
    }

    /// Returns a self-contained kubeconfig with these credentials. The CA must have signed the certificate of the
    /// server.
    pub(crate) fn kubeconfig_of(&self, server: &str, user: &str) -> String {
        kubeconfig(&self.ca, server, user)
    }
}

/// Returns a kubeconfig. `ca` has signed the certificate of the server. `user` contains the credentials in YAML.
pub(crate) fn kubeconfig(ca: &str, server: &str, user: &str) -> String {
    let ca = STANDARD.encode(ca);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters: [{{name: plane, cluster: {{server: '{server}', certificate-authority-data: {ca}}}}}]\n\
         users: [{{name: user, user: {user}}}]\n\
         contexts: [{{name: plane, context: {{cluster: plane, user: user}}}}]\n\
         current-context: plane\n"
    )
}

/// Creates a certificate and its key. The name and the groups are those of the user or server.
fn issue(
    issuer: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    groups: &[String],
    server: bool,
) -> anyhow::Result<(String, String)> {
    let names: &[&str] = if server { &SERVER_NAMES } else { &[] };
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    for group in groups {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group.as_str());
    }
    params.extended_key_usages = vec![match server {
        true => ExtendedKeyUsagePurpose::ServerAuth,
        false => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

/// Creates a self-signed CA.
pub(crate) fn authority(name: &str) -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_valid_for_the_address_that_pods_use() {
        assert!(SERVER_NAMES.contains(&crate::node::HOST.to_string().as_str()));
    }
}
