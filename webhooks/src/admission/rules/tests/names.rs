//! Tests that the patterns of the CRD accept exactly the names that admission accepts.

use api::allowed::{DNS_LABEL, DNS_LABEL_MAX, PORT_NAME, PORT_NAME_MAX};
use regex::Regex;

use crate::admission::field_error::FieldPath;
use crate::admission::rules::names::{check_port_name, is_valid_label};

/// Returns every text of at most 5 of these characters: the kinds that the rules of names tell apart.
fn texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut begin = 0;
    for _ in 0..5 {
        let end = texts.len();
        for at in begin..end {
            for character in ['a', '0', '-', 'A', '\n'] {
                texts.push(format!("{}{character}", texts[at]));
            }
        }
        begin = end;
    }
    texts
}

#[test]
fn the_pattern_of_a_label_is_the_rule() {
    let pattern = Regex::new(DNS_LABEL).unwrap();
    for text in texts() {
        assert_eq!(pattern.is_match(&text), is_valid_label(&text), "{text:?}");
    }
    assert!(is_valid_label(&"a".repeat(DNS_LABEL_MAX)));
    assert!(!is_valid_label(&"a".repeat(DNS_LABEL_MAX + 1)));
}

#[test]
fn the_pattern_of_a_port_name_is_the_rule() {
    let pattern = Regex::new(PORT_NAME).unwrap();
    let is_valid = |text: &str| {
        let mut errors = 0;
        check_port_name(&FieldPath::root("name"), text, &mut |_, _| errors += 1);
        errors == 0
    };
    // An empty name is reported as missing.
    for text in texts().iter().filter(|text| !text.is_empty()) {
        assert_eq!(pattern.is_match(text), is_valid(text), "{text:?}");
    }
    assert!(is_valid(&"a".repeat(PORT_NAME_MAX)));
    assert!(!is_valid(&"a".repeat(PORT_NAME_MAX + 1)));
}
