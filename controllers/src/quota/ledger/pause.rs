//! The pause after requests that an API server has not answered.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first failure. It doubles with each failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause. When the API server answers again, Instances wait no longer than this.
const LONGEST: Duration = Duration::from_secs(10);

/// The state of an API server: how often it has not answered, and until when no request is sent.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: u32,
    until: Option<Instant>,
}

impl Pause {
    /// Allows a request, or returns the time to wait. While the API server does not answer, one request at a time is
    /// allowed after each pause.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let Some(until) = self.until else {
            return Ok(());
        };
        if now < until {
            return Err(until - now);
        }
        self.until = Some(now + self.length());
        Ok(())
    }

    /// Records a request without an answer. Returns the pause, and whether it is the first such request.
    pub(super) fn failed(&mut self, now: Instant) -> (Duration, bool) {
        let is_first = self.failures == 0;
        self.failures = self.failures.saturating_add(1);
        let length = self.length();
        self.until = Some(now + length);
        (length, is_first)
    }

    /// Records an answer. Returns whether the API server had not answered before.
    pub(super) fn answered(&mut self) -> bool {
        let had_failed = self.failures > 0;
        *self = Self::default();
        had_failed
    }

    fn length(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(10);
        LONGEST.min(FIRST * 2_u32.pow(doublings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_is_asked_ever_more_rarely() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(pause.admit(now), Ok(()));
            let (wait, is_first) = pause.failed(now);
            assert_eq!(is_first, waits.is_empty());
            assert_eq!(pause.admit(now), Err(wait));
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        // One request probes, and the others still wait.
        assert_eq!(pause.admit(now), Ok(()));
        assert!(pause.admit(now).is_err());
        assert!(pause.answered());
        assert!(!pause.answered());
        assert_eq!(pause.admit(now), Ok(()));
    }
}
