//! Decides who may read the metrics. Each decision is reused for a short time, and few reviews run at a time, because
//! every review costs the own cluster two requests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::token_review::may_read;

/// Time for which a decision is reused: 10 s, as in the Go manager.
const FRESH: Duration = Duration::from_secs(10);
/// Maximum number of remembered decisions of each kind.
const DECISIONS_MAX: usize = 64;
/// Longest time for which a token waits for its review: 1 s. A scrape has several seconds.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum number of reviews at a time, for tokens that were accepted before and for all other tokens.
const REVIEWS_MAX: usize = 4;

/// A response that is not the metrics.
pub(super) type Refusal = (StatusCode, &'static str);

/// Reviews tokens in the own cluster.
pub(super) struct Reviewer {
    client: Client,
    decisions: Mutex<Decisions>,
    /// Tokens that were accepted before have their own permits. Otherwise a flood of invalid tokens could keep the
    /// scraper out. Other tokens wait in the order of their arrival, because the scraper gets a new token now and then.
    accepted: Semaphore,
    unknown: Semaphore,
}

#[derive(Default)]
struct Decisions {
    /// Decisions that allow. They are kept when they are no longer fresh, to recognise the token.
    allowed: VecDeque<Decision>,
    refused: VecDeque<Decision>,
}

struct Decision {
    token: String,
    outcome: Result<(), Refusal>,
    found: Instant,
}

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            decisions: Mutex::default(),
            accepted: Semaphore::new(REVIEWS_MAX),
            unknown: Semaphore::new(REVIEWS_MAX),
        }
    }

    /// Returns whether the user of the token may read the metrics. The inner error is the response to the caller.
    ///
    /// # Errors
    ///
    /// If a review fails.
    pub(super) async fn review(&self, token: &str) -> anyhow::Result<Result<(), Refusal>> {
        let (known, was_allowed) = self.decisions().of(token);
        if let Some(outcome) = known {
            return Ok(outcome);
        }
        let permits = match was_allowed {
            true => &self.accepted,
            false => &self.unknown,
        };
        let Ok(Ok(_permit)) = timeout(WAIT_MAX, permits.acquire()).await else {
            let refusal = "too many tokens are being reviewed; try again\n";
            return Ok(Err((StatusCode::TOO_MANY_REQUESTS, refusal)));
        };
        // Another request with the same token may have been decided meanwhile.
        if let (Some(outcome), _) = self.decisions().of(token) {
            return Ok(outcome);
        }
        let outcome = may_read(&self.client, token).await?;
        self.decisions().remember(token, outcome);
        Ok(outcome)
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decisions {
    /// Returns the decision about a token if it is fresh, and whether the last decision allowed.
    fn of(&self, token: &str) -> (Option<Result<(), Refusal>>, bool) {
        let mut all = self.allowed.iter().chain(&self.refused);
        match all.find(|decision| decision.token == token) {
            Some(decision) => (
                (decision.found.elapsed() < FRESH).then_some(decision.outcome),
                decision.outcome.is_ok(),
            ),
            None => (None, false),
        }
    }

    fn remember(&mut self, token: &str, outcome: Result<(), Refusal>) {
        for decisions in [&mut self.allowed, &mut self.refused] {
            decisions.retain(|decision| decision.token != token);
        }
        let decisions = match outcome {
            Ok(()) => &mut self.allowed,
            Err(_) => &mut self.refused,
        };
        if decisions.len() >= DECISIONS_MAX {
            decisions.pop_front();
        }
        decisions.push_back(Decision {
            token: token.to_owned(),
            outcome,
            found: Instant::now(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::watch;
    use tokio::time::{advance, pause};

    use super::*;

    /// An API server that accepts the tokens that begin with `good`. It answers while `open` is true.
    fn cluster(reviews: &Arc<AtomicUsize>, open: &watch::Receiver<bool>) -> Reviewer {
        let (reviews, open) = (Arc::clone(reviews), open.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (reviews, mut open) = (Arc::clone(&reviews), open.clone());
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                if review["kind"] == "TokenReview" {
                    reviews.fetch_add(1, Ordering::Relaxed);
                    open.wait_for(|open| *open).await.unwrap();
                }
                let token = review["spec"]["token"].as_str().unwrap_or_default();
                let is_good = token.starts_with("good");
                review["status"] =
                    json!({"authenticated": is_good, "user": {"username": "u"}, "allowed": true});
                Ok::<_, Infallible>(http::Response::new(Body::from(
                    review.to_string().into_bytes(),
                )))
            }
        });
        Reviewer::new(Client::new(service, "default"))
    }

    #[tokio::test]
    async fn a_decision_is_reused_for_ten_seconds() {
        pause();
        let (reviews, (_open, opened)) = (Arc::default(), watch::channel(true));
        let reviewer = cluster(&reviews, &opened);
        for _ in 0..3 {
            assert_eq!(reviewer.review("good").await.unwrap(), Ok(()));
            let (code, _) = reviewer.review("bad").await.unwrap().unwrap_err();
            assert_eq!(code, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(reviews.load(Ordering::Relaxed), 2);
        advance(FRESH).await;
        assert_eq!(reviewer.review("good").await.unwrap(), Ok(()));
        assert_eq!(reviews.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_flood_of_tokens_is_bounded_and_keeps_no_accepted_token_out() {
        pause();
        let (reviews, (open, opened)) = (Arc::default(), watch::channel(true));
        let reviewer = Arc::new(cluster(&reviews, &opened));
        reviewer.review("good").await.unwrap().unwrap();
        for number in 0..2 * DECISIONS_MAX {
            let _ = reviewer.review(&format!("bad{number}")).await.unwrap();
        }
        assert_eq!(reviewer.decisions().refused.len(), DECISIONS_MAX);
        advance(FRESH).await;
        open.send_replace(false);
        let before = reviews.load(Ordering::Relaxed);
        let flood = (0..20).map(|number| {
            let reviewer = Arc::clone(&reviewer);
            tokio::spawn(async move { reviewer.review(&format!("worse{number}")).await })
        });
        let mut flood: Vec<_> = flood.collect();
        while reviews.load(Ordering::Relaxed) < before + REVIEWS_MAX {
            tokio::task::yield_now().await;
        }
        let scraper = Arc::clone(&reviewer);
        let scraper = tokio::spawn(async move { scraper.review("good").await });
        while reviews.load(Ordering::Relaxed) <= before + REVIEWS_MAX {
            tokio::task::yield_now().await;
        }
        // All others wait in vain.
        for request in flood.drain(REVIEWS_MAX..) {
            let (code, _) = request.await.unwrap().unwrap().unwrap_err();
            assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
        }
        assert_eq!(reviews.load(Ordering::Relaxed), before + REVIEWS_MAX + 1);
        open.send_replace(true);
        assert_eq!(scraper.await.unwrap().unwrap(), Ok(()));
        for request in flood {
            let (code, _) = request.await.unwrap().unwrap().unwrap_err();
            assert_eq!(code, StatusCode::UNAUTHORIZED);
        }
    }

    /// Kubernetes replaces the token of a scraper every hour.
    #[tokio::test]
    async fn a_flood_of_tokens_does_not_keep_a_new_token_out() {
        pause();
        let (reviews, (open, opened)) = (Arc::default(), watch::channel(false));
        let reviewer = Arc::new(cluster(&reviews, &opened));
        let ask = |token: String| {
            let reviewer = Arc::clone(&reviewer);
            tokio::spawn(async move { reviewer.review(&token).await })
        };
        let mut flood: Vec<_> = (0..20).map(|number| ask(format!("bad{number}"))).collect();
        let scraper = [ask("good".to_owned()), ask("good".to_owned())];
        flood.extend((20..40).map(|number| ask(format!("bad{number}"))));
        while reviews.load(Ordering::Relaxed) < REVIEWS_MAX {
            tokio::task::yield_now().await;
        }
        open.send_replace(true);
        for scrape in scraper {
            assert_eq!(scrape.await.unwrap().unwrap(), Ok(()));
        }
        for request in flood {
            let (code, _) = request.await.unwrap().unwrap().unwrap_err();
            assert_eq!(code, StatusCode::UNAUTHORIZED);
        }
    }
}
