//! The files that the CSI driver of cert-manager writes, and the way in which it replaces them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use rcgen::{DistinguishedName, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use super::*;
use crate::CertificateState;

/// The user of the process in its deployment.
const NOBODY: u32 = 65532;

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

/// Follows the directory as a user who is not root, because root may read every file. Stops when the guard is dropped.
fn follow(directory: &Path) -> (watch::Receiver<CertificateState>, DropGuard) {
    let files = Files::from(directory);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        if geteuid().is_root() {
            let uid = Uid::from_raw(NOBODY);
            set_thread_res_uid(uid, uid, uid).unwrap();
        }
        let reloader = Reloader::new(files, clock);
        sender.send(reloader.state()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let poll = Duration::from_millis(5);
        runtime.unwrap().block_on(reloader.run(poll, stopped));
    });
    (receiver.recv().unwrap(), stop.drop_guard())
}

/// The driver replaces the link `..data`, and then gives each file of the new generation to the group of the process,
/// in any order. Meanwhile, the process cannot read some of the files.
#[tokio::test]
async fn a_renewal_whose_permissions_come_late_is_logged_at_most_once() {
    let volume = TempDir::new().unwrap();
    set_mode(volume.path(), 0o755);
    let authority = TestAuthority::new("one");
    authority.swap(volume.path(), "..1", |_| {});
    let (mut state, _stop) = follow(volume.path());
    assert_eq!(state.borrow().reloads, 1);

    // The link is replaced when the files of the new generation have no permissions.
    let (certificate, key) = authority.sign(|_| {});
    let new = volume.path().join("..2");
    fs::create_dir(&new).unwrap();
    write(&new, &certificate, &key);
    fs::write(new.join("ca.crt"), authority.0.pem()).unwrap();
    let files = ["ca.crt", "tls.crt", "tls.key"];
    for file in files {
        set_mode(&new.join(file), 0);
    }
    symlink("..2", volume.path().join("..data_tmp")).unwrap();
    fs::rename(
        volume.path().join("..data_tmp"),
        volume.path().join("..data"),
    )
    .unwrap();
    fs::remove_dir_all(volume.path().join("..1")).unwrap();
    for file in files {
        let refused = format!("{}: Permission denied", volume.path().join(file).display());
        let is_refused = |state: &CertificateState| {
            let problem = state.problem.as_ref();
            problem.is_some_and(|problem| problem.message.starts_with(&refused))
        };
        let seen = within(state.wait_for(is_refused)).await.unwrap().clone();
        assert_eq!((seen.reloads, seen.failures), (1, 1), "{file}");
        set_mode(&new.join(file), 0o444);
    }
    let renewed = within(state.wait_for(|state| state.problem.is_none())).await;
    let renewed = renewed.unwrap().clone();
    assert_eq!((renewed.reloads, renewed.failures), (2, 1));
}

async fn within<F: Future>(future: F) -> F::Output {
    let limited = tokio::time::timeout(Duration::from_secs(20), future);
    limited.await.expect("not reached")
}

#[tokio::test]
async fn another_problem_after_late_permissions_is_logged() {
    let volume = TempDir::new().unwrap();
    set_mode(volume.path(), 0o755);
    let (certificate, key, _) = issue();
    write(volume.path(), &certificate, &key);
    set_mode(&volume.path().join("tls.crt"), 0o444);
    set_mode(&volume.path().join("tls.key"), 0);
    let (mut state, _stop) = follow(volume.path());
    assert_eq!(
        state.borrow().problem.as_ref().unwrap().reason,
        "unreadable"
    );
    assert_eq!(state.borrow().failures, 1);
    let (_, other, _) = issue();
    fs::write(volume.path().join("tls.key"), &other).unwrap();
    set_mode(&volume.path().join("tls.key"), 0o444);
    let broken = within(state.wait_for(|state| state.failures == 2)).await;
    assert_eq!(broken.unwrap().problem.as_ref().unwrap().reason, "mismatch");
}

/// The driver encodes RSA keys as PKCS#1. Its certificates have an empty subject, subject alternative names that are
/// critical, and no extended key usage.
#[tokio::test]
async fn the_certificate_and_the_key_of_the_driver_are_served() {
    let directory = TempDir::new().unwrap();
    let authority = TestAuthority::new("one");
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    let certificate = params.signed_by(&key, &authority.0).unwrap();
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate.der()).unwrap();
    assert_eq!(parsed.subject().to_string(), "");
    assert!(parsed.subject_alternative_name().unwrap().unwrap().critical);
    assert!(parsed.extended_key_usage().unwrap().is_none());

    // RFC 5958: a sequence of the version, the algorithm, and the key as an octet string. They and their lengths take
    // 26 bytes before the key.
    let der = key.serialize_der();
    let key = pem::encode(&pem::Pem::new("RSA PRIVATE KEY", &der[26..]));
    let decoded = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    assert!(matches!(decoded, PrivateKeyDer::Pkcs1(_)));
    write(directory.path(), &certificate.pem(), &key);
    fs::write(directory.path().join("ca.crt"), authority.0.pem()).unwrap();
    let server = start(directory.path()).await;
    get(&mut connect(&server, authority.0.der()).await.unwrap()).await;
}
