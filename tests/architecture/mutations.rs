//! Checks that `tests/mutations.yaml` fits the source. `cargo xtask test mutations` runs the mutations.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;

use super::{invariants, sources};

#[derive(Deserialize)]
struct Mutation {
    invariant: String,
    file: String,
    find: String,
    replace: String,
    package: String,
    target: String,
    test: String,
}

#[test]
fn every_invariant_has_a_mutation_that_fits_the_source() {
    let root = harness::checkout::root();
    let text = fs::read_to_string(root.join("tests/mutations.yaml")).unwrap();
    let mutations: Vec<Mutation> = serde_saphyr::from_str(&text).unwrap();
    let mut mutated = BTreeSet::new();
    for mutation in &mutations {
        let Mutation {
            invariant,
            file,
            find,
            replace,
            ..
        } = mutation;
        let source = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(source.matches(find.as_str()).count(), 1, "{file}: {find:?}");
        assert_ne!(find, replace, "{invariant}");
        assert_names_its_invariant(mutation);
        mutated.insert(invariant.trim_start_matches("I-").to_owned());
    }
    assert_eq!(
        mutated,
        invariants(),
        "add the mutation to tests/mutations.yaml"
    );
}

/// Checks that the test exists, and that a line such as `/// I-8: …` above it names the invariant.
fn assert_names_its_invariant(mutation: &Mutation) {
    let Mutation {
        invariant,
        package,
        target,
        test,
        ..
    } = mutation;
    let folder = match target.as_str() {
        "lib" => format!("{package}/src"),
        _ => "tests".to_owned(),
    };
    let name = test.rsplit("::").next().unwrap();
    let function = format!("fn {name}(");
    let sources = sources(&folder);
    let mut found = sources.iter().filter(|(_, text)| text.contains(&function));
    let (Some((file, text)), None) = (found.next(), found.next()) else {
        panic!("{folder}: not exactly one file has the test {name} of {invariant}");
    };
    let above = text.split(&function).next().unwrap();
    let mut comment = above.lines().rev().skip(1).map(str::trim);
    let mut comment = comment
        .by_ref()
        .take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let names = |line: &str| {
        let numbers = line.strip_prefix("/// ").and_then(|it| it.split_once(": "));
        numbers.is_some_and(|(numbers, _)| numbers.split(", ").any(|number| number == invariant))
    };
    assert!(
        comment.any(names),
        "{file}: {name} does not name {invariant}"
    );
}
