//! Rules of the metadata of the template: the SSH keys of a virtual machine.

use ssh_key::{Certificate, Error, PublicKey};

use crate::admission::field_error::{ErrorSink, FieldError, FieldPath};
use crate::admission::workload_view::TemplateView;

/// Maximum number of lines with SSH keys. Each line can have two errors, and a line of two bytes costs as much memory
/// and time as a value of the spec.
const KEYS_MAX: usize = 1000;

/// Checks the SSH keys. `template` is the path of `values`. The paths in errors do not contain `metadata`. The Go
/// manager uses the same paths.
pub(super) fn check(
    template: &FieldPath<'_>,
    values: &TemplateView<'_>,
    report: &mut ErrorSink<'_>,
) {
    if values.spec.runtime.virtual_machine.is_none() {
        return;
    }
    let annotations = template.field("annotations");
    let annotation = annotations.key(api::annotations::SSH_KEYS);
    let Some(keys) = &values.metadata.annotations.ssh_keys else {
        return report(
            &annotation,
            FieldError::required("a virtual machine needs SSH keys, one user:key per line"),
        );
    };
    for (index, line) in keys.0.trim().split(['\n']).enumerate() {
        if index == KEYS_MAX {
            return report(
                &annotation,
                FieldError::too_many(format!("must have at most {KEYS_MAX} lines")),
            );
        }
        let path = annotation.element(index, line);
        let Some((user, key)) = line.split_once(':') else {
            report(&path, FieldError::invalid(line, "must be user:key"));
            continue;
        };
        if user.is_empty() {
            report(&path, FieldError::required("the user before the colon"));
        }
        if !is_entry(key.trim()) {
            let rule = "must be a public key of OpenSSH: type, key, comment";
            report(&path, FieldError::invalid(key, rule));
        }
    }
}

/// Returns whether the text is an entry of `authorized_keys` (sshd(8)): optional options, then the type, the key and a
/// comment.
fn is_entry(entry: &str) -> bool {
    is_key(entry) || after_options(entry).is_some_and(is_key)
}

fn is_key(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let (Some(type_), Some(base64)) = (words.next(), words.next()) else {
        return false;
    };
    // The library accepts only one blank between two words. The library also rejects some comments.
    let key = format!("{type_} {base64}");
    if !type_.ends_with("-cert-v01@openssh.com") {
        return PublicKey::from_openssh(&key).is_ok();
    }
    // The library rejects certificates that never expire.
    matches!(Certificate::from_openssh(&key), Ok(_) | Err(Error::Time))
}

/// Returns the text that starts at the first blank outside quotes.
fn after_options(entry: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let is_end = |c: char| {
        let ends = !quoted && c.is_ascii_whitespace();
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    let end = entry.find(is_end)?;
    entry.get(end..)
}
