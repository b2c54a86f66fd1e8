//! `compute-federation reference`: the pages of `docs/reference/` as one JSON document, from the code that they describe.
//!
//! `cargo xtask docs` renders the pages. Texts here are Markdown.

mod admission;
mod conditions;
mod config;
mod flags;
mod labels;
mod limits;
mod metrics;
mod rights;

use std::io::{Write, stdout};

use serde::Serialize;

/// A page of the reference.
#[derive(Debug, Serialize)]
struct Page {
    /// Name of the file in `docs/reference/`.
    file: &'static str,
    /// The heading of the page.
    title: &'static str,
    sections: Vec<Section>,
}

/// A part of a page: paragraphs, then a table.
#[derive(Debug, Default, Serialize)]
struct Section {
    /// Without a heading the section continues the page's introduction.
    heading: Option<String>,
    paragraphs: Vec<String>,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Section {
    fn text<T: Into<String>>(paragraphs: impl IntoIterator<Item = T>) -> Self {
        Self {
            paragraphs: paragraphs.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    fn named<T: Into<String>>(heading: &str, paragraphs: impl IntoIterator<Item = T>) -> Self {
        Self {
            heading: Some(heading.to_owned()),
            ..Self::text(paragraphs)
        }
    }

    fn table(
        self,
        columns: impl Into<Vec<&'static str>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            columns: columns.into(),
            rows: rows.into_iter().collect(),
            ..self
        }
    }
}

/// The text as code.
fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Texts as code, separated by commas.
fn codes<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(code).collect();
    texts.join(", ")
}

/// Prints the pages.
pub(crate) fn run() -> anyhow::Result<()> {
    // Metrics of the asynchronous runtime are shown inside one only.
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
    ];
    let mut text = serde_json::to_vec_pretty(&pages)?;
    text.push(b'\n');
    stdout().write_all(&text)?;
    Ok(())
}
