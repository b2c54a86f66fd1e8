//! Tests that the reference lists every rule file and every field.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use api::annotations::OF_REFERENCED_DATA;

use crate::admission::{InCrd, MUTATE_WORKLOAD, RULES, VALIDATE_DEPLOYMENT, VALIDATE_WORKLOAD};

/// Files in `rules/` without a rule for a field: the shared checks of names, and the tests.
const WITHOUT_FIELDS: [&str; 2] = ["names.rs", "tests.rs"];

fn files() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admission/rules");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let files = files.map(|name| name.into_string().unwrap());
    files
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|extension| extension == "rs")
        })
        .filter(|name| !WITHOUT_FIELDS.contains(&name.as_str()))
        .collect()
}

#[test]
fn every_file_of_rules_is_listed() {
    let listed: BTreeSet<_> = RULES.iter().map(|rule| rule.file.to_owned()).collect();
    assert_eq!(listed, files());
}

#[test]
fn every_field_that_a_file_checks_is_in_one_of_its_rules() {
    for file in files() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/admission/rules")
            .join(&file);
        let text = fs::read_to_string(path).unwrap();
        let rules = RULES.iter().filter(|rule| rule.file == file);
        let texts = rules.flat_map(|rule| [rule.field, rule.rule]);
        let words = texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        let words: BTreeSet<_> = words.collect();
        let fields = text
            .split(".field(\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        for field in fields {
            assert!(words.contains(field), "{file}: no rule names {field}");
        }
    }
}

#[test]
fn the_crd_has_only_rules_of_the_go_manager() {
    for rule in RULES.iter().filter(|rule| rule.is_added) {
        assert_eq!(rule.in_crd, InCrd::No, "{}: {}", rule.field, rule.rule);
    }
}

/// The API server calls the webhook of WorkloadDeployments only if one of the protected annotations changes.
#[test]
fn the_registrations_have_every_path_and_every_protected_annotation() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base/webhook");
    let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let validating = file("validating-webhook.yaml");
    for (text, path) in [
        (&file("mutating-webhook.yaml"), MUTATE_WORKLOAD),
        (&validating, VALIDATE_WORKLOAD),
        (&validating, VALIDATE_DEPLOYMENT),
    ] {
        assert!(text.contains(&format!("path: {path}\n")), "{path}");
    }
    for key in OF_REFERENCED_DATA {
        assert!(validating.contains(&format!("'{key}'")), "{key}");
    }
}
