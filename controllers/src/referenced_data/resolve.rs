//! Decides which ConfigMaps and Secrets a WorkloadDeployment needs, and what is wrong with them. Nothing here keeps or
//! shows a value of a source.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::MESSAGE_MAX;
use api::reasons::referenced_data as reason;
use api::references::{References, Source, Use};

use super::version::{Problem, SourceVersion};

/// Longest name of a source, in bytes. Karmada derives names of other objects from it.
pub(super) const NAME_MAX: usize = 243;
/// Largest sum of the values of one source, in bytes.
pub(super) const SOURCE_MAX: usize = 262_144;
/// Largest sum of the values of all sources of a WorkloadDeployment, in bytes.
pub(super) const DEPLOYMENT_MAX: usize = 1_048_576;

/// The facts about a source that are kept instead of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceFacts {
    pub(crate) version: SourceVersion,
    /// Sum of the values, in bytes.
    pub(crate) bytes: usize,
    /// The keys, and whether the value can be an environment variable: it is UTF-8, and not in `binaryData`.
    pub(crate) keys: BTreeMap<String, bool>,
}

impl SourceFacts {
    /// Returns the facts about the values of a source. The keys of a source that is too large are not kept.
    pub(super) fn new<'v>(
        version: SourceVersion,
        values: impl Iterator<Item = (&'v str, &'v [u8], bool)> + Clone,
    ) -> Self {
        let bytes = values.clone().map(|(_, value, _)| value.len()).sum();
        let keys = match bytes > SOURCE_MAX {
            true => BTreeMap::new(),
            false => values
                .map(|(key, value, may_be_text)| {
                    let is_text = may_be_text && std::str::from_utf8(value).is_ok();
                    (key.to_owned(), is_text)
                })
                .collect(),
        };
        Self {
            version,
            bytes,
            keys,
        }
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.bytes > SOURCE_MAX
    }
}

/// The result of a look at a source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Facts(SourceFacts),
    Missing,
    /// The API server of the project refuses to show the source.
    Unauthorized,
}

/// The sources that a WorkloadDeployment needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Resolved {
    pub(super) sources: BTreeMap<Source, SourceVersion>,
    /// Optional sources that are too large or may not be read. Those that are listed stay listed.
    pub(super) unusable: BTreeSet<Source>,
}

