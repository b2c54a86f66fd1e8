//! Counts the memory that the answer to a request needs. Hostile bodies must not need more than their share.

#![allow(
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::ProjectName;
use axum::body::Body;
use fuzz::hostile;
use http::{Request, StatusCode};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use tower::ServiceExt;
use webhooks::admission::{
    self, AccessDecision, AccessReview, Admission, KnownCities, ProjectLookup, ProjectLookupError,
    REVIEW_COPIES, VALIDATE_WORKLOAD,
};
use webhooks::{Limits, Metrics};

/// Sizes of the requests, in bytes. A list that grows needs the most memory directly after it has grown. The sizes
/// therefore are not powers of two only.
const SIZES: [usize; 7] = [1 << 10, 12_000, 45_000, 58_000, 1 << 16, 80_000, 300_000];

/// The memory that the answer to one request needs.
struct Measured {
    name: String,
    /// Size of the request, in bytes.
    size: usize,
    /// Maximum of `peak`, in bytes.
    bound: usize,
    /// Memory in use at the same time, in bytes.
    peak: u64,
    /// Sum of all allocations, in bytes.
    total: u64,
}

impl Measured {
    fn of(name: String, body: &[u8], bound: usize, answer: impl FnOnce(&[u8])) -> Self {
        let counted = allocation_counter::measure(|| answer(body));
        Self {
            name,
            size: body.len(),
            bound,
            peak: counted.bytes_max,
            total: counted.bytes_total,
        }
    }

    fn assert_within(peaks: &[Self]) {
        let mut failed = String::new();
        for Self {
            name,
            size,
            bound,
            peak,
            total,
        } in peaks
        {
            if *peak > *bound as u64 {
                let times = |bytes: u64| bytes as f64 / *size as f64;
                failed += &format!(
                    "{size:8} {:8.1} {:8.1} {name}\n",
                    times(*peak),
                    times(*total)
                );
            }
        }
        assert!(
            failed.is_empty(),
            "bytes, peak and total per byte, name:\n{failed}"
        );
    }
}

#[test]
fn no_interpretation_needs_more_than_its_share_of_memory() {
    let interpret = |body: &[u8]| {
        let _ = black_box(interpreters::interpret(body, Timestamp::UNIX_EPOCH));
    };
    let mut peaks = Vec::new();
    for hostile in SIZES.into_iter().flat_map(hostile::interpretations) {
        // A blank before the first character prevents the fast way.
        let general = [b" ".as_slice(), &hostile.body].concat();
        let of = |name: String, body: &[u8]| {
            Measured::of(name, body, interpreters::peak_bytes(body.len()), interpret)
        };
        peaks.push(of(hostile.name.to_owned(), &hostile.body));
        peaks.push(of(format!("{} (general)", hostile.name), &general));
    }
    Measured::assert_within(&peaks);
}

#[test]
fn no_admission_needs_more_than_its_share_of_memory() {
    let cities: BTreeSet<String> = ["DFW".to_owned()].into();
    let mut peaks = Vec::new();
    for hostile in SIZES.into_iter().flat_map(hostile::admissions) {
        let bound = admission::peak_bytes(&hostile.body) + admission::ANSWER_BYTES;
        let name = hostile.name.to_owned();
        peaks.push(Measured::of(name, &hostile.body, bound, |body| {
            let _ = black_box(admission::validate_alone(body, &cities));
        }));
    }
    Measured::assert_within(&peaks);
}

/// A project whose API server does not answer.
struct SilentProject {
    name: ProjectName,
    reviews: AtomicUsize,
}

impl ProjectLookup for SilentProject {
    fn only(&self) -> Option<&ProjectName> {
        Some(&self.name)
    }

    fn check_served(&self, _: &ProjectName) -> Result<(), ProjectLookupError> {
        Ok(())
    }

    fn cities(&self, _: &ProjectName) -> Result<KnownCities, ProjectLookupError> {
        Ok(KnownCities {
            codes: Arc::default(),
            outdated: None,
        })
    }

    /// Holds the memory that a client holds for an access review in flight.
    fn review(
        &self,
        _: &ProjectName,
        review: AccessReview,
    ) -> Pin<Box<dyn Future<Output = Result<AccessDecision, ProjectLookupError>> + Send>> {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let _copies = [(); REVIEW_COPIES].map(|()| review.body());
            pending().await
        })
    }
}

#[test]
fn access_reviews_in_flight_need_no_more_than_the_share_of_their_request() {
    /// Memory for a request besides its body and its decoded form (`webhooks/src/capacity.rs`), in bytes.
    const OVERHEAD: usize = 8 << 10;
    let project = Arc::new(SilentProject {
        name: ProjectName::new("p1").unwrap(),
        reviews: AtomicUsize::default(),
    });
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let admission = Admission {
        projects: project.clone(),
        resolvers: Arc::new([]),
    };
    let clock = || Timestamp::UNIX_EPOCH;
    let router = webhooks::router(metrics, Limits::default(), clock, Some(admission));
    // The clock of the runtime advances when everything waits, so a request ends at once.
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let mut peaks = Vec::new();
    for hostile in SIZES.into_iter().flat_map(hostile::admissions) {
        let decoded = admission::peak_bytes(&hostile.body) + admission::ANSWER_BYTES;
        // The body exists twice while it is copied from the read buffer.
        let bound = 2 * hostile.body.len() + decoded + OVERHEAD;
        let name = hostile.name.to_owned();
        peaks.push(Measured::of(name, &hostile.body, bound, |body| {
            let request = Request::post(VALIDATE_WORKLOAD).body(Body::from(body.to_vec()));
            let answer = runtime.block_on(router.clone().oneshot(request.unwrap()));
            assert_ne!(answer.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
        }));
    }
    Measured::assert_within(&peaks);
    assert!(project.reviews.load(Ordering::Relaxed) > 100);
}
