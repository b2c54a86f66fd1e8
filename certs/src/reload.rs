//! Follows a directory of certificates while connections go on.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::load::{CertificateError, Certificates, Files, Pem};
use crate::{Acceptor, Clock};

/// Polls the files and swaps the configuration that new connections are served with.
///
/// Polling finds every way in which a directory changes: the swap of a `..data` link, after which a watch on the files
/// sees nothing more, and files that are replaced one by one.
pub struct Reloader {
    files: Files,
    clock: Clock,
    seen: Option<Pem>,
    problem: Option<String>,
    config: Arc<ArcSwapOption<ServerConfig>>,
    state: watch::Sender<State>,
}

/// What is served, for readiness and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the served leaf expires; `None` while there is nothing to serve.
    pub not_after: Option<Timestamp>,
    /// How many certificates were taken into service.
    pub reloads: u64,
    /// How many reads gave something that cannot be served.
    pub failures: u64,
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
            problem: None,
            config: Arc::new(ArcSwapOption::empty()),
            state: watch::Sender::new(State::default()),
        };
        match reloader.poll() {
            Ok(()) => {}
            Err(error @ CertificateError::Missing(_)) => {
                warn!(%error, "waiting for the certificate");
                reloader.problem = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(reloader)
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
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let problem = self.poll().err().map(|error| error.to_string());
            if problem != self.problem {
                if let Some(problem) = &problem {
                    warn!(%problem, "certificate not reloaded; the former one, if any, stays in service");
                    self.state.send_modify(|state| state.failures += 1);
                }
                self.problem = problem;
            }
        }
    }

    fn poll(&mut self) -> Result<(), CertificateError> {
        let pem = self.files.read()?;
        if self.seen.as_ref() == Some(&pem) {
            return Ok(());
        }
        let Certificates { config, not_after } = self.files.check(&pem, (self.clock)())?;
        self.seen = Some(pem);
        self.config.store(Some(config));
        self.state.send_modify(|state| {
            state.not_after = Some(not_after);
            state.reloads += 1;
        });
        info!(directory = %self.files.directory.display(), %not_after, "certificate in service");
        Ok(())
    }
}
