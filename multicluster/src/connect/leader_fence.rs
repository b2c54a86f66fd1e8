//! Lets only the leader write.

use std::pin::pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use tokio::time::timeout_at;
use tower::{BoxError, Service};

use crate::lease::{Leadership, NotLeading};

/// Paths of reviews. Reviews are sent by `POST`, but they change nothing.
const REVIEWS: [&str; 2] = [
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
];

/// Refuses writes while this process may not write, and aborts a running write at the end of the leadership. This is
/// true for every caller, even after the process was paused.
#[derive(Clone)]
pub(super) struct LeaderFence<S> {
    pub(super) inner: S,
    pub(super) leadership: Leadership,
}

impl<S, B> Service<Request<B>> for LeaderFence<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let deadline = match is_write(&request) {
            true => self.leadership.deadline(),
            false => Ok(None),
        };
        let deadline = match deadline {
            Ok(deadline) => deadline,
            Err(refused) => return async move { Err(refused.into()) }.boxed(),
        };
        let response = self
            .inner
            .call(request)
            .map(|result| result.map_err(Into::into));
        let Some(mut deadline) = deadline else {
            return response.boxed();
        };
        let leadership = self.leadership.clone();
        async move {
            let mut response = pin!(response);
            loop {
                if let Ok(response) = timeout_at(deadline, &mut response).await {
                    return response;
                }
                // The lease may have been renewed during the request, so the deadline is read again.
                deadline = leadership.deadline()?.ok_or(NotLeading)?;
            }
        }
        .boxed()
    }
}

fn is_write<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST => !REVIEWS.iter().any(|reviews| path.ends_with(reviews)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    /// I-4: leadership is needed for writes only.
    #[test]
    fn requests_that_change_something_are_writes() {
        for (method, path, expected) in [
            ("GET", "/api/v1/namespaces", false),
            ("POST", "/api/v1/namespaces", true),
            (
                "PATCH",
                "/apis/compute.datumapis.com/v1alpha/namespaces/n/instances/i",
                true,
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                true,
            ),
            ("DELETE", "/api/v1/namespaces/n", true),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                false,
            ),
            ("DELETE", "/apis/authorization.k8s.io/v1/x", true),
            (
                "POST",
                "/projects/p/control-plane/apis/authentication.k8s.io/v1/tokenreviews",
                false,
            ),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .body(())
                .unwrap();
            assert_eq!(is_write(&request), expected, "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_write_begins_or_goes_on_without_leadership() {
        let leadership = Leadership::default();
        let answers_never =
            tower::service_fn(|_: Request<()>| futures::future::pending::<Result<(), BoxError>>());
        let mut guarded = LeaderFence {
            inner: answers_never,
            leadership: leadership.clone(),
        };
        let write = || Request::post("/api/v1/namespaces").body(()).unwrap();
        let refused = guarded.call(write()).await.unwrap_err();
        assert_eq!(refused.downcast_ref(), Some(&NotLeading));
        leadership.renew(Instant::now());
        let under_way = guarded.call(write());
        let cut_off = under_way.await.unwrap_err();
        assert_eq!(cut_off.downcast_ref(), Some(&NotLeading));
        // A running write continues while the lease is renewed.
        leadership.renew(Instant::now());
        let slow = guarded.call(write());
        let renewed = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(2)).await;
                leadership.renew(Instant::now());
            }
        };
        let begin = Instant::now();
        let (cut_off, ()) = tokio::join!(slow, renewed);
        assert!(cut_off.is_err());
        assert_eq!(begin.elapsed(), Duration::from_secs(30));
        let read = guarded.call(Request::get("/api").body(()).unwrap());
        assert!(timeout(Duration::from_hours(24), read).await.is_err());
    }
}