/// Returns the sources that exist, or what is wrong with them. An optional source that is missing, too large or may not
/// be read is skipped.
///
/// # Errors
///
/// The first problem, in the order of their severity. The message names all sources that have it.
pub(super) fn resolve(
    references: &References,
    found: &BTreeMap<Source, Found>,
) -> Result<Resolved, Problem> {
    let too_long = references.keys().filter(|it| it.name.len() > NAME_MAX);
    let have = format!("have a name that is longer than {NAME_MAX} characters");
    fail(reason::NAME_TOO_LONG, too_long, &have)?;
    let required = |is_so: fn(&Found) -> bool| {
        let required = references.iter().filter(|(_, it)| !it.is_optional);
        required
            .filter(move |(source, _)| is_so(found.get(source).unwrap_or(&Found::Missing)))
            .map(|(source, _)| source)
    };
    let missing = required(|it| *it == Found::Missing);
    fail(reason::NOT_FOUND, missing, "do not exist in the namespace")?;
    let unauthorized = required(|it| *it == Found::Unauthorized);
    let have = "must not be read by compute-federation";
    fail(reason::UNAUTHORIZED, unauthorized, have)?;
    let too_large = required(|it| matches!(it, Found::Facts(facts) if facts.is_too_large()));
    let have = format!("have more than {SOURCE_MAX} bytes");
    fail(reason::TOO_LARGE, too_large, &have)?;

    let there: Vec<_> = references
        .iter()
        .filter_map(|(source, used)| match found.get(source) {
            Some(Found::Facts(facts)) if !facts.is_too_large() => Some((source, used, facts)),
            _ => None,
        })
        .collect();
    let bytes: usize = there.iter().map(|(_, _, facts)| facts.bytes).sum();
    if bytes > DEPLOYMENT_MAX {
        let message = format!(
            "the ConfigMaps and Secrets of the template have {bytes} bytes together, more than {DEPLOYMENT_MAX}"
        );
        return Err(problem(reason::TOO_LARGE, &message));
    }
    let mut without_key = Vec::new();
    let mut no_text = Vec::new();
    for (source, used, facts) in &there {
        let Use { keys, all_text, .. } = used;
        for (key, key_use) in keys {
            match facts.keys.get(key) {
                None if key_use.is_required => without_key.push(format!("{source} key {key}")),
                Some(false) if key_use.is_text => no_text.push(format!("{source} key {key}")),
                _ => {}
            }
        }
        if *all_text {
            // As for a variable, but the values of `binaryData` are no variables.
            let all = facts.keys.iter().filter(|(key, is_text)| {
                !**is_text && !keys.contains_key(*key) && source.kind.values_are_bytes()
            });
            no_text.extend(all.map(|(key, _)| format!("{source} key {key}")));
        }
    }
    fail(reason::KEY_NOT_FOUND, without_key, "do not exist")?;
    fail(
        reason::VALUE_NOT_TEXT,
        no_text,
        "are not UTF-8, so they cannot be environment variables",
    )?;
    let sources = there.into_iter();
    let sources = sources.map(|(source, _, facts)| (source.clone(), facts.version.clone()));
    let unusable = references.keys().filter(|source| match found.get(source) {
        Some(Found::Unauthorized) => true,
        Some(Found::Facts(facts)) => facts.is_too_large(),
        Some(Found::Missing) | None => false,
    });
    Ok(Resolved {
        sources: sources.collect(),
        unusable: unusable.cloned().collect(),
    })
}

/// Returns a problem that names these things, if there are any.
fn fail<T: ToString>(
    reason: &str,
    things: impl IntoIterator<Item = T>,
    have: &str,
) -> Result<(), Problem> {
    let things: Vec<_> = things.into_iter().map(|it| it.to_string()).collect();
    match things.is_empty() {
        true => Ok(()),
        false => Err(problem(reason, &format!("{} {have}", things.join(", ")))),
    }
}

fn problem(reason: &str, message: &str) -> Problem {
    // An annotation repeats the message.
    Problem {
        reason: reason.to_owned(),
        message: message.chars().take(MESSAGE_MAX / 4).collect(),
    }
}

#[cfg(test)]
mod tests {
    use api::references::KeyUse;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn source(text: &str) -> Source {
        Source::parse(text).unwrap()
    }

    fn version() -> SourceVersion {
        let metadata = ObjectMeta {
            uid: Some("u".into()),
            resource_version: Some("1".into()),
            ..ObjectMeta::default()
        };
        SourceVersion::of(&metadata).unwrap()
    }

    fn facts(values: &[(&str, &[u8])]) -> Found {
        let values = values.iter().map(|(key, value)| (*key, *value, true));
        Found::Facts(SourceFacts::new(version(), values))
    }

    fn uses(is_optional: bool, keys: &[(&str, bool, bool)]) -> Use {
        let keys = keys.iter().map(|(key, is_required, is_text)| {
            let key_use = KeyUse {
                is_required: *is_required,
                is_text: *is_text,
            };
            ((*key).to_owned(), key_use)
        });
        Use {
            is_optional,
            keys: keys.collect(),
            all_text: false,
        }
    }

    /// Returns the names of the resolved sources, or the reason and the message.
    fn of(all: &[(&str, Use, Found)]) -> Result<String, (String, String)> {
        let references = all.iter().map(|(it, used, _)| (source(it), used.clone()));
        let found = all.iter().map(|(it, _, found)| (source(it), found.clone()));
        let resolved = resolve(&references.collect(), &found.collect());
        let resolved = resolved.map_err(|it| (it.reason, it.message))?;
        let names: Vec<_> = resolved.sources.keys().map(ToString::to_string).collect();
        Ok(names.join(" "))
    }

