//! Follows a directory of certificates while connections go on.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::load::{Authorities, CertificateError, Certificates, Files, Pem};
use crate::{Acceptor, Clock};

/// A certificate this close to its end is replaced even by one that callers may not trust yet.
const LAST_MOMENT: SignedDuration = SignedDuration::from_mins(1);

/// Polls the files and swaps the configuration that new connections are served with.
///
/// Polling finds every way in which a directory changes: the swap of a `..data` link, after which a watch on the files
/// sees nothing more, and files that are replaced one by one.
pub struct Reloader {
    files: Files,
    clock: Clock,
    seen: Option<Pem>,
    /// What callers trust, where that is known.
    trusted: Option<watch::Receiver<Authorities>>,
    /// A certificate whose authorities are not trusted yet.
    waiting: Option<Certificates>,
    config: Arc<ArcSwapOption<ServerConfig>>,
    state: watch::Sender<State>,
}

/// What is served, for readiness, metrics and whoever tells callers what to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the served leaf expires; `None` while there is nothing to serve.
    pub not_after: Option<Timestamp>,
    /// The authorities of the served leaf.
    pub served: Authorities,
    /// The authorities of the files, which are the next ones while they are not the served ones.
    pub mounted: Authorities,
    /// How many certificates were taken into service.
    pub reloads: u64,
    /// When the last one was.
    pub reloaded: Option<Timestamp>,
    /// How many reads gave something that cannot be served.
    pub failures: u64,
    /// Why the files cannot be served now.
    pub problem: Option<String>,
}

impl Reloader {
    /// Reads the files for the first time. Files that are not there yet are waited for; files that are there must be
    /// right.
    ///
    /// # Errors
    ///
    /// [`CertificateError`] for files that cannot be read or served.
    pub fn new(files: Files, clock: Clock) -> Result<Self, CertificateError> {
        let mut reloader = Self {
            files,
            clock,
            seen: None,
            trusted: None,
            waiting: None,
            config: Arc::new(ArcSwapOption::empty()),
            state: watch::Sender::new(State::default()),
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

    /// Serves with these until the files are there.
    pub fn serve_meanwhile(&mut self, certificates: Certificates) {
        if self.config.load().is_none() {
            self.take(certificates);
        }
    }

    /// Takes a certificate into service only when callers trust its authorities.
    pub fn wait_for_trust(&mut self, trusted: watch::Receiver<Authorities>) {
        self.trusted = Some(trusted);
    }

    /// What connections are accepted with.
    pub fn acceptor(&self) -> Acceptor {
        Acceptor::Tls(Arc::clone(&self.config))
    }

    /// What is served, now and later.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Polls until `stop`. A certificate that cannot be served leaves the former in service and is reported once.
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
            self.take_waiting();
        }
    }

    /// Tells of a problem once, and of its end.
    fn report(&self, problem: Option<String>) {
        self.state.send_if_modified(|state| {
            if state.problem == problem {
                return false;
            }
            if let Some(problem) = &problem {
                warn!(%problem, "certificate not reloaded; the former one, if any, stays in service");
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
        self.take_waiting();
        Ok(())
    }

    /// Finds the end of a certificate that no one has replaced.
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

    /// Takes the certificate of the files into service, once it may be.
    fn take_waiting(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let serves_until = self.state.borrow().not_after;
        let urgent = serves_until.is_none_or(|until| until - LAST_MOMENT <= (self.clock)());
        // The served leaf is of this authority too: whoever does not trust it cannot call now either.
        let is_known =
            waiting.authorities.len() == 1 && waiting.authorities == self.state.borrow().served;
        let trusted = self.trusted.as_ref();
        let is_trusted =
            trusted.is_none_or(|trusted| waiting.authorities.is_subset(&trusted.borrow()));
        if urgent || is_known || is_trusted {
            self.take(waiting);
        } else {
            self.waiting = Some(waiting);
        }
    }

    fn take(&mut self, certificates: Certificates) {
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
