//! A page of the reference: Markdown texts and tables.

use serde::Serialize;

/// A page of the reference.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// Name of the file in `docs/reference/`.
    pub(super) file: &'static str,
    /// The heading of the page.
    pub(super) title: &'static str,
    pub(super) sections: Vec<Section>,
}

/// A part of a page. The paragraphs come first, then a table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Section {
    /// The heading; `None` if the section continues the introduction of the page.
    pub(super) heading: Option<String>,
    pub(super) paragraphs: Vec<String>,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Section {
    pub(super) fn text<T: Into<String>>(paragraphs: impl IntoIterator<Item = T>) -> Self {
        Self {
            paragraphs: paragraphs.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    pub(super) fn named<T: Into<String>>(
        heading: &str,
        paragraphs: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            heading: Some(heading.to_owned()),
            ..Self::text(paragraphs)
        }
    }

    pub(super) fn table(
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

/// Returns the text as code.
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Returns the texts as code, separated by commas.
pub(super) fn codes<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(code).collect();
    texts.join(", ")
}
