//! Checks the properties in `fuzz/src/lib.rs` with each file of the corpus and with random edits of these files.
//! `PROPTEST_CASES` sets the number of edits.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// An edit of a text. The edit removes and inserts bytes at one position.
#[derive(Clone, Debug)]
struct Edit {
    at: Index,
    removed: usize,
    inserted: Vec<u8>,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    edits_with(vec![
        &b"null"[..],
        b"{}",
        b"[]",
        b"\"\"",
        b"-1",
        b"1e400",
        b"18446744073709551616",
        b"0.1",
        b"{",
        b"]",
        b"\"",
        b",",
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"\"status\":",
        b"\"replicas\":",
        b"\"CREATE\"",
        b"\"name\":",
        b"\"disk\":",
    ])
}

/// Edits with words of Lua.
fn script_edits() -> impl Strategy<Value = Vec<Edit>> {
    edits_with(vec![
        &b" nil "[..],
        b"{}",
        b"[1]",
        b" .. ",
        b"obj",
        b"#",
        b" for i = 1, 1e9 do t[i] = i end ",
        b"pcall(",
        b"setmetatable({}, {})",
        b"string.rep('x', 1e9)",
        b"('a'):find('%f[')",
        b"leaked = 1 ",
        b"string.find = nil ",
        b" return ",
        b" end ",
        b"(",
        b")",
        b"1e308",
        b"0/0",
        b"null",
        b"\\255",
    ])
}

fn edits_with(tokens: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<Edit>> {
    let token = prop::sample::select(tokens);
    let inserted = prop_oneof![
        3 => token.prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..4),
    ];
    let edit = (any::<Index>(), 0..12_usize, inserted);
    vec(
        edit.prop_map(|(at, removed, inserted)| Edit {
            at,
            removed,
            inserted,
        }),
        1..4,
    )
}

fn edited(text: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut text = text.to_vec();
    for Edit {
        at,
        removed,
        inserted,
    } in edits
    {
        let start = at.index(text.len() + 1);
        let end = (start + removed).min(text.len());
        text.splice(start..end, inserted.iter().copied());
    }
    text
}

#[test]
fn every_corpus_entry_passes() {
    for body in corpus("admit") {
        fuzz::admit(&body);
    }
    for body in corpus("interpret") {
        fuzz::interpret(&body);
    }
    for text in corpus("quantity") {
        fuzz::quantity(&text);
    }
    for text in corpus("script") {
        fuzz::script(&text);
    }
}

/// Deep nesting at any position must not exhaust the stack.
#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    for nested in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 18)] {
        fuzz::admit(nested.as_bytes());
        fuzz::interpret(nested.as_bytes());
        for body in corpus("admit") {
            let text = String::from_utf8_lossy(&body)
                .replace("{\"minReplicas\"", &format!("{nested}{{\"minReplicas\""));
            fuzz::admit(text.as_bytes());
        }
        for body in corpus("interpret") {
            let text = String::from_utf8_lossy(&body)
                .replace("{\"replicas\"", &format!("{nested}{{\"replicas\""));
            fuzz::interpret(text.as_bytes());
        }
    }
}

/// Returns a configuration with this number of cases, unless `PROPTEST_CASES` sets another one.
fn config(cases: u32) -> ProptestConfig {
    let set = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: set.and_then(|set| set.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn an_edited_workload_passes(which in any::<Index>(), edits in edits()) {
        let corpus = corpus("admit");
        fuzz::admit(&edited(&corpus[which.index(corpus.len())], &edits));
    }

    #[test]
    fn an_edited_body_passes(which in any::<Index>(), edits in edits()) {
        let corpus = corpus("interpret");
        fuzz::interpret(&edited(&corpus[which.index(corpus.len())], &edits));
    }

    #[test]
    fn an_edited_quantity_passes(which in any::<Index>(), edits in edits()) {
        let corpus = corpus("quantity");
        fuzz::quantity(&edited(&corpus[which.index(corpus.len())], &edits));
    }
}

proptest! {
    // A script takes longer than the other inputs.
    #![proptest_config(config(2_000))]

    #[test]
    fn an_edited_script_passes(which in any::<Index>(), edits in script_edits()) {
        let corpus = corpus("script");
        fuzz::script(&edited(&corpus[which.index(corpus.len())], &edits));
    }
}
