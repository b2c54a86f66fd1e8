//! Fault injection by rule.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::RequestInfo;
use crate::status_error::StatusError;

/// A fault to inject.
#[derive(Clone, Debug)]
pub enum ProxyFault {
    /// Answers with this error. The request does not reach the API server.
    Answer(StatusError),
    /// Answers that the resource version is too old. The request does not reach the API server.
    Expire,
    /// Forwards the request, and returns the first half of the answer as if it were complete. Watches are not affected.
    Truncate,
}

/// A fault, and the requests that get the fault.
pub struct FaultRule {
    fault: ProxyFault,
    matches: Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>,
    every: usize,
    times: usize,
    matched: watch::Sender<usize>,
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultRule")
            .field("fault", &self.fault)
            .field("every", &self.every)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

impl FaultRule {
    /// Injects the fault into every request that matches.
    pub fn new(
        fault: ProxyFault,
        matches: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            fault,
            matches: Box::new(matches),
            every: 1,
            times: usize::MAX,
            matched: watch::Sender::new(0),
        }
    }

    /// Limits the rule to every n-th matching request, starting with the first.
    #[must_use]
    pub fn every(self, every: usize) -> Self {
        let every = every.max(1);
        Self { every, ..self }
    }

    /// Limits the rule to this number of faults.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    fn fault(&self, request_info: &RequestInfo) -> Option<ProxyFault> {
        if !(self.matches)(request_info) {
            return None;
        }
        let mut before = 0;
        self.matched.send_modify(|matched| {
            before = *matched;
            *matched += 1;
        });
        let hit = before.is_multiple_of(self.every) && before / self.every < self.times;
        hit.then(|| self.fault.clone())
    }

    fn hits(&self, matched: usize) -> usize {
        matched.div_ceil(self.every).min(self.times)
    }
}

/// The fault rules of a proxy.
#[derive(Debug, Default)]
pub(super) struct Injections(Mutex<Vec<Arc<FaultRule>>>);

impl Injections {
    pub(super) fn add(self: &Arc<Self>, rule: FaultRule) -> Injected {
        let rule = Arc::new(rule);
        self.rules().push(Arc::clone(&rule));
        Injected {
            rule,
            injections: Arc::clone(self),
        }
    }

    pub(super) fn fault(&self, request_info: &RequestInfo) -> Option<ProxyFault> {
        self.rules()
            .iter()
            .find_map(|rule| rule.fault(request_info))
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<FaultRule>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fault rule that is active until this value is dropped.
#[derive(Debug)]
pub struct Injected {
    rule: Arc<FaultRule>,
    injections: Arc<Injections>,
}

impl Injected {
    /// Returns the number of requests that have got the fault.
    pub fn hits(&self) -> usize {
        self.rule.hits(*self.rule.matched.borrow())
    }

    /// Waits until this number of requests has got the fault.
    pub async fn reached(&self, hits: usize) {
        let mut matched = self.rule.matched.subscribe();
        let reached = |matched: &usize| self.rule.hits(*matched) >= hits;
        // The rule cannot end before this value is dropped.
        let _ = matched.wait_for(reached).await;
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let mut rules = self.injections.rules();
        rules.retain(|rule| !Arc::ptr_eq(rule, &self.rule));
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_rule_applies_to_every_nth_request_and_a_limited_number_of_times() {
        let injections = Arc::new(Injections::default());
        let rule = FaultRule::new(ProxyFault::Truncate, RequestInfo::is_watch)
            .every(2)
            .times(2);
        let injected = injections.add(rule);
        let hit = |uri: &str| {
            let request = Request::get(uri).body(()).expect("a request");
            injections.fault(&RequestInfo::of(&request)).is_some()
        };
        assert!(!hit("/api/v1/pods"));
        let hits: Vec<_> = (0..6).map(|_| hit("/api/v1/pods?watch=true")).collect();
        assert_eq!(hits, [true, false, true, false, false, false]);
        assert_eq!(injected.hits(), 2);
        let again = injections.add(FaultRule::new(ProxyFault::Expire, |_| true));
        assert!(hit("/api/v1/pods"));
        drop(again);
        assert!(!hit("/api/v1/pods"));
    }
}
