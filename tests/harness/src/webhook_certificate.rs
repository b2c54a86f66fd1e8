//! The certificate of a webhook server. Its directory has the layout of a Secret volume. Its own CA signs it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    CertificateParams, CertifiedIssuer, CertifiedKey, DnType, ExtendedKeyUsagePurpose, KeyPair,
};

use crate::pki;

/// The files of a Secret of type `kubernetes.io/tls` that cert-manager has written.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// The Service of an interpreter that runs apart (docs/operate/deploy.md), and its namespace.
pub(crate) const INTERPRETER: (&str, &str) = ("compute-interpreter", "compute-system");
/// The host names and addresses of the webhook server of the management process.
pub(crate) const OF_MANAGEMENT: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "compute-interpreter.compute-system.svc",
];
/// The host names and addresses of the interpreter of a cell.
pub(crate) const OF_CELL: &[&str] = &["127.0.0.2", "compute-interpreter.compute-system.svc"];

/// Name of the CA.
const AUTHORITY: &str = "webhook-ca";

/// A certificate and its CA. Both can be renewed while the webhook server runs.
pub struct WebhookCertificate {
    directory: PathBuf,
    names: &'static [&'static str],
    authority: CertifiedIssuer<'static, KeyPair>,
    /// The CA after the next change.
    next: Option<CertifiedIssuer<'static, KeyPair>>,
    /// More CAs in `ca.crt`, in PEM. They sign the certificates of other servers of the same registration.
    others: Vec<String>,
    leaf: CertifiedKey<KeyPair>,
    generations: u32,
}

impl WebhookCertificate {
    /// Creates the directory and writes the first certificate, for these host names and addresses.
    pub(crate) fn create(directory: &Path, names: &'static [&'static str]) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let authority = pki::authority(AUTHORITY)?;
        let mut certificate = Self {
            directory: directory.to_owned(),
            names,
            leaf: leaf(&authority, names)?,
            authority,
            next: None,
            others: Vec::new(),
            generations: 0,
        };
        certificate.write()?;
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

    /// Returns the certificate of the CA, in PEM.
    pub fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// Returns the leaf certificate that was written last, in DER.
    pub fn leaf(&self) -> &[u8] {
        self.leaf.cert.der()
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
        self.leaf = leaf(&self.authority, self.names)?;
        self.write()
    }

    /// Writes a new CA with the same name, and a leaf certificate that the new CA signs.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn renew_authority(&mut self) -> anyhow::Result<()> {
        self.authority = match self.next.take() {
            Some(next) => next,
            None => pki::authority(AUTHORITY)?,
        };
        self.renew()
    }

    /// Creates the CA that [`renew_authority`](Self::renew_authority) uses next. Returns it in PEM.
    ///
    /// # Errors
    ///
    /// When the key cannot be made.
    pub fn prepare_authority(&mut self) -> anyhow::Result<String> {
        let next = pki::authority(AUTHORITY)?;
        Ok(self.next.insert(next).pem())
    }

    /// Adds CAs in PEM to `ca.crt`, in place of those that were added before. The leaf certificate stays.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn join_authorities(&mut self, others: Vec<String>) -> anyhow::Result<()> {
        self.others = others;
        self.write()
    }

    /// Writes invalid certificate files.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn spoil(&mut self) -> anyhow::Result<()> {
        self.swap(&[(); 3].map(|()| "no certificate".to_owned()))
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let authorities = [self.authority.pem()]
            .into_iter()
            .chain(self.others.clone());
        let contents = [
            authorities.collect::<String>(),
            self.leaf.cert.pem(),
            self.leaf.signing_key.serialize_pem(),
        ];
        self.swap(&contents)
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

/// Creates a leaf certificate and its key.
fn leaf(
    authority: &CertifiedIssuer<'_, KeyPair>,
    names: &[&str],
) -> anyhow::Result<CertifiedKey<KeyPair>> {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "webhook");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let signing_key = KeyPair::generate()?;
    let cert = params.signed_by(&signing_key, authority)?;
    Ok(CertifiedKey { cert, signing_key })
}
