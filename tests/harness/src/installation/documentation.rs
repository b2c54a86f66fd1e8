//! Reads the commands and the files of a page of the documentation.

use std::fs;

use crate::checkout;
use anyhow::Context;

/// A page.
pub(crate) struct Page {
    path: String,
    blocks: Vec<Block>,
}

/// A block of code.
struct Block {
    heading: String,
    /// The last line before the block.
    before: String,
    language: String,
    text: String,
}

impl Page {
    /// Reads a page, such as `docs/operate/deploy.md`.
    pub(super) fn read(path: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(checkout::root().join(path));
        Ok(Self {
            path: path.to_owned(),
            blocks: blocks(&text.with_context(|| path.to_owned())?),
        })
    }

    /// Returns the text of a file. The page has its name in a line of its own, as `` `name`: ``, and then the block.
    pub(super) fn file(&self, name: &str) -> anyhow::Result<&str> {
        let before = format!("`{name}`:");
        let block = self.blocks.iter().find(|block| block.before == before);
        let block = block.with_context(|| format!("{}: no file {name}", self.path))?;
        Ok(&block.text)
    }

    /// Returns the first block of a language below a heading.
    pub(super) fn block(&self, heading: &str, language: &str) -> anyhow::Result<&str> {
        self.nth(heading, language, 0)
    }

    /// Returns all blocks of a language below a heading.
    pub(super) fn all(&self, heading: &str, language: &str) -> Vec<&str> {
        let is_it = |block: &&Block| block.heading == heading && block.language == language;
        let blocks = self.blocks.iter().filter(is_it);
        blocks.map(|block| block.text.as_str()).collect()
    }

    /// Returns a block of a language below a heading. The first one has the index 0.
    pub(super) fn nth(&self, heading: &str, language: &str, index: usize) -> anyhow::Result<&str> {
        let block = self.all(heading, language).into_iter().nth(index);
        block.with_context(|| {
            format!(
                "{}: no block {index} of {language} below {heading:?}",
                self.path
            )
        })
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let (mut heading, mut before) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            match open.take() {
                Some(block) => blocks.push(block),
                None => {
                    open = Some(Block {
                        heading: heading.clone(),
                        before: std::mem::take(&mut before),
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
            }
        } else if let Some(block) = &mut open {
            block.text.extend([line, "\n"]);
        } else if line.starts_with('#') {
            line.trim_start_matches(['#', ' ']).clone_into(&mut heading);
        } else if !line.is_empty() {
            line.clone_into(&mut before);
        }
    }
    blocks
}
