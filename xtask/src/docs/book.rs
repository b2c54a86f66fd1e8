//! Builds the book from `docs` with mdBook.

use std::process::Command;

use anyhow::{Context, ensure};
use harness::checkout::root;

use crate::build::target;
use crate::output::print;
use crate::tools;

pub(super) fn build() -> anyhow::Result<()> {
    let book = target().join("book");
    let status = Command::new(tools::mdbook()?)
        .arg("build")
        .arg(root().join("docs"))
        .arg("--dest-dir")
        .arg(&book)
        .status()
        .context("mdbook not started")?;
    ensure!(status.success(), "mdbook failed");
    print(format!("built: {}", book.join("index.html").display()))
}
