//! Follows a directory of certificate files while connections are served.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::load::{Authorities, CertificateError, Certificates, Files, Pem};
use crate::serve::Acceptor;

/// If the served certificate expires within this time (1 min), a new certificate replaces it even if callers do not
/// trust the new certificate yet.
const LAST_MOMENT: SignedDuration = SignedDuration::from_mins(1);

/// Polls the files. When they change, replaces the configuration for new connections.
///
/// Polling detects every kind of change: files that are replaced one by one, and a replacement of the `..data` link.
/// After a replacement of the link, a watch on the files would get no further events.
pub struct Reloader {
    files: Files,
    clock: Clock,
    seen: Option<Pem>,
    /// The authorities that callers trust; `None` if they are unknown.
    trusted: Option<watch::Receiver<Authorities>>,
    /// A valid certificate that is not in service, because callers do not trust its authorities yet.
    waiting: Option<Certificates>,
    config: Arc<ArcSwapOption<ServerConfig>>,
    state: watch::Sender<CertificateState>,
}

/// The state of the served certificate and of the files. Readiness, metrics and the caBundle controller read this
/// state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateState {
    /// The expiry time of the served leaf certificate; `None` while no certificate is served.
    pub not_after: Option<Timestamp>,
    /// The authorities of the served certificate.
    pub served: Authorities,
    /// The authorities of the certificate in the files. If they differ from `served`, they will be served next.
    pub mounted: Authorities,
    /// Number of certificates that were put into service.
    pub reloads: u64,
    /// The time at which a certificate was last put into service.
    pub reloaded: Option<Timestamp>,
    /// Number of times that the files changed to an unusable certificate.
    pub failures: u64,
    /// The reason why the files cannot be served now; `None` if they can be served.
    pub problem: Option<String>,
}

impl Reloader {
    /// Reads the files for the first time. A missing file is not an error, because [`Reloader::run`] waits for it.
    ///
    /// # Errors
    ///
    /// [`CertificateError`] for files that exist but cannot be read or served.
    pub fn new(files: Files, clock: Clock) -> Result<Self, CertificateError> {
        let mut reloader = Self {
            files,
            clock,
            seen: None,
            trusted: None,
            waiting: None,
            config: Arc::new(ArcSwapOption::empty()),
            state: watch::Sender::new(CertificateState::default()),
        };
        match reloader.poll() {
            Ok(()) => {}
            Err(error @ CertificateError::Missing(_)) => {
                warn!(%error, "waiting for the certificate");
                let problem = Some(error.to_string());
                reloader.state.send_modify(|state| state.problem = problem);
            }
            Err(error) => return Err(error),
        }
        Ok(reloader)
    }

    /// Serves these certificates until the files exist.
    pub fn serve_meanwhile(&mut self, certificates: Certificates) {
        if self.config.load().is_none() {
            self.put_into_service(certificates);
        }
    }

    /// After this call, a certificate is put into service only when callers trust its authorities.
    pub fn wait_for_trust(&mut self, trusted: watch::Receiver<Authorities>) {
        self.trusted = Some(trusted);
    }

    /// Returns the acceptor of the server. The acceptor always uses the certificate in service.
    pub fn acceptor(&self) -> Acceptor {
        Acceptor::Tls(Arc::clone(&self.config))
    }

    /// Returns a receiver of the state.
    pub fn state(&self) -> watch::Receiver<CertificateState> {
        self.state.subscribe()
    }

    /// Polls until `stop`. If the files cannot be served, the previous certificate stays in service. The problem is
    /// logged once.
    pub async fn run(mut self, every: Duration, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(every);
        let mut trusted = self.trusted.clone();
        loop {
            let trust = async {
                let changed = match &mut trusted {
                    Some(trusted) => trusted.changed().await.is_ok(),
                    None => false,
                };
                if !changed {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {
                    let problem = self.poll().err().map(|error| error.to_string());
                    self.report(problem);
                }
                () = trust => {}
            }
            self.try_waiting();
        }
    }

    /// Publishes a problem of the files, or the end of a problem. Each problem is logged and counted once.
    fn report(&self, problem: Option<String>) {
        self.state.send_if_modified(|state| {
            if state.problem == problem {
                return false;
            }
            if let Some(problem) = &problem {
                warn!(%problem, "certificate not reloaded; the former certificate, if any, stays in service");
                state.failures += 1;
            }
            state.problem = problem;
            true
        });
    }

    fn poll(&mut self) -> Result<(), CertificateError> {
        let pem = self.files.read()?;
        if self.seen.as_ref() == Some(&pem) {
            return self.check_expiry();
        }
        let certificates = self.files.check(&pem, (self.clock)())?;
        self.seen = Some(pem);
        self.state
            .send_modify(|state| state.mounted.clone_from(&certificates.authorities));
        self.waiting = Some(certificates);
        self.try_waiting();
        Ok(())
    }

    /// Returns an error if the certificate in the files has expired.
    fn check_expiry(&self) -> Result<(), CertificateError> {
        let not_after = match &self.waiting {
            Some(waiting) => Some(waiting.not_after),
            None => self.state.borrow().not_after,
        };
        match not_after {
            Some(not_after) if not_after <= (self.clock)() => Err(self.files.expired(not_after)),
            _ => Ok(()),
        }
    }

    /// Puts the waiting certificate into service if callers trust it, or if the served certificate is about to expire.
    fn try_waiting(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let serves_until = self.state.borrow().not_after;
        let urgent = serves_until.is_none_or(|until| until - LAST_MOMENT <= (self.clock)());
        // The served certificate has the same single authority. A caller that does not trust this authority cannot call
        // the server now either, so the new certificate changes nothing for the caller.
        let is_known =
            waiting.authorities.len() == 1 && waiting.authorities == self.state.borrow().served;
        let trusted = self.trusted.as_ref();
        let is_trusted =
            trusted.is_none_or(|trusted| waiting.authorities.is_subset(&trusted.borrow()));
        if urgent || is_known || is_trusted {
            self.put_into_service(waiting);
        } else {
            self.waiting = Some(waiting);
        }
    }

    fn put_into_service(&mut self, certificates: Certificates) {
        let Certificates {
            config,
            not_after,
            authorities,
        } = certificates;
        self.config.store(Some(config));
        let now = (self.clock)();
        self.state.send_modify(|state| {
            state.not_after = Some(not_after);
            state.served = authorities;
            state.reloads += 1;
            state.reloaded = Some(now);
        });
        info!(directory = %self.files.directory.display(), %not_after, "certificate in service");
    }
}
