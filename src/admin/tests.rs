//! Readiness of a replica that serves a certificate which callers refuse.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use certs::{Files, Reloader};
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Longest time for any step. It only ends a failing test.
const WITHIN: Duration = Duration::from_secs(20);

/// Writes a certificate for `localhost` that expires in 2027.
fn issue(directory: &Path) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = date_time_ymd(2027, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}

/// A replica that follows a directory.
struct Replica {
    readiness: Readiness,
    state: watch::Receiver<CertificateState>,
    names: watch::Sender<BTreeSet<String>>,
}

impl Replica {
    fn start(directory: &Path, clock: fn() -> Timestamp) -> Self {
        Self::with_files(Files::from(directory), clock)
    }

    fn with_files(files: Files, clock: fn() -> Timestamp) -> Self {
        let directory = files.directory.clone();
        let mut reloader = Reloader::new(files, clock);
        let (names, expected) = watch::channel(BTreeSet::new());
        reloader.expect_names(expected);
        let state = reloader.state();
        tokio::spawn(reloader.run(Duration::from_millis(5), CancellationToken::new()));
        let certificate = ServedCertificate {
            directory,
            state: state.clone(),
            trusted: None,
            was_trusted: OnceLock::new(),
        };
        let readiness = Readiness {
            stopping: CancellationToken::new(),
            caches: Vec::new(),
            projects: None,
            held_by_hub: None,
            held_report: None,
            leadership: Leadership::without_election(),
            certificate: Some(certificate),
            webhook_ports: Vec::new(),
            metrics_certificate: None,
        };
        Self {
            readiness,
            state,
            names,
        }
    }

    /// Sets the names in the registrations, and waits until the reloader has checked the certificate with them.
    async fn register(&mut self, name: &str, fits: bool) {
        self.names.send_replace(BTreeSet::from([name.to_owned()]));
        self.until(|state| state.problem.is_none() == fits).await;
    }

    async fn until(&mut self, expected: impl FnMut(&CertificateState) -> bool) {
        let reached = timeout(WITHIN, self.state.wait_for(expected)).await;
        reached.expect("the state is not reached").unwrap();
    }

    async fn missing(&self) -> String {
        self.readiness.missing().await.join("\n")
    }
}

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

#[tokio::test]
async fn a_replica_whose_certificate_never_had_a_name_of_the_registrations_is_not_ready() {
    let directory = TempDir::new().unwrap();
    issue(directory.path());
    let mut replica = Replica::start(directory.path(), now);
    assert_eq!(replica.missing().await, "");
    replica.register("a.svc", false).await;
    let expected = format!(
        "callers refuse the served certificate of {}: has none of the names at which callers reach the server \
         (a.svc); its names are: localhost",
        directory.path().display()
    );
    assert_eq!(replica.missing().await, expected);

    // A later change of the registrations must not take every replica out of service.
    replica.register("localhost", true).await;
    assert_eq!(replica.missing().await, "");
    replica.register("b.svc", false).await;
    assert_eq!(replica.missing().await, "");
    let expected = "callers refuse the served certificate: has none of the names at which callers reach the server \
                    (b.svc); its names are: localhost\n";
    assert_eq!(replica.readiness.warnings(), [expected]);
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = directory.path();
    let start = format!(
        "no certificate to serve webhooks with in {}",
        path.display()
    );
    let files = |client_authorities: &Path| Files {
        client_authorities: Some(client_authorities.display().to_string()),
        ..Files::from(path)
    };
    let replica = Replica::start(path, now);
    let certificate = path.join("tls.crt");
    let expected = format!("{start}: {}: no such file", certificate.display());
    assert_eq!(replica.missing().await, expected);
    issue(path);
    for authority in [path.join("client-ca.crt"), elsewhere.path().join("ca.crt")] {
        let replica = Replica::with_files(files(&authority), now);
        let expected = format!("{start}: {}: no such file", authority.display());
        assert_eq!(replica.missing().await, expected);
    }
}

#[tokio::test]
async fn a_replica_whose_certificate_has_expired_is_not_ready() {
    static DAYS: AtomicI64 = AtomicI64::new(0);
    let later = || now() + SignedDuration::from_hours(24 * DAYS.load(Ordering::Relaxed));
    let directory = TempDir::new().unwrap();
    issue(directory.path());
    let mut replica = Replica::start(directory.path(), later);
    replica.register("localhost", true).await;
    assert_eq!(replica.missing().await, "");
    // The driver then writes something else, so the problem of the files is another one.
    fs::write(directory.path().join("tls.crt"), "garbage").unwrap();
    replica.until(|state| state.problem.is_some()).await;
    let path = directory.path().display();
    let files = format!("{path}/tls.crt: holds no certificate");
    let warning = format!("the former certificate stays in service: {files}\n");
    assert_eq!(replica.readiness.warnings(), [warning]);
    assert_eq!(replica.missing().await, "");

    DAYS.store(60, Ordering::Relaxed);
    let expected = format!(
        "callers refuse the served certificate of {path}: expired at 2027-01-01T00:00:00Z; the files do not replace \
         it: {files}"
    );
    let reported = async {
        while replica.missing().await != expected {
            tokio::task::yield_now().await;
        }
    };
    let reported = timeout(WITHIN, reported).await;
    reported.expect("the replica with an expired certificate is ready");
    let warnings = format!(
        "callers refuse the served certificate: expired at 2027-01-01T00:00:00Z\n\
         the files do not replace it: {files}\n"
    );
    assert_eq!(replica.readiness.warnings(), [warnings]);
}
