//! Tests with API servers that answer with errors, truncate answers, or close watches.

use harness::Federation;
use harness::milo::StatusError;
use harness::proxy::{FaultRule, Injected, Proxy, ProxyFault, RequestInfo};

use super::fixture::{FaultFixture, FaultyPhase, LifecyclePhase};
use crate::fixture::Space;

/// Every third request gets the error. In each phase, at most `TIMES` requests to an API server get the error.
const EVERY: usize = 3;
const TIMES: usize = 6;
/// In each phase, the test closes the watches `ENDS` times, each time after `WRITES` writes. If the resource versions
/// have expired, the test closes the watches only once, because the controllers do not open new watches at once.
const ENDS: usize = 4;
const WRITES: usize = 3;

type Matches = fn(&RequestInfo) -> bool;

pub(crate) async fn api_servers_answer_with_errors(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = errors(&fixture).await;
    fixture.end(result).await
}

pub(crate) async fn watches_that_end(federation: &Federation) -> anyhow::Result<()> {
    let fixture = FaultFixture::start(federation).await?;
    let result = ends(&fixture).await;
    fixture.end(result).await
}

async fn errors(fixture: &FaultFixture<'_>) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    let any = |_: &RequestInfo| true;
    let faults: [(&str, ProxyFault, Matches); 4] = [
        (
            "409",
            ProxyFault::Answer(StatusError::conflict()),
            RequestInfo::is_write,
        ),
        (
            "429",
            ProxyFault::Answer(StatusError::too_many_requests(1)),
            any,
        ),
        ("500", ProxyFault::Answer(StatusError::internal()), any),
        ("half of the answer", ProxyFault::Truncate, |request| {
            !request.is_watch()
        }),
    ];
    for (name, fault, matches) in faults {
        let space = Space::create(fixture.federation, "errors").await?;
        for phase in LifecyclePhase::ALL {
            let step = FaultyPhase::new(&space, phase, undisturbed)?;
            let rule = || {
                FaultRule::new(fault.clone(), matches)
                    .every(EVERY)
                    .times(TIMES)
            };
            let injected = fixture.proxies.all().map(|proxy| proxy.inject(rule()));
            step.begin().await?;
            step.until_as_undisturbed().await?;
            let hits = injected.each_ref().map(Injected::hits);
            step.finish(&format!("{name} {hits:?} times")).await?;
            assert!(hits.iter().all(|hits| *hits > 0), "{name}: {hits:?}");
        }
    }
    Ok(())
}

/// Closes watches. A client resumes a watch at its resource version. If this version has expired, the client starts
/// with a new list.
async fn ends(fixture: &FaultFixture<'_>) -> anyhow::Result<()> {
    let undisturbed = fixture.undisturbed().await?;
    for expired in [false, true] {
        let space = Space::create(fixture.federation, "ends").await?;
        for phase in LifecyclePhase::ALL {
            let step = FaultyPhase::new(&space, phase, undisturbed)?;
            let ends = if expired { 1 } else { ENDS };
            let hits = end_watches(fixture, &step, ends, expired).await?;
            let what = format!("watches that ended {ends} times, {hits} of them expired");
            step.finish(&what).await?;
        }
    }
    Ok(())
}

async fn end_watches(
    fixture: &FaultFixture<'_>,
    step: &FaultyPhase<'_>,
    ends: usize,
    expired: bool,
) -> anyhow::Result<usize> {
    let proxies = &fixture.proxies;
    let before = proxies.writes.made();
    step.begin().await?;
    let mut hits = 0;
    for end in 1..=ends {
        tokio::select! {
            () = proxies.writes.reached(before + end * WRITES) => {}
            over = step.until_as_undisturbed() => over?,
        }
        // Every second watch may resume at its resource version.
        let rule = || FaultRule::new(ProxyFault::Expire, RequestInfo::is_watch).every(2);
        let injected = expired.then(|| proxies.all().map(|proxy| proxy.inject(rule())));
        proxies.all().into_iter().for_each(Proxy::close_watches);
        for injected in injected.iter().flatten() {
            injected.reached(2).await;
            hits += injected.hits();
        }
    }
    Ok(hits)
}
