//! `admission.md`: how admission decides, and its rules.

use webhooks::admission::{MUTATE_WORKLOAD, RULES, VALIDATE_WORKLOAD};

use super::page::{Page, Section, code};

pub(super) fn page() -> Page {
    let mut sections = vec![
        Section::text([
            format!(
                "`{VALIDATE_WORKLOAD}` reports all errors of a Workload at once: one `Invalid` status with a cause for each field, in a \
                 fixed order. The first hundred are listed. `{MUTATE_WORKLOAD}` changes nothing yet."
            ),
            "Every replica serves both, leader or not, once it is ready: when the projects and the LocationBindings of each are listed, \
             or 10 s after."
                .to_owned(),
            "An answer stays below 256 KiB, whatever the object. An error shows 128 bytes of a value, and 400 bytes of the supported \
             values (54 cities of three letters). It gives the number of bytes or values that are not shown."
                .to_owned(),
        ]),
        Section::named(
            "What a decision rests on",
            [
                "- *Project*: Milo names the request's project in the requester's claims: `iam.miloapis.com/parent-type` must be \
                 `Project`, and `iam.miloapis.com/parent-name` is its name. With `mode: single` it is the own cluster. A request that \
                 names no project is forbidden. A request for an unknown project is answered with 503, because Milo has just let it in.\n\
                 - *Cities* are those of the project's LocationBindings that do not say `Available=False`.\n\
                 - *Networks*: the project's API server is asked for each Network whether the requester may `use` it, with the user, UID, \
                 groups and all claims of the request. One request asks about 256 new Networks; further ones are refused.\n\
                 - *An undecidable request is not a refusal.* If the cities are unknown, the answer is 503 with `retryAfterSeconds`, and \
                 `kubectl` asks again by itself. A review that fails, or is not answered 250 ms before the caller's deadline, is an \
                 `InternalError` at the field.",
            ],
        ),
        Section::named(
            "Updates",
            [
                "An update is refused only for errors that it adds.",
                "- An error that the object had before, with the same value at the same place, does not count. List elements are matched \
                 by their names. If the update is accepted, `warnings` of the answer name the first eight such errors.\n\
                 - Networks and cities that the object has already are not checked again.\n\
                 - A change that does not touch the `spec`, or concerns a terminating object, always passes.\n\
                 - Elements that share a `deviceName` or a `mountPath` may change their order, and no other element may join them.\n\
                 - Metrics of one name cannot be told apart: as many of them may have an error as had it before.\n\
                 - A `maxReplicas` below `minReplicas` counts as changed when either has changed.",
            ],
        ),
    ];
    let mut files = Vec::new();
    for rule in RULES {
        if !files.contains(&rule.file) {
            files.push(rule.file);
        }
    }
    for file in files {
        let rows = RULES.iter().filter(|rule| rule.file == file).map(|rule| {
            let added = if rule.is_added { "yes" } else { "" };
            vec![code(rule.field), rule.rule.to_owned(), added.to_owned()]
        });
        let heading = format!("Rules of {}", file.trim_end_matches(".rs"));
        let path = format!("Source: `webhooks/src/admission/rules/{file}`.");
        let section = Section::named(&heading, [path]);
        sections.push(section.table(["field", "rule", "added to the Go manager's"], rows));
    }
    Page {
        file: "admission.md",
        title: "Admission rules",
        sections,
    }
}
