//! Facts about the sources of an image or a bundle.

use std::env;

use anyhow::Context;
use image::Reference;
use image::container::Facts;

use crate::build::output_of;

/// The name of the image in all manifests of `deploy`.
pub(crate) const IMAGE: &str = "ghcr.io/datum-cloud/compute";
/// The version of the project. All crates have the same version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Facts that the command line may set.
#[derive(clap::Args)]
pub(crate) struct Provenance {
    /// The address of the sources, for labels.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://github.com/datum-cloud/compute"
    )]
    source: String,
}

impl Provenance {
    /// Returns the facts of this checkout. The time is `SOURCE_DATE_EPOCH`, or the time of the commit.
    pub(crate) fn facts(&self) -> anyhow::Result<Facts> {
        let time = match env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => output_of("git", &["log", "-1", "--format=%ct"])?,
        };
        let time = time.trim();
        let time = time
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH {time:?}: use seconds since 1970"))?;
        Ok(Facts {
            version: VERSION.to_owned(),
            revision: revision()?,
            source: self.source.clone(),
            time,
        })
    }
}

/// Returns the commit. If the checkout has changes that are not committed, `-dirty` follows.
fn revision() -> anyhow::Result<String> {
    let commit = output_of("git", &["rev-parse", "HEAD"])?;
    let changes = output_of("git", &["status", "--porcelain"])?;
    let suffix = if changes.is_empty() { "" } else { "-dirty" };
    Ok(format!("{}{suffix}", commit.trim()))
}

/// Returns the reference with this name and the version of the project.
pub(crate) fn default_reference(name: &str) -> anyhow::Result<Reference> {
    Ok(format!("{name}:v{VERSION}").parse()?)
}
