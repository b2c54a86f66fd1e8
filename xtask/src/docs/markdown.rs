//! The parts of a Markdown file that are checked: headings, links and code.

/// A part of a file, and the number of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkdownPart {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The parts of a file that are checked.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Anchors of the headings.
    pub(super) anchors: Vec<String>,
    /// Targets of links.
    pub(super) links: Vec<MarkdownPart>,
    /// Code spans within a line.
    pub(super) spans: Vec<MarkdownPart>,
    /// Lines of code blocks.
    pub(super) blocks: Vec<MarkdownPart>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut is_fenced = false;
        let mut may_indent = true;
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
                continue;
            }
            let is_indented = may_indent && line.starts_with("    ") && !is_list(line);
            if is_fenced || is_indented {
                document.blocks.push(MarkdownPart {
                    line: line_number,
                    text: line.to_owned(),
                });
                continue;
            }
            // An indented line after a line of text continues the text.
            may_indent = line.trim().is_empty();
            if line.starts_with('#') {
                document.heading(line.trim_start_matches('#').trim());
            }
            document.read_line(line_number, line);
        }
        document
    }

    fn heading(&mut self, text: &str) {
        let slug = slug(text);
        let repeated = |anchor: &&String| {
            **anchor == slug
                || anchor
                    .strip_prefix(&format!("{slug}-"))
                    .is_some_and(|n| n.parse::<u32>().is_ok())
        };
        let anchor = match self.anchors.iter().filter(repeated).count() {
            0 => slug,
            count => format!("{slug}-{count}"),
        };
        self.anchors.push(anchor);
    }

    fn read_line(&mut self, line: usize, text: &str) {
        // The text between two backticks is code, so every second piece is code.
        for (index, piece) in text.split('`').enumerate() {
            if index % 2 == 1 {
                let text = piece.to_owned();
                self.spans.push(MarkdownPart { line, text });
            }
        }
        let prose: String = text
            .split('`')
            .step_by(2)
            .collect::<Vec<_>>()
            .join("\u{b7}");
        for rest in prose.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                let text = target.to_owned();
                self.links.push(MarkdownPart { line, text });
            }
        }
    }
}

fn is_list(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("- ") || text.starts_with("* ")
}

/// Returns the anchor that GitHub and mdBook create for a heading.
fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c })
        .collect::<String>()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_anchors_links_and_code() {
        let text = "# The hub's `etcd`, again\n\n## Again\n## Again\nSee [it](a.md#b), `c/d.rs`\n    and on.\n\n    \
            cargo xtask demo\n\n```sh\ncargo xtask peers\n```\n`[no](link)`\n";
        let document = Document::parse(text);
        assert_eq!(
            document.anchors,
            ["the-hubs-etcd-again", "again", "again-1"]
        );
        let texts = |parts: &[MarkdownPart]| {
            parts
                .iter()
                .map(|part| part.text.trim().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&document.links), ["a.md#b"]);
        assert_eq!(texts(&document.spans), ["etcd", "c/d.rs", "[no](link)"]);
        assert_eq!(
            texts(&document.blocks),
            ["cargo xtask demo", "cargo xtask peers"]
        );
        assert_eq!(document.links[0].line, 5);
    }
}
