//! `cargo xtask docs`: writes the pages of `docs/reference`, checks the documentation, and builds the book.

mod alerts;
mod book;
mod check;
mod citations;
mod limits;
mod markdown;
mod mutations;
mod names;
mod render;

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use harness::checkout::root;
use serde::Deserialize;

use crate::build::binary;
use crate::output::print;

/// Writes the pages of docs/reference from the code.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing: fail if a page is stale, or if a link, path, command or name in the documentation is wrong.
    #[arg(long)]
    check: bool,
    /// Build the book from docs into target/book. Installs mdBook into the cache first.
    #[arg(long, conflicts_with = "check")]
    book: bool,
}

/// A page of the reference. The binary prints the pages.
#[derive(Debug, Deserialize)]
struct Page {
    file: String,
    title: String,
    sections: Vec<Section>,
}

/// A part of a page: paragraphs, then a table.
#[derive(Debug, Default, Deserialize)]
struct Section {
    heading: Option<String>,
    paragraphs: Vec<String>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.check {
        return check();
    }
    write(&pages()?, false)?;
    if args.book {
        book::build()?;
    }
    Ok(())
}

/// Fails if a page is stale, or if a link, path, command or name in the documentation is wrong.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut problems = write(&pages()?, true)?;
    problems.extend(check::problems()?);
    match problems.len() {
        0 => Ok(()),
        1 => bail!("{}", problems.concat()),
        count => bail!("{count} problems\n{}", problems.join("\n")),
    }
}

/// Returns the pages. They are generated from the binary, which is built first, and from the sources.
fn pages() -> anyhow::Result<Vec<Page>> {
    let output = Command::new(binary()?)
        .arg("reference")
        .stderr(Stdio::inherit())
        .output()
        .context("compute-federation not started")?;
    ensure!(
        output.status.success(),
        "compute-federation reference failed"
    );
    let mut pages: Vec<Page> = serde_json::from_slice(&output.stdout)?;
    let limits = pages.iter_mut().find(|page| page.file == "limits.md");
    let limits = limits.context("the output of the binary has no page limits.md")?;
    limits.sections.push(limits::fixed()?);
    pages.push(mutations::page()?);
    pages.push(alerts::page()?);
    Ok(pages)
}

/// Writes the pages that differ from their files. With `check`, writes nothing and returns a problem for each of these
/// pages.
fn write(pages: &[Page], check: bool) -> anyhow::Result<Vec<String>> {
    let directory = root().join("docs/reference");
    fs::create_dir_all(&directory)?;
    let mut stale = Vec::new();
    for page in pages {
        let text = render::page(page);
        let path = directory.join(&page.file);
        if fs::read_to_string(&path).is_ok_and(|former| former == text) {
            continue;
        }
        if check {
            let file = &page.file;
            stale.push(format!(
                "docs/reference/{file}: stale; run `cargo xtask docs` and commit the result"
            ));
        } else {
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            print(format!("written: docs/reference/{}", page.file))?;
        }
    }
    Ok(stale)
}
