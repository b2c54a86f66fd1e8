//! `admission.md`: how admission decides, and its rules.

use api::annotations::OF_REFERENCED_DATA;
use webhooks::admission::{InCrd, MUTATE_WORKLOAD, RULES, VALIDATE_DEPLOYMENT, VALIDATE_WORKLOAD};

use super::page::{Page, Section, code};

pub(super) fn page() -> Page {
    let mut sections = vec![
        Section::text([
            format!(
                "`{VALIDATE_WORKLOAD}` reports all errors of a Workload at once: one `Invalid` status with a cause for each field, in a \
                 fixed order. The first hundred are listed. `{MUTATE_WORKLOAD}` changes nothing yet. `{VALIDATE_DEPLOYMENT}` protects \
                 annotations of WorkloadDeployments."
            ),
            "Every replica serves all paths, leader or not. A replica is ready when it has listed the projects and the \
             LocationBindings of each project. It waits at most 10 s for the LocationBindings of a project."
                .to_owned(),
            "An answer is always smaller than 256 KiB. An error shows at most 128 bytes of a value, and at most 400 bytes of the \
             supported values (54 cities of three letters). It gives the number of bytes or values that are not shown."
                .to_owned(),
        ]),
        Section::named(
            "What a decision rests on",
            [
                "- *Project*: Milo names the request's project in `userInfo.extra` of the requester: `iam.miloapis.com/parent-type` must be \
                 `Project`, and `iam.miloapis.com/parent-name` is the name of the project. With `mode: single`, the project is the own \
                 cluster. A request that names no project is forbidden. A request for an unknown project gets a 503: Milo has \
                 just admitted the request, so the project exists.\n\
                 - *Cities* are those of the project's LocationBindings whose condition is not `Available=False`. While the \
                 LocationBindings cannot be read, the last known cities are used for one minute, if they contain all cities that the \
                 request adds.\n\
                 - *Networks*: for each Network, admission asks the project's API server whether the requester may `use` it. The \
                 question has the user, UID, groups and all claims of the request.\n\
                 - *ConfigMaps and Secrets*: the same, whether the requester may `get` each object that the template uses, also an \
                 optional one. An object is asked about once, even if the template uses it several times. At most 256 new Networks, \
                 ConfigMaps and Secrets of a request are checked, in this order, and at most 32 at a time. Further ones are refused.\n\
                 - *A missing fact is not a refusal.* If the cities are unknown, the answer is 503 with `retryAfterSeconds`, and \
                 `kubectl` repeats the request automatically. If an access review fails, or is not answered 250 ms before the caller's \
                 deadline, the answer has an `InternalError` at the field.",
            ],
        ),
        Section::named(
            "Updates",
            [
                "An update is refused only for errors that it adds.",
                "- An error that the object had before, with the same value at the same place, does not count. List elements are matched \
                 by their names. If the update is accepted, `warnings` of the answer name the first eight such errors.\n\
                 - Networks, ConfigMaps and Secrets that the object has already are not checked again, wherever it uses them. A city is not checked again in a placement that had the \
                 city already. Placements are matched by their names, so all cities of a renamed placement are checked.\n\
                 - A change that does not touch the `spec` is always accepted. A change of a terminating object is accepted too.\n\
                 - Elements that share a `deviceName` or a `mountPath` may change their order, but no further element may use the same \
                 value.\n\
                 - Metrics of the same name cannot be distinguished. The number of such metrics with an error must not grow.\n\
                 - A `maxReplicas` below `minReplicas` counts as a new error if one of the two fields has changed.",
            ],
        ),
        protected_annotations(),
        static_rules(),
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
            let in_crd = match rule.in_crd {
                InCrd::No => "",
                InCrd::Schema => "schema",
                InCrd::Cel => "CEL",
            };
            vec![
                code(rule.field),
                rule.rule.to_owned(),
                in_crd.to_owned(),
                added.to_owned(),
            ]
        });
        let heading = format!("Rules of {}", file.trim_end_matches(".rs"));
        let path = format!("Source: `webhooks/src/admission/rules/{file}`.");
        let section = Section::named(&heading, [path]);
        sections.push(section.table(
            ["field", "rule", "in the CRD", "added to the Go manager's"],
            rows,
        ));
    }
    Page {
        file: "admission.md",
        title: "Admission rules",
        sections,
    }
}

/// Explains which part checks which rule.
fn static_rules() -> Section {
    Section::named(
        "Static rules",
        [
            "The webhook checks every rule. The column *in the CRD* shows the rules that the CRD of Workload has too, as keywords of \
             its schema or as CEL expressions. They apply even if no webhook is registered. The API server checks them before it calls \
             the webhook, so a user sees their errors first.",
            "- The CRD and the webhook take their numbers and lists of values from `api/src/allowed.rs`.\n\
             - The webhook alone has the rules that need facts from outside the object, compare two long lists, or read a quantity. \
             CEL rules of these kinds cost more than an API server allows.\n\
             - The webhook alone has the rules that the Go manager does not have. Workloads that the Go manager accepted stay \
             valid for the API server.\n\
             - An API server accepts an update if the values that a broken rule reads stay the same. It compares the whole list \
             `placements`, and the whole list `networkInterfaces`. So after a change of one placement, all placements must be \
             without errors. For the rules of SSH keys and boot disk it compares the whole template.\n\
             - WorkloadDeployments and Instances have none of these rules: controllers and Karmada write them.",
        ],
    )
}

/// Returns the annotations of WorkloadDeployments that only some users may change.
fn protected_annotations() -> Section {
    let rows = OF_REFERENCED_DATA.map(|key| {
        let who = "the users in `referencedData.resolverUsernames`, and the group `system:masters`";
        vec![code(key), who.to_owned()]
    });
    Section::named(
        "Annotations of WorkloadDeployments",
        [
            "The annotations about [referenced data](../concepts/referenced-data.md#admission) may be added, changed and removed by \
             these users only. The answer to another user is 403. Every other change of a WorkloadDeployment is accepted, and needs no \
             answer of the webhook server.",
        ],
    )
    .table(["annotation", "may be changed by"], rows)
}
