//! Derives names and hashes from other names.

use std::iter;

use api::WorkloadDeployment;

/// The alphabet of Kubernetes' `SafeEncodeString`. It has no vowels, so a hash never contains a word by chance.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest name of most kinds of objects, in characters.
const OBJECT_NAME_MAX: usize = 253;
/// Longest value of a label, in characters. Names of WorkloadDeployments are used as label values too.
const LABEL_VALUE_MAX: usize = 63;

/// Returns a number that is almost surely another one for other parts. It never changes between versions.
pub(crate) fn number(parts: &[&str]) -> u64 {
    // The algorithm is FNV-1a. A zero byte ends each part, because no name contains a zero byte.
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns a hash of these parts. The hash is short enough for a name. The algorithm must never change, because names
/// on API servers contain its hashes.
pub(crate) fn hash(parts: &[&str]) -> String {
    let mut hash = number(parts);
    let mut name = String::new();
    while name.len() < 10 {
        let index = usize::try_from(hash % 27).unwrap_or_default();
        name.extend(SAFE.get(index).map(|letter| char::from(*letter)));
        hash /= 27;
    }
    name
}

/// Returns whether the text can be both the name of an object and a label value. It must be a DNS-1123 subdomain of at
/// most 63 characters.
pub(crate) fn is_name_and_label(name: &str) -> bool {
    name.len() <= LABEL_VALUE_MAX && is_subdomain(name)
}

/// Returns whether the text can be the name of an object: a DNS-1123 subdomain of at most 253 characters.
pub(crate) fn is_object_name(name: &str) -> bool {
    name.len() <= OBJECT_NAME_MAX && is_subdomain(name)
}

/// Returns whether the text has the characters of a DNS-1123 subdomain. The length is not checked.
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.split('.').all(is_label)
}

/// Returns `readable` followed by the hash. `readable` is shortened to fit, and invalid characters become `-`.
pub(crate) fn with_hash(readable: &str, hash: &str) -> String {
    let clean: String = readable
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .take(LABEL_VALUE_MAX - 1 - hash.len())
        .collect();
    match clean.trim_matches('-') {
        "" => hash.to_owned(),
        clean => format!("{clean}-{hash}"),
    }
}

/// Returns candidate names without end. The first is the readable name, if it is valid. The second is that name with a
/// hash of `parts`. The others have further hashes.
pub(crate) fn derived(readable: &str, parts: &[&str]) -> impl Iterator<Item = String> {
    let name = Some(readable.to_owned()).filter(|name| is_name_and_label(name));
    name.into_iter().chain(hashed(readable, parts))
}

/// Returns candidate names as [`derived`], for a kind whose names are no label values. The readable name may have 253
/// characters.
pub(crate) fn derived_object_names(readable: &str, parts: &[&str]) -> impl Iterator<Item = String> {
    let name = Some(readable.to_owned()).filter(|name| is_object_name(name));
    name.into_iter().chain(hashed(readable, parts))
}

/// Returns names with hashes, without end.
fn hashed(readable: &str, parts: &[&str]) -> impl Iterator<Item = String> {
    let salted = (1_u64..).map(move |salt| hash(&[parts, &[&salt.to_string()]].concat()));
    let hashes = iter::once(hash(parts)).chain(salted);
    hashes.map(|hash| with_hash(readable, &hash))
}

/// Returns the first derived name that is free (I-27).
pub(crate) fn first_free(
    readable: &str,
    parts: &[&str],
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let mut names = derived(readable, parts);
    let free = names.find(|name| !is_taken(name));
    free.unwrap_or_else(|| readable.to_owned())
}

/// Returns the name of the Instance of this ordinal.
pub(crate) fn instance_name(deployment: &str, ordinal: i32) -> String {
    format!("{deployment}-{ordinal}")
}

/// Returns the ordinal in this name, if it is the name of an Instance of this WorkloadDeployment.
pub(crate) fn instance_ordinal(deployment: &str, name: &str) -> Option<i32> {
    let rest = name.strip_prefix(deployment)?.strip_prefix('-')?;
    let ordinal: i32 = rest.parse().ok()?;
    (ordinal >= 0 && instance_name(deployment, ordinal) == name).then_some(ordinal)
}

/// Returns the ordinal in this name, if the WorkloadDeployment wants an Instance of this name.
pub(crate) fn wanted_ordinal(deployment: &WorkloadDeployment, name: &str) -> Option<i32> {
    let wanted = 0..deployment.spec.desired_replicas();
    instance_ordinal(deployment.metadata.name.as_deref()?, name)
        .filter(|ordinal| wanted.contains(ordinal))
}

