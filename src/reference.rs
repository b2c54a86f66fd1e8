//! `compute-federation reference` prints the pages of `docs/reference/` as one JSON document. The content comes from
//! the code that the pages describe.
//!
//! `cargo xtask docs` renders the pages. Texts in these modules are Markdown.

mod admission;
mod conditions;
mod config;
mod differences;
mod flags;
mod labels;
mod limits;
mod metrics;
mod page;
mod rights;

use std::io::{Write, stdout};

/// Prints the pages.
pub(crate) fn run() -> anyhow::Result<()> {
    // The metrics of the asynchronous runtime are exposed only inside a runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let metrics = runtime.block_on(async { metrics::page() })?;
    let pages = [
        flags::page(),
        config::page(),
        metrics,
        conditions::page(),
        labels::page(),
        rights::page(),
        limits::page(),
        admission::page(),
        differences::page(),
    ];
    let mut text = serde_json::to_vec_pretty(&pages)?;
    text.push(b'\n');
    stdout().write_all(&text)?;
    Ok(())
}
