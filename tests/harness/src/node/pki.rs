//! The certificates and kubeconfigs of a node's cluster. One CA signs all of them.

use std::fs;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};

use super::slot::Slot;
use crate::pki::{authority, kubeconfig};

/// The clients: file name, common name and organization.
const CLIENTS: [(&str, &str, Option<&str>); 5] = [
    ("admin", "admin", Some("system:masters")),
    (
        "apiserver-kubelet",
        "kube-apiserver",
        Some("system:masters"),
    ),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
];
/// The client certificate with which the API server calls aggregated API servers.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// Certificates and keys. They are files in one directory.
pub(crate) struct NodePki<'a> {
    directory: &'a Path,
    issuer: CertifiedIssuer<'static, KeyPair>,
    server: String,
}

impl<'a> NodePki<'a> {
    /// Creates all keys, certificates and kubeconfigs of a cluster. `directory` exists.
    pub(crate) fn create(directory: &'a Path, name: &str, slot: Slot) -> anyhow::Result<()> {
        let pki = Self {
            directory,
            issuer: authority(&format!("{name}-ca"))?,
            server: slot.url(),
        };
        pki.write("ca.crt", &pki.issuer.pem())?;
        pki.write("ca.key", &pki.issuer.key().serialize_pem())?;
        let node = slot.address().to_string();
        let apiserver = [
            "localhost",
            "127.0.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            &slot.kubernetes_service().to_string(),
            &node,
        ];
        pki.issue("server", "kube-apiserver", None, &apiserver)?;
        pki.issue("kubelet-server", name, None, &[name, &node])?;
        for (file, user, organization) in CLIENTS {
            pki.issue_client(file, user, organization)?;
        }
        pki.issue_client(
            "kubelet",
            &format!("system:node:{name}"),
            Some("system:nodes"),
        )?;
        pki.issue_client("front-proxy", FRONT_PROXY, None)?;
        let service_accounts = KeyPair::generate()?;
        pki.write("sa.key", &service_accounts.serialize_pem())?;
        pki.write("sa.pub", &service_accounts.public_key_pem())
    }

    fn issue_client(
        &self,
        file: &str,
        user: &str,
        organization: Option<&str>,
    ) -> anyhow::Result<()> {
        let (certificate, key) = self.issue(file, user, organization, &[])?;
        let credentials = format!(
            "{{client-certificate-data: {}, client-key-data: {}}}",
            STANDARD.encode(certificate),
            STANDARD.encode(key)
        );
        let text = kubeconfig(&self.issuer.pem(), &self.server, &credentials);
        self.write(&format!("{file}.kubeconfig"), &text)
    }

    /// Issues a server certificate for these names, or a client certificate if there are none. Returns the certificate
    /// and its key.
    fn issue(
        &self,
        file: &str,
        user: &str,
        organization: Option<&str>,
        names: &[&str],
    ) -> anyhow::Result<(String, String)> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let usage = match names.is_empty() {
            true => ExtendedKeyUsagePurpose::ClientAuth,
            false => ExtendedKeyUsagePurpose::ServerAuth,
        };
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(organization) = organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let (certificate, key) = (
            params.signed_by(&key, &self.issuer)?.pem(),
            key.serialize_pem(),
        );
        self.write(&format!("{file}.crt"), &certificate)?;
        self.write(&format!("{file}.key"), &key)?;
        Ok((certificate, key))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}
