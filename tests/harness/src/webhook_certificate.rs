//! The certificate of the webhook server. Its directory has the layout of a Secret volume. Its own CA signs it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};

use crate::pki;

/// The files of a Secret of type `kubernetes.io/tls` that cert-manager has written.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// The host names and addresses of the webhook server.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A certificate and its CA. Both can be renewed while the webhook server runs.
pub struct WebhookCertificate {
    directory: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
    leaf: Vec<u8>,
    generations: u32,
}

impl WebhookCertificate {
    /// Creates the directory and writes the first certificate.
    pub(crate) fn create(directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let mut certificate = Self {
            directory: directory.to_owned(),
            authority: pki::authority("webhook-ca")?,
            leaf: Vec::new(),
            generations: 0,
        };
        certificate.renew()?;
        for file in FILES {
            symlink(Path::new("..data").join(file), directory.join(file))?;
        }
        Ok(certificate)
    }

    /// Returns the directory of the certificate files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the certificate of the CA, in DER.
    pub fn authority(&self) -> Vec<u8> {
        self.authority.der().to_vec()
    }

    /// Returns the leaf certificate that was written last, in DER.
    pub fn leaf(&self) -> &[u8] {
        &self.leaf
    }

    /// Returns the CA in base64, for `caBundle`.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(self.authority.pem())
    }

    /// Writes a new leaf certificate with a new key. The same CA signs it.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        let names = NAMES.map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "webhook");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &self.authority)?;
        self.leaf = leaf.der().to_vec();
        let contents = [self.authority.pem(), leaf.pem(), key.serialize_pem()];
        self.swap(&contents)
    }

    /// Writes a new CA with the same name, and a leaf certificate that the new CA signs.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn renew_authority(&mut self) -> anyhow::Result<()> {
        self.authority = pki::authority("webhook-ca")?;
        self.renew()
    }

    /// Writes invalid certificate files.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn spoil(&mut self) -> anyhow::Result<()> {
        self.swap(&[(); 3].map(|()| "no certificate".to_owned()))
    }

    /// Writes a new version of the files and points `..data` to it, as a kubelet does.
    fn swap(&mut self, contents: &[String; 3]) -> anyhow::Result<()> {
        let link = self.directory.join("..data");
        let former = match fs::read_link(&link) {
            Ok(former) => Some(self.directory.join(former)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).context("..data"),
        };
        self.generations += 1;
        let generation = format!("..{}", self.generations);
        let directory = self.directory.join(&generation);
        fs::create_dir(&directory)?;
        for (file, content) in FILES.iter().zip(contents) {
            fs::write(directory.join(file), content)?;
        }
        let new_link = self.directory.join("..data_tmp");
        symlink(&generation, &new_link)?;
        fs::rename(&new_link, &link)?;
        former.map_or(Ok(()), |former| Ok(fs::remove_dir_all(former)?))
    }
}
