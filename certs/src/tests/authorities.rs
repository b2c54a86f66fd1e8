//! Certificates whose authorities are missing, unreadable, or not valid at the present time.

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use super::*;
use crate::{CertificateState, Clock};

/// A directory that is followed until this value is dropped.
struct Followed {
    state: watch::Receiver<CertificateState>,
    trust: watch::Sender<Authorities>,
    _stop: DropGuard,
}

impl Followed {
    /// Follows the directory. Callers trust these authorities.
    fn start(volume: &Path, clock: Clock, trusted: &[&TestAuthority]) -> Self {
        let mut reloader = Reloader::new(Files::from(volume), clock);
        let (trust, is_trusted) = watch::channel(authorities(trusted));
        reloader.wait_for_trust(is_trusted);
        let state = reloader.state();
        let stop = CancellationToken::new();
        tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));
        Self {
            state,
            trust,
            _stop: stop.drop_guard(),
        }
    }

    async fn until(&self, expected: impl FnMut(&CertificateState) -> bool) -> CertificateState {
        let mut state = self.state.clone();
        let reached = state.wait_for(expected);
        let Ok(reached) = tokio::time::timeout(Duration::from_secs(20), reached).await else {
            panic!("not reached: {:?}", self.state.borrow().problem);
        };
        reached.unwrap().clone()
    }

    /// Waits until a file was refused for the `count`th time. Returns the problem.
    async fn failure(&self, count: u64) -> String {
        let state = self
            .until(|state| state.failures == count || state.reloads > 1)
            .await;
        assert_eq!(state.reloads, 1, "the certificate is in service");
        state.problem.unwrap().message
    }
}

fn authorities(of: &[&TestAuthority]) -> Authorities {
    of.iter().map(|of| of.0.der().to_vec()).collect()
}

#[tokio::test]
async fn a_certificate_without_the_authorities_of_the_former_is_not_served() {
    let volume = TempDir::new().unwrap();
    let (first, second) = (TestAuthority::new("one"), TestAuthority::new("two"));
    first.swap(volume.path(), "..1", |_| {});
    let followed = Followed::start(volume.path(), clock, &[&first]);
    let (certificate, key) = second.sign(|_| {});
    let absent = "is missing or empty, but the former certificate came with authorities";
    let cases = [
        (None, absent),
        (Some("garbage"), "holds no certificate"),
        (Some(""), absent),
        (Some("-----BEGIN CERTIFICATE-----\nMIIB"), "is not PEM"),
        (Some("\n"), absent),
    ];
    for ((content, expected), count) in cases.into_iter().zip(1..) {
        let generation = format!("..2-{count}");
        swap(volume.path(), &generation, &certificate, &key, content);
        let problem = followed.failure(count).await;
        assert!(
            problem.contains(&format!("ca.crt: {expected}")),
            "{problem}"
        );
    }

    // With its authorities, the certificate waits for trust as usual.
    let authority = second.0.pem();
    swap(volume.path(), "..3", &certificate, &key, Some(&authority));
    let mounted = authorities(&[&second]);
    let state = followed.until(|state| state.mounted == mounted).await;
    assert_eq!((state.reloads, state.problem), (1, None));
    followed.trust.send_replace(authorities(&[&first, &second]));
    followed.until(|state| state.served == mounted).await;
}

#[tokio::test]
async fn a_certificate_without_authorities_is_served_before_the_former_expires() {
    static NOW: AtomicI64 = AtomicI64::new(0);
    let later = || clock() + SignedDuration::from_secs(NOW.load(Ordering::Relaxed));
    let volume = TempDir::new().unwrap();
    let authority = TestAuthority::new("one");
    authority.swap(volume.path(), "..1", |params| {
        params.not_after = date_time_ymd(2026, 11, 22);
    });
    let followed = Followed::start(volume.path(), later, &[&authority]);
    let (certificate, key) = authority.sign(|_| {});
    swap(volume.path(), "..2", &certificate, &key, None);
    followed.failure(1).await;
    NOW.store(14 * 3600 - 60, Ordering::Relaxed);
    let state = followed.until(|state| state.reloads == 2).await;
    assert_eq!(state.served, Authorities::new());
}

/// The CSI driver of cert-manager writes an empty `ca.crt` if the issuer gives no authority.
#[tokio::test]
async fn an_issuer_need_not_give_authorities() {
    let volume = TempDir::new().unwrap();
    let authority = TestAuthority::new("one");
    let renew = |generation: &str, content: Option<&str>| {
        let (certificate, key) = authority.sign(|_| {});
        swap(volume.path(), generation, &certificate, &key, content);
    };
    renew("..1", Some(""));
    let followed = Followed::start(volume.path(), clock, &[]);
    for ((content, generation), count) in [(None, "..2"), (Some(""), "..3")].into_iter().zip(2..) {
        renew(generation, content);
        let state = followed.until(|state| state.reloads == count).await;
        assert_eq!((state.failures, state.problem), (0, None));
    }
}

fn authority(name: &str, change: impl FnOnce(&mut CertificateParams)) -> TestAuthority {
    TestAuthority::with_key(name, KeyPair::generate().unwrap(), change)
}

