//! The log of the metrics server.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// Collects the lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Nobody is authenticated before the review, so everyone can cause its errors.
#[tokio::test]
async fn a_review_that_fails_is_logged_once() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let down = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(io::Error::other("the API server is down"))
    });
    let client = Client::new(down, "default");
    let router = router(vec![Registry::default()], Arc::default(), Some(client));
    for number in 0..3 {
        let request = http::Request::get("/metrics")
            .header(header::AUTHORIZATION, format!("Bearer {number}"))
            .body(Body::empty());
        let answer = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = log
        .matches("the review of a metrics request failed")
        .count();
    assert_eq!(lines, 1, "{log}");
}