    fn refused(reason: &str, message: &str) -> Result<String, (String, String)> {
        Err((reason.to_owned(), message.to_owned()))
    }

    #[test]
    fn each_problem_has_a_reason_and_names_its_sources() {
        let (required, optional) = (uses(false, &[]), uses(true, &[]));
        let small = facts(&[("k", b"v")]);
        let large = facts(&[("k", &vec![0; SOURCE_MAX + 1])]);
        assert_eq!(of(&[]), Ok(String::new()));
        let both = [
            ("Secret/b", required.clone(), small.clone()),
            ("ConfigMap/a", required.clone(), small.clone()),
        ];
        assert_eq!(of(&both), Ok("ConfigMap/a Secret/b".to_owned()));
        for (found, reason, problem) in [
            (
                Found::Missing,
                reason::NOT_FOUND,
                "do not exist in the namespace",
            ),
            (
                Found::Unauthorized,
                reason::UNAUTHORIZED,
                "must not be read by compute-federation",
            ),
            (
                large.clone(),
                reason::TOO_LARGE,
                "have more than 262144 bytes",
            ),
        ] {
            let both = ["ConfigMap/a", "Secret/a"].map(|it| (it, required.clone(), found.clone()));
            let message = format!("ConfigMap/a, Secret/a {problem}");
            assert_eq!(of(&both), refused(reason, &message));
            let skipped = [
                ("ConfigMap/a", optional.clone(), found),
                ("Secret/b", required.clone(), small.clone()),
            ];
            assert_eq!(of(&skipped), Ok("Secret/b".to_owned()));
        }
        let long = format!("ConfigMap/{}", "a".repeat(NAME_MAX + 1));
        let (found, _) = of(&[(&long, optional, Found::Missing)]).unwrap_err();
        assert_eq!(found, reason::NAME_TOO_LONG);
    }

    #[test]
    fn the_sources_of_a_deployment_have_a_limit_together() {
        let names = ["a", "b", "c", "d", "e"].map(|it| format!("Secret/{it}"));
        let largest = facts(&[("k", &vec![0; SOURCE_MAX])]);
        let all: Vec<_> = names
            .iter()
            .map(|it| (it.as_str(), uses(false, &[]), largest.clone()))
            .collect();
        assert!(of(&all[..4]).is_ok());
        assert_eq!(of(&all).unwrap_err().0, reason::TOO_LARGE);
    }

    #[test]
    fn a_key_must_exist_and_be_text_where_the_template_uses_it() {
        let found = facts(&[("text", b"v"), ("bytes", &[0xff])]);
        let of =
            |keys: &[(&str, bool, bool)]| of(&[("Secret/a", uses(false, keys), found.clone())]);
        let fine = Ok("Secret/a".to_owned());
        assert_eq!(of(&[("text", true, true), ("bytes", true, false)]), fine);
        assert_eq!(of(&[("other", false, true)]), fine);
        let missing = "Secret/a key other do not exist";
        assert_eq!(
            of(&[("other", true, false)]),
            refused(reason::KEY_NOT_FOUND, missing)
        );
        let bytes = "Secret/a key bytes are not UTF-8, so they cannot be environment variables";
        assert_eq!(
            of(&[("bytes", false, true)]),
            refused(reason::VALUE_NOT_TEXT, bytes)
        );
    }

    #[test]
    fn all_keys_of_a_secret_are_text_where_all_are_variables() {
        let all = Use {
            all_text: true,
            ..uses(false, &[])
        };
        let found = facts(&[("text", b"v"), ("bytes", &[0xff])]);
        let refused = of(&[("Secret/a", all.clone(), found.clone())]).unwrap_err();
        assert_eq!(refused.0, reason::VALUE_NOT_TEXT);
        // The variables come from `data` of a ConfigMap, which is always text.
        assert_eq!(
            of(&[("ConfigMap/a", all, found)]),
            Ok("ConfigMap/a".to_owned())
        );
    }
}
