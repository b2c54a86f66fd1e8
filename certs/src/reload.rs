//! Follows a directory of certificate files while connections are served.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::chain::Chain;
use crate::clock::Clock;
use crate::error::{CertificateError, CertificateProblem, UNREADABLE, WRONG_NAMES};
use crate::load::{Authorities, Certificates, Files, Pem};
use crate::serve::Acceptor;
use crate::validity::Validity;

/// If the served certificate or its authority expires within this time (1 min), a new certificate replaces it even if
/// callers do not trust the new certificate yet, or if its authorities are unknown.
const LAST_MOMENT: SignedDuration = SignedDuration::from_mins(1);

/// Polls the files. When they change, replaces the configuration for new connections.
///
/// Polling detects every kind of change: files that are replaced one by one, and a replacement of the `..data` link.
/// After a replacement of the link, a watch on the files would get no further events.
pub struct Reloader {
    files: Files,
    clock: Clock,
    /// The last files that passed every check, and their certificate chain.
    accepted: Option<(Pem, Chain)>,
    /// The certificate chain in service.
    served: Option<Chain>,
    /// The names at which callers reach the server; `None` if they are unknown.
    names: Option<watch::Receiver<BTreeSet<String>>>,
    /// Whether another certificate is served until the files can be served.
    has_substitute: bool,
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
    /// The time at which the served certificate or its authority expires; `None` while no certificate is served.
    pub not_after: Option<Timestamp>,
    /// The begin of the validity period that ends at `not_after`; `None` while no certificate is served.
    pub not_before: Option<Timestamp>,
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
    pub problem: Option<Problem>,
    /// The reason why callers refuse the served certificate now: its time or its names. `None` if they accept it, or if
    /// no certificate is served.
    pub served_problem: Option<Problem>,
    /// Whether a served certificate once had a name at which callers reach the server.
    pub had_names: bool,
}

impl CertificateState {
    /// Returns the reason why this process must not be called. Wrong names count only if no served certificate ever had
    /// a right one. Otherwise a wrong change of the registrations would take every replica out of service.
    pub fn refusal(&self) -> Option<&Problem> {
        let problem = self.served_problem.as_ref();
        problem.filter(|problem| problem.reason != WRONG_NAMES || !self.had_names)
    }
}

/// The reason why the files cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The value of the `reason` label in metrics.
    pub reason: &'static str,
    /// The error, which contains the file name.
    pub message: String,
}

impl Problem {
    /// Returns whether the files could already not be read before. The CSI driver of cert-manager changes the
    /// permissions of the files one after the other, when they are already in the directory. Meanwhile, the file in the
    /// message changes.
    fn continues(&self, former: Option<&Self>) -> bool {
        let is_unreadable = |problem: &Self| problem.reason == UNREADABLE;
        is_unreadable(self) && former.is_some_and(is_unreadable)
    }
}

impl From<&CertificateError> for Problem {
    fn from(error: &CertificateError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

impl From<&CertificateProblem> for Problem {
    fn from(problem: &CertificateProblem) -> Self {
        Self {
            reason: problem.reason(),
            message: problem.to_string(),
        }
    }
}

impl Reloader {
    /// Reads the files for the first time. Files that are missing or cannot be served are not an error, because
    /// [`Reloader::run`] waits for usable files. The state contains the problem.
    pub fn new(files: Files, clock: Clock) -> Self {
        let mut reloader = Self::unread(files, clock);
        reloader.look();
        reloader
    }

    /// As [`Reloader::new`], but serves these certificates until the files can be served. It is then not a problem if
    /// the directory never had files.
    pub fn with_substitute(files: Files, clock: Clock, substitute: Certificates) -> Self {
        let mut reloader = Self::unread(files, clock);
        reloader.has_substitute = true;
        reloader.look();
        if reloader.config.load().is_none() {
            reloader.put_into_service(substitute);
        }
        reloader
    }

    fn unread(files: Files, clock: Clock) -> Self {
        Self {
            files,
            clock,
            accepted: None,
            served: None,
            names: None,
            has_substitute: false,
            trusted: None,
            waiting: None,
            config: Arc::new(ArcSwapOption::empty()),
            state: watch::Sender::new(CertificateState::default()),
        }
    }

    /// After this call, a certificate is put into service only when callers trust its authorities.
    pub fn wait_for_trust(&mut self, trusted: watch::Receiver<Authorities>) {
        self.trusted = Some(trusted);
    }

    /// After this call, a certificate is put into service only if it has one of these names. While there are no names,
    /// every certificate is accepted.
    pub fn expect_names(&mut self, names: watch::Receiver<BTreeSet<String>>) {
        self.names = Some(names);
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
        let (mut trusted, mut names) = (self.trusted.clone(), self.names.clone());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => self.look(),
                // Readiness must not depend on names that have not been checked yet.
                () = changed(&mut names) => self.look(),
                () = changed(&mut trusted) => {}
            }
            self.try_waiting();
        }
    }

    /// Reads the files. Publishes the problems of the files and of the served certificate, or their end. A new problem
    /// of the files is logged and counted once.
    fn look(&mut self) {
        let error = self.poll().err();
        let served = self.served_problem();
        let had_names = self.has_expected_name();
        let is_missing = matches!(error, Some(CertificateError::Missing(_)));
        let is_expected = is_missing && self.has_substitute && self.has_no_files();
        let problem = error.as_ref().filter(|_| !is_expected);
        let problem = problem.map(Problem::from);
        self.state.send_if_modified(|state| {
            let had_names = state.had_names || had_names;
            if (&state.problem, &state.served_problem, state.had_names)
                == (&problem, &served, had_names)
            {
                return false;
            }
            if let Some(Problem { message, .. }) = &served
                && state.served_problem != served
            {
                warn!(problem = %message, "callers refuse the served certificate");
            }
            (state.served_problem, state.had_names) = (served, had_names);
            match &problem {
                None => {}
                Some(_) if state.problem == problem => {}
                Some(problem) if problem.continues(state.problem.as_ref()) => {}
                Some(Problem { message, .. }) if is_missing && state.not_after.is_none() => {
                    warn!(problem = %message, "waiting for the certificate");
                }
                Some(Problem { message, reason }) => {
                    warn!(problem = %message, reason, "the certificate files cannot be served; the served certificate, if any, stays in service");
                    state.failures += 1;
                }
            }
            state.problem = problem;
            true
        });
    }