/// Go's TLS clients check the validity period of the authority too.
#[tokio::test]
async fn a_certificate_of_an_authority_outside_its_period_is_not_served() {
    let volume = TempDir::new().unwrap();
    let former = TestAuthority::new("one");
    former.swap(volume.path(), "..1", |_| {});
    let expired = authority("two", |params| {
        params.not_after = date_time_ymd(2026, 11, 20);
    });
    let early = authority("three", |params| {
        params.not_before = date_time_ymd(2026, 11, 22);
    });
    let followed = Followed::start(volume.path(), clock, &[&former, &expired, &early]);
    let both = former.0.pem() + &expired.0.pem();
    for (authority, content, period, count) in [
        (&expired, expired.0.pem(), "until 2026-11-20T00:00:00Z", 1),
        (&early, early.0.pem(), "from 2026-11-22T00:00:00Z", 2),
        (&expired, both, "until 2026-11-20T00:00:00Z", 3),
    ] {
        let (certificate, key) = authority.sign(|_| {});
        let generation = format!("..2-{count}");
        swap(
            volume.path(),
            &generation,
            &certificate,
            &key,
            Some(&content),
        );
        let problem = followed.failure(count).await;
        let expected =
            "tls.crt: the authority in ca.crt that signed the certificate is valid only ";
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains(period), "{problem}");
    }
}

/// The renewed authority has the name and the key of the expired one, so it signed the same certificates.
#[tokio::test]
async fn a_renewed_authority_can_stand_beside_the_expired_one() {
    let volume = TempDir::new().unwrap();
    let key = KeyPair::generate().unwrap().serialize_pem();
    let key = || KeyPair::from_pem(&key).unwrap();
    let expired = TestAuthority::with_key("one", key(), |params| {
        params.not_after = date_time_ymd(2026, 11, 20);
    });
    let renewed = TestAuthority::with_key("one", key(), |_| {});
    let (certificate, leaf_key) = expired.sign(|_| {});
    for (count, authorities) in [[&expired, &renewed], [&renewed, &expired]]
        .iter()
        .enumerate()
    {
        let content: String = authorities.iter().map(|of| of.0.pem()).collect();
        let generation = format!("..{count}");
        swap(
            volume.path(),
            &generation,
            &certificate,
            &leaf_key,
            Some(&content),
        );
        Files::from(volume.path()).load(clock()).unwrap();
    }
}

#[tokio::test]
async fn an_authority_that_expires_in_service_is_reported_and_its_successor_waits_no_longer() {
    const END: i64 = 14 * 3600;
    static NOW: AtomicI64 = AtomicI64::new(0);
    let later = || clock() + SignedDuration::from_secs(NOW.load(Ordering::Relaxed));
    let volume = TempDir::new().unwrap();
    let first = authority("one", |params| {
        params.not_before = date_time_ymd(2026, 11, 1);
        params.not_after = date_time_ymd(2026, 11, 22);
    });
    let second = TestAuthority::new("two");
    first.swap(volume.path(), "..1", |_| {});
    let followed = Followed::start(volume.path(), later, &[&first]);
    let state = followed.until(|state| state.reloads == 1).await;
    assert_eq!(
        state.not_after,
        Some(clock() + SignedDuration::from_secs(END))
    );
    assert_eq!(
        state.not_before.unwrap().to_string(),
        "2026-11-01T00:00:00Z"
    );
    NOW.store(END, Ordering::Relaxed);
    let problem = followed.failure(1).await;
    assert!(problem.contains("until 2026-11-22T00:00:00Z"), "{problem}");

    NOW.store(0, Ordering::Relaxed);
    followed.until(|state| state.problem.is_none()).await;
    second.swap(volume.path(), "..2", |_| {});
    let mounted = authorities(&[&second]);
    let state = followed.until(|state| state.mounted == mounted).await;
    assert_eq!(state.reloads, 1);
    // No caller accepts a certificate of an expired authority. The successor therefore waits at most until then.
    NOW.store(END - 60, Ordering::Relaxed);
    followed.until(|state| state.reloads == 2).await;
}

/// A certificate of an authority, signed by another authority until this day of November 2026.
fn with_intermediate(root: &TestAuthority, last_day: u8) -> (String, String) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "intermediate");
    params.not_after = date_time_ymd(2026, 11, last_day);
    let key = KeyPair::generate().unwrap();
    let issuer = rcgen::CertifiedIssuer::signed_by(params, key, &root.0).unwrap();
    TestAuthority(issuer).sign_with_chain()
}

/// The TLS library puts the time of the check into its error. A problem that changed each time would be logged each
/// time.
#[test]
fn an_expired_intermediate_is_the_same_problem_at_any_time() {
    let volume = TempDir::new().unwrap();
    let root = TestAuthority::new("root");
    let (chain, key) = with_intermediate(&root, 20);
    swap(volume.path(), "..1", &chain, &key, Some(&root.0.pem()));
    let problem = |now| {
        let loaded = Files::from(volume.path()).load(now);
        loaded.unwrap_err().to_string()
    };
    let found = problem(clock());
    assert!(found.contains("no authority in ca.crt signed"), "{found}");
    assert_eq!(problem(clock() + SignedDuration::from_secs(1)), found);
}

#[tokio::test]
async fn an_intermediate_that_expires_in_service_is_reported_once() {
    static NOW: AtomicI64 = AtomicI64::new(0);
    let later = || clock() + SignedDuration::from_secs(NOW.load(Ordering::Relaxed));
    let volume = TempDir::new().unwrap();
    let root = TestAuthority::new("root");
    let (chain, key) = with_intermediate(&root, 22);
    swap(volume.path(), "..1", &chain, &key, Some(&root.0.pem()));
    let followed = Followed::start(volume.path(), later, &[&root]);
    followed.until(|state| state.reloads == 1).await;
    NOW.store(14 * 3600 + 1, Ordering::Relaxed);
    followed.failure(1).await;
}

/// RFC 5280, 4.1.2.5: a certificate without expiry expires in the last second of the year 9999.
#[test]
fn a_certificate_without_expiry_is_served() {
    let volume = TempDir::new().unwrap();
    TestAuthority::new("one").swap(volume.path(), "..1", |params| {
        params.not_after = date_time_ymd(9999, 12, 31);
    });
    Files::from(volume.path()).load(clock()).unwrap();
}
