//! `mutations.md`: for each invariant, a mutation of the source and the test that fails.

use super::{Page, Section};
use crate::mutations::mutations;

pub(super) fn page() -> anyhow::Result<Page> {
    let rows = mutations()?.into_iter().map(|mutation| {
        let anchor = mutation.invariant.to_lowercase();
        let test = mutation.test.rsplit("::").next().unwrap_or_default();
        vec![
            format!(
                "[{}](../concepts/invariants.md#{anchor})",
                mutation.invariant
            ),
            mutation.breaks,
            format!("`{}`", mutation.file),
            format!("`{test}`"),
        ]
    });
    let columns = [
        "invariant",
        "the mutated program",
        "file",
        "test that fails",
    ];
    Ok(Page {
        file: "mutations.md".to_owned(),
        title: "Mutations".to_owned(),
        sections: vec![Section {
            heading: None,
            paragraphs: vec![
                "Each row is a small change of the source that breaks an invariant. The test of the row must fail with this change. \
                 `cargo xtask test mutations` applies each change to a copy of the checkout and runs its test; \
                 `cargo xtask test mutations I-8` does so for one invariant. This is not part of the gate, because it takes about an hour."
                    .to_owned(),
                "`tests/mutations.yaml` has the changes. `tests/architecture.rs` fails if the text of a change is not exactly once in \
                 its file, if a test does not name the invariant, or if an invariant has no row."
                    .to_owned(),
            ],
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }],
    })
}