/// Returns the name of the WorkloadDeployment of an Instance of this name.
pub(crate) fn deployment_of_instance(name: &str) -> Option<&str> {
    let (deployment, _) = name.rsplit_once('-')?;
    instance_ordinal(deployment, name).map(|_| deployment)
}

/// Returns the name of the copy of an Instance whose own name cannot be used on the hub. The name is a DNS label of at
/// most 63 characters. Instances of different cells get different names. Only a name of an Instance with an ordinal of
/// ten digits could be equal, and no such Instance exists.
pub(crate) fn copy_name(instance: &str, cell: &str) -> String {
    with_hash(instance, &hash(&[cell, instance]))
}

/// Returns whether the text is a DNS label (RFC 1123): at most 63 lower case letters, digits and `-`.
pub(crate) fn is_dns_label(name: &str) -> bool {
    is_name_and_label(name) && !name.contains('.')
}

/// Returns a label value for a name of any length and form.
pub(crate) fn label_value(name: &str) -> String {
    if is_label_value(name) {
        name.to_owned()
    } else {
        with_hash(name, &hash(&[name]))
    }
}

/// Returns whether the text can be a label value. A label value has at most 63 letters, digits, `-`, `_` and `.`, and
/// begins and ends with a letter or a digit.
fn is_label_value(text: &str) -> bool {
    let at_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LABEL_VALUE_MAX
        && text
            .chars()
            .all(|c| at_end(c) || matches!(c, '-' | '_' | '.'))
        && (text.is_empty() || text.starts_with(at_end) && text.ends_with(at_end))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hashes_are_stable_and_tell_parts_apart() {
        assert_eq!(hash(&["a", "b-c"]), "946w4jmp8x");
        assert_ne!(hash(&["a", "b-c"]), hash(&["a-b", "c"]));
        assert_eq!(hash(&[]).len(), 10);
    }

    /// I-27: no derived name is one that is taken.
    #[test]
    fn the_first_free_name_is_taken_however_many_are_not() {
        let parts = ["uid", "us", "DFW"];
        for readable in ["web-us-dfw", "Web US"] {
            let mut taken = BTreeSet::new();
            for expected in derived(readable, &parts).take(20).collect::<Vec<_>>() {
                let name = first_free(readable, &parts, |name| taken.contains(name));
                assert_eq!(name, expected);
                assert!(is_name_and_label(&name), "{name}");
                assert!(taken.insert(name));
            }
        }
        let names: Vec<_> = derived("web", &parts).take(2).collect();
        // Names on API servers have this form.
        assert_eq!(names, ["web".to_owned(), with_hash("web", &hash(&parts))]);
    }

    #[test]
    fn names_of_objects_are_readable_if_they_can_be() {
        let first = |readable: &str| derived_object_names(readable, &["p"]).next().unwrap();
        let long = "a".repeat(253);
        for readable in ["web-net-0", "a.b-net-0", &long] {
            assert_eq!(first(readable), readable);
        }
        for readable in ["web-0-Eth0", "web-0-a_b", "web-0-x-", &format!("{long}a")] {
            let name = first(readable);
            assert!(
                is_name_and_label(&name) && name.ends_with(&hash(&["p"])),
                "{name}"
            );
        }
        let names: BTreeSet<_> = derived_object_names("web", &["p"]).take(20).collect();
        assert_eq!(names.len(), 20);
    }

    #[test]
    fn names_of_copies_tell_cells_apart_and_are_dns_labels() {
        let long = format!("{}-7", "x".repeat(63));
        for name in ["web-us-dfw-0", "web.us-0", &long] {
            let names: BTreeSet<_> = ["dfw1", "dfw2", "dfw-1"]
                .iter()
                .map(|cell| copy_name(name, cell))
                .collect();
            assert_eq!(names.len(), 3);
            assert!(names.iter().all(|name| is_dns_label(name)), "{names:?}");
        }
        assert!(!is_dns_label("web.us-0") && !is_dns_label(&long));
        // Names on API servers have this form.
        assert_eq!(copy_name("web-0", "dfw1"), "web-0-kvp2c2cmn9");
    }

    #[test]
    fn derived_names_are_names() {
        let long = "x".repeat(300);
        for readable in [
            "web-default-dfw",
            "Web Default",
            "---",
            "münchen",
            "",
            long.as_str(),
        ] {
            let name = with_hash(readable, &hash(&[readable]));
            assert!(is_name_and_label(&name), "{name}");
        }
        for name in ["web", "US_East.1", ""] {
            assert_eq!(label_value(name), name);
        }
        for name in ["US East", "-us", "us.", "münchen"] {
            assert!(is_label_value(&label_value(name)), "{name}");
        }
        assert!(is_name_and_label(&label_value(&long)));
    }
}
