//! Reading and checking certificate files.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::subscriber::with_default;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

use super::*;

fn problem(directory: &Path) -> String {
    Files::from(directory)
        .load(clock())
        .unwrap_err()
        .to_string()
}

#[test]
fn every_error_names_the_file() {
    let directory = TempDir::new().unwrap();
    let path = |file: &str| directory.path().join(file).display().to_string();
    assert_eq!(
        problem(directory.path()),
        format!("{}: no such file", path("tls.crt"))
    );

    let (certificate, key, _) = issue();
    let (_, other_key, _) = issue();
    write(directory.path(), &certificate, "no key");
    assert!(
        problem(directory.path())
            .starts_with(&format!("{}: holds no private key", path("tls.key")))
    );
    write(directory.path(), "", &key);
    assert_eq!(
        problem(directory.path()),
        format!("{}: holds no certificate", path("tls.crt"))
    );
    write(directory.path(), &certificate, &other_key);
    assert!(
        problem(directory.path())
            .starts_with(&format!("{}: cannot be used with tls.crt", path("tls.key")))
    );
    fs::remove_file(directory.path().join("tls.key")).unwrap();
    fs::create_dir(directory.path().join("tls.key")).unwrap();
    assert!(problem(directory.path()).starts_with(&format!("{}: ", path("tls.key"))));
}

#[test]
fn an_expired_certificate_is_not_served() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, _) = issue();
    write(directory.path(), &certificate, &key);
    let files = Files::from(directory.path());
    let expiry = files.load(clock()).unwrap().not_after();
    let error = files.load(expiry).unwrap_err();
    assert!(matches!(error, CertificateError::Invalid { .. }), "{error}");
    assert!(error.to_string().ends_with(&format!("expired at {expiry}")));
}

#[test]
fn self_signed_certificates_last_a_year() {
    let certificates = Certificates::self_signed(&["localhost".to_owned()], clock()).unwrap();
    assert_eq!(certificates.not_after().to_string(), "2027-11-21T00:00:00Z");
}

#[tokio::test]
async fn at_the_start_missing_and_broken_files_are_waited_for() {
    let directory = TempDir::new().unwrap();
    let reloader = Reloader::new(Files::from(directory.path()), clock);
    let state = reloader.state().borrow().clone();
    assert_eq!((state.not_after, state.failures), (None, 0));
    assert_eq!(state.problem.unwrap().reason, "missing");
    write(directory.path(), "garbage", "garbage");
    let reloader = Reloader::new(Files::from(directory.path()), clock);
    let state = reloader.state().borrow().clone();
    assert_eq!((state.not_after, state.failures), (None, 1));
    assert_eq!(state.problem.unwrap().reason, "broken");

    let mut server = start(directory.path()).await;
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    server
        .state
        .wait_for(|state| state.problem.is_none())
        .await
        .unwrap();
    get(&mut connect(&server, &der).await.unwrap()).await;
}

/// Returns files that have a substitute.
fn reloader_with_substitute(directory: &Path) -> Reloader {
    let substitute = Certificates::self_signed(&["localhost".to_owned()], clock()).unwrap();
    Reloader::with_substitute(Files::from(directory), clock, substitute)
}

/// Returns the state of files that have a substitute. The log must have a warning if there is a problem, and none else.
fn with_substitute(directory: &Path) -> crate::CertificateState {
    let warnings = Warnings::default();
    // If this were the only subscriber, a thread of another test that is the first to reach the warning would disable it.
    let _other = Dispatch::new(warnings.clone());
    let reloader = with_default(warnings.clone(), || reloader_with_substitute(directory));
    let state = reloader.state().borrow().clone();
    let logged = warnings.0.load(Ordering::Relaxed);
    assert_eq!(logged, usize::from(state.problem.is_some()), "{state:?}");
    state
}

/// Counts the warnings in the log.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn the_substitute_hides_only_that_there_are_no_files() {
    let directory = TempDir::new().unwrap();
    let volume = directory.path();
    assert_eq!(with_substitute(&volume.join("absent")).problem, None);
    assert_eq!(with_substitute(volume).problem, None);
    // The volume of an optional Secret that does not exist.
    fs::create_dir(volume.join("..1")).unwrap();
    symlink("..1", volume.join("..data")).unwrap();
    assert_eq!(with_substitute(volume).problem, None);

    let (certificate, ..) = issue();
    for file in ["ca.crt", "tls.crt"] {
        fs::write(volume.join("..1").join(file), &certificate).unwrap();
        symlink(Path::new("..data").join(file), volume.join(file)).unwrap();
        let state = with_substitute(volume);
        assert!(state.not_after.is_some(), "the substitute is not served");
        let problem = state.problem.unwrap();
        let missing = if file == "ca.crt" {
            "tls.crt"
        } else {
            "tls.key"
        };
        let expected = format!("{}: no such file", volume.join(missing).display());
        assert_eq!((problem.reason, problem.message), ("missing", expected));
    }
}

#[tokio::test]
async fn files_that_vanish_are_reported_although_there_was_a_substitute() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, _) = issue();
    write(directory.path(), &certificate, &key);
    let reloader = reloader_with_substitute(directory.path());
    let mut state = reloader.state();
    let not_after = state.borrow().not_after;
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));
    for file in ["tls.crt", "tls.key"] {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
    let vanished = state.wait_for(|state| state.problem.is_some());
    let vanished = tokio::time::timeout(Duration::from_secs(20), vanished).await;
    let vanished = vanished.expect("no problem").unwrap().clone();
    assert_eq!(vanished.problem.unwrap().reason, "missing");
    assert_eq!((vanished.not_after, vanished.reloads), (not_after, 1));
    stop.cancel();
}

/// The volume of a CSI driver cannot have the authorities of clients.
#[test]
fn the_authorities_of_clients_can_be_in_another_directory() {
    let [directory, other] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let (certificate, key, _) = issue();
    write(directory.path(), &certificate, &key);
    let path = other.path().join("clients.crt").display().to_string();
    let files = Files {
        client_authorities: Some(path.clone()),
        ..Files::from(directory.path())
    };
    let error = files.load(clock()).unwrap_err().to_string();
    assert_eq!(error, format!("{path}: no such file"));
    fs::write(&path, &certificate).unwrap();
    files.load(clock()).unwrap();
}
