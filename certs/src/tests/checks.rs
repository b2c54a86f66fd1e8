//! Certificates that can be read, but that callers would refuse.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use super::*;

/// An authority that signs certificates for `localhost`.
pub(super) struct TestAuthority(pub(super) CertifiedIssuer<'static, KeyPair>);

impl TestAuthority {
    pub(super) fn new(name: &str) -> Self {
        Self::with_key(name, KeyPair::generate().unwrap(), |_| {})
    }

    pub(super) fn with_key(
        name: &str,
        key: KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        change(&mut params);
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Writes a new generation of files with a certificate of this authority.
    pub(super) fn swap(
        &self,
        volume: &Path,
        generation: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let (certificate, key) = self.sign(change);
        swap(volume, generation, &certificate, &key, Some(&self.0.pem()));
    }

    /// Signs a certificate. Returns it with the certificate of this authority, and the key.
    pub(super) fn sign_with_chain(&self) -> (String, String) {
        let (leaf, key) = self.sign(|_| {});
        (leaf + &self.0.pem(), key)
    }

    pub(super) fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.0).unwrap();
        (leaf.pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn a_certificate_that_callers_would_refuse_leaves_the_former_in_service() {
    let volume = TempDir::new().unwrap();
    let (authority, other) = (TestAuthority::new("one"), TestAuthority::new("two"));
    authority.swap(volume.path(), "..1", |_| {});
    let mut server = start(volume.path()).await;
    let trusted = authority.0.der().clone();
    get(&mut connect(&server, &trusted).await.unwrap()).await;

    authority.swap(volume.path(), "..2", |params| {
        params.not_before = date_time_ymd(2026, 11, 22);
    });
    let problem = failure(&mut server, 1).await;
    assert!(
        problem.ends_with("tls.crt: is not valid before 2026-11-22T00:00:00Z"),
        "{problem}"
    );
    let (certificate, key) = other.sign(|_| {});
    swap(
        volume.path(),
        "..3",
        &certificate,
        &key,
        Some(&authority.0.pem()),
    );
    let problem = failure(&mut server, 2).await;
    assert!(
        problem.contains("tls.crt: no authority in ca.crt signed the certificate: "),
        "{problem}"
    );
    server.names.send_replace(names(&["a.svc", "localhost"]));
    authority.swap(volume.path(), "..4", |params| {
        params.subject_alt_names =
            CertificateParams::new(["b.svc".to_owned(), "10.0.0.1".to_owned()])
                .unwrap()
                .subject_alt_names;
    });
    let problem = failure(&mut server, 3).await;
    assert!(
        problem.ends_with(
            "tls.crt: has none of the names at which callers reach the server (a.svc, localhost); its names are: \
             b.svc, 10.0.0.1"
        ),
        "{problem}"
    );
    // Callers use both names of the served certificate.
    server.names.send_replace(names(&["localhost", "b.svc"]));
    let reported = |state: &crate::CertificateState| {
        let problem = state.problem.as_ref();
        problem.is_some_and(|problem| {
            problem
                .message
                .contains("(localhost); its names are: b.svc")
        })
    };
    let lost = tokio::time::timeout(WITHIN, server.state.wait_for(reported));
    lost.await.expect("no failure").unwrap();
    assert_eq!(server.state.borrow().reloads, 1);
    get(&mut connect(&server, &trusted).await.unwrap()).await;
}

/// Longest time for any step. It only ends a failing test.
const WITHIN: Duration = Duration::from_secs(20);

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The names of the registrations are known only after the first certificate is in service.
#[tokio::test]
async fn a_served_certificate_without_the_names_of_the_registrations_is_reported() {
    let volume = TempDir::new().unwrap();
    let authority = TestAuthority::new("one");
    authority.swap(volume.path(), "..1", |_| {});
    let mut server = start(volume.path()).await;
    server.names.send_replace(names(&["a.svc"]));
    let reported = server.state.wait_for(|state| state.failures == 1).await;
    assert_eq!(
        reported.unwrap().problem.as_ref().unwrap().reason,
        "wrong_names"
    );
    get(&mut connect(&server, authority.0.der()).await.unwrap()).await;
    server.names.send_replace(names(&["localhost"]));
    let state = server.state.wait_for(|state| state.problem.is_none()).await;
    assert_eq!(state.unwrap().reloads, 1);
}

/// Waits until the files have changed to an unusable certificate for the `count`th time. Returns the problem.
async fn failure(server: &mut TestServer, count: u64) -> String {
    let found = async {
        let state = server
            .state
            .wait_for(|state| state.failures == count || state.reloads > 1)
            .await
            .unwrap();
        assert_eq!(state.reloads, 1, "the certificate is in service");
        state.problem.clone().unwrap().message
    };
    tokio::time::timeout(Duration::from_secs(20), found)
        .await
        .expect("no failure")
}

/// The first generation vanishes while the reader waits for the content of its first file, a pipe.
#[test]
fn certificate_key_and_authority_are_of_one_generation() {
    let volume = TempDir::new().unwrap();
    let (authority, other) = (TestAuthority::new("one"), TestAuthority::new("two"));
    for pipe in ["ca.crt", "tls.crt"] {
        let [first, second] = ["..1-", "..2-"].map(|name| format!("{name}{pipe}"));
        authority.swap(volume.path(), &first, |_| {});
        let first = volume.path().join(first);
        let content = fs::read(first.join(pipe)).unwrap();
        fs::remove_file(first.join(pipe)).unwrap();
        let made = Command::new("mkfifo").arg(first.join(pipe)).status();
        assert!(made.unwrap().success());
        let files = Files::from(volume.path());
        let reader = std::thread::spawn(move || files.load(clock()).map(|read| read.authorities));
        // The open waits until the reader has opened the other end.
        let mut writer = fs::OpenOptions::new()
            .write(true)
            .open(first.join(pipe))
            .unwrap();
        other.swap(volume.path(), &second, |_| {});
        fs::remove_dir_all(&first).unwrap();
        writer.write_all(&content).unwrap();
        drop(writer);
        let authorities = reader.join().unwrap().unwrap();
        assert_eq!(authorities, Authorities::from([other.0.der().to_vec()]));
    }
}

#[tokio::test]
async fn a_waiting_certificate_is_checked_again_before_it_is_served() {
    let volume = TempDir::new().unwrap();
    let (first, second) = (TestAuthority::new("one"), TestAuthority::new("two"));
    let authorities = |of: &[&TestAuthority]| -> Authorities {
        of.iter().map(|of| of.0.der().to_vec()).collect()
    };
    first.swap(volume.path(), "..1", |_| {});
    let mut reloader = Reloader::new(Files::from(volume.path()), clock);
    let (trust, trusted) = tokio::sync::watch::channel(authorities(&[&first]));
    reloader.wait_for_trust(trusted);
    let (expected, expects) = tokio::sync::watch::channel(BTreeSet::new());
    reloader.expect_names(expects);
    let mut state = reloader.state();
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));

    // While the names are unknown, the certificate is accepted. It waits for trust.
    second.swap(volume.path(), "..2", |_| {});
    let mounted = authorities(&[&second]);
    state
        .wait_for(|state| state.mounted == mounted)
        .await
        .unwrap();
    // The second name is reported in the turn in which the reloader has seen the trust.
    for name in ["a.svc", "b.svc"] {
        expected.send_replace(names(&[name]));
        let is_of_name = |state: &crate::CertificateState| {
            let problem = state.problem.as_ref();
            problem.is_some_and(|problem| problem.message.contains(name))
        };
        state.wait_for(is_of_name).await.unwrap();
        trust.send_replace(authorities(&[&first, &second]));
    }
    assert_eq!(state.borrow().served, authorities(&[&first]));
    expected.send_replace(names(&["localhost"]));
    state
        .wait_for(|state| state.served == mounted)
        .await
        .unwrap();
    stop.cancel();
}
