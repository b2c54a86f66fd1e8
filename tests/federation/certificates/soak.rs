//! Rotates certificates for several minutes.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::Instant;

use super::callers::KarmadaCallers;
use super::fixture::{self, CertificateFixture, KARMADA_LOG, failed_calls};

/// Number of CA renewals, and number of leaf renewals for each CA.
const AUTHORITIES: usize = 100;
const LEAVES_OF_EACH: usize = 10;
/// Flags for the shortest safe rotation. The bundle of a caller can be one second old.
const FLAGS: [&str; 4] = [
    "--ca-bundle-delay=1500ms",
    "--ca-bundle-retirement=1500ms",
    "--certificate-poll=50ms",
    "--max-connection-age=24h",
];
/// Interval of progress reports.
const REPORT: Duration = Duration::from_secs(30);

pub(crate) async fn rotations() -> anyhow::Result<()> {
    let federation = fixture::start("soak", &FLAGS).await?;
    let fixture = CertificateFixture::new(&federation).await?;
    let mut callers = KarmadaCallers::start(&fixture).await?;
    let begin = Instant::now();
    let mut reported = begin;
    let mut leaves = 0;
    for authorities in 1..=AUTHORITIES {
        fixture.renew_authority().await?;
        fixture.until_served().await?;
        for _ in 0..LEAVES_OF_EACH {
            fixture.renew().await?;
            fixture.until_served().await?;
            leaves += 1;
        }
        let figures = callers.until_more_calls().await?;
        if reported.elapsed() >= REPORT || authorities == AUTHORITIES {
            reported = Instant::now();
            eprintln!(
                "{:.0} s: {leaves} leaves and {authorities} authorities renewed; {figures}",
                begin.elapsed().as_secs_f64()
            );
        }
    }
    fixture.until_bundle(&fixture.authority().await).await?;
    fixture.until_karmada_asks().await?;
    callers.stop().await?;
    let failed = failed_calls(&federation, KARMADA_LOG)?;
    ensure!(failed.is_empty(), "Karmada's calls failed: {failed:#?}");
    federation.stop().await;
    Ok(())
}