    /// Returns whether the directory has no files, and files were never accepted before. In all other cases a missing
    /// file is a mistake, for example a wrong name in the config file.
    fn has_no_files(&self) -> bool {
        self.accepted.is_none() && !self.files.directory_has_files()
    }

    fn poll(&mut self) -> Result<(), CertificateError> {
        let pem = self.files.read()?;
        let now = (self.clock)();
        if let Some((accepted, chain)) = &self.accepted
            && *accepted == pem
        {
            return self
                .check_chain(chain, now)
                .map_err(|problem| self.files.refuse(problem));
        }
        let certificates = self.files.check(&pem, now)?;
        self.check_authorities(&certificates.authorities, now)?;
        self.check_chain(&certificates.chain, now)
            .map_err(|problem| self.files.refuse(problem))?;
        self.accepted = Some((pem, certificates.chain.clone()));
        self.state
            .send_modify(|state| state.mounted.clone_from(&certificates.authorities));
        self.waiting = Some(certificates);
        self.try_waiting();
        Ok(())
    }

    /// Checks that the files still have authorities if the former files had some. A writer that replaces the files one
    /// by one can have written the certificate, but not yet the authorities. Without this check, a certificate of
    /// another authority would be served before callers trust this authority.
    fn check_authorities(
        &self,
        authorities: &Authorities,
        now: Timestamp,
    ) -> Result<(), CertificateError> {
        let had_some = !self.state.borrow().mounted.is_empty();
        if authorities.is_empty() && had_some && !self.is_urgent(now) {
            return Err(self
                .files
                .refuse_authorities(CertificateProblem::NoAuthorities));
        }
        Ok(())
    }

    /// Checks what can change while the files stay the same: the validity of the certificate and of its authority at
    /// this time, and the names at which callers reach the server.
    fn check_chain(&self, chain: &Chain, now: Timestamp) -> Result<(), CertificateProblem> {
        chain.check_time(now)?;
        let Some(names) = &self.names else {
            return Ok(());
        };
        let names = names.borrow();
        chain.leaf.check_names(&names)?;
        match &self.served {
            Some(served) if !self.is_urgent(now) => {
                chain.leaf.check_kept_names(&names, &served.leaf)
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason why callers refuse the served certificate now.
    fn served_problem(&self) -> Option<Problem> {
        let served = self.served.as_ref()?;
        let problem = self.check_chain(served, (self.clock)()).err()?;
        Some(Problem::from(&problem))
    }

    /// Returns whether the served certificate has a name at which callers reach the server.
    fn has_expected_name(&self) -> bool {
        let (Some(served), Some(names)) = (&self.served, &self.names) else {
            return false;
        };
        let names = names.borrow();
        !names.is_empty() && served.leaf.check_names(&names).is_ok()
    }

    /// Puts the waiting certificate into service if callers trust it, or if the served certificate is about to expire.
    /// The time and the names are checked again, because both may have changed while the certificate waited. If a check
    /// fails, the certificate waits on: [`Reloader::poll`] reports the problem.
    fn try_waiting(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let now = (self.clock)();
        if self.check_chain(&waiting.chain, now).is_err() {
            self.waiting = Some(waiting);
            return;
        }
        // The served certificate has the same single authority. A caller that does not trust this authority cannot call
        // the server now either, so the new certificate changes nothing for the caller.
        let is_known =
            waiting.authorities.len() == 1 && waiting.authorities == self.state.borrow().served;
        let trusted = self.trusted.as_ref();
        let is_trusted =
            trusted.is_none_or(|trusted| waiting.authorities.is_subset(&trusted.borrow()));
        if self.is_urgent(now) || is_known || is_trusted {
            self.put_into_service(waiting);
        } else {
            self.waiting = Some(waiting);
        }
    }

    /// Returns whether no certificate is served, or the served certificate or its authority is about to expire.
    fn is_urgent(&self, now: Timestamp) -> bool {
        let served = self.served.as_ref();
        served.is_none_or(|chain| chain.check_time(now + LAST_MOMENT).is_err())
    }

    fn put_into_service(&mut self, certificates: Certificates) {
        let Certificates {
            config,
            chain,
            authorities,
        } = certificates;
        let now = (self.clock)();
        let Validity {
            not_before,
            not_after,
        } = chain.validity(now);
        self.served = Some(chain);
        self.config.store(Some(config));
        let (served_problem, had_names) = (self.served_problem(), self.has_expected_name());
        self.state.send_modify(|state| {
            state.served_problem = served_problem;
            state.had_names |= had_names;
            state.not_after = Some(not_after);
            state.not_before = Some(not_before);
            state.served = authorities;
            state.reloads += 1;
            state.reloaded = Some(now);
        });
        info!(directory = %self.files.directory.display(), %not_after, "certificate in service");
    }
}

/// Waits for the next value. Waits for ever if there is none.
async fn changed<T>(receiver: &mut Option<watch::Receiver<T>>) {
    let changed = match receiver {
        Some(receiver) => receiver.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}
