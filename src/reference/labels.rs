//! `labels.md`: labels, annotations and finalizers.

use api::metadata_key::MetadataKey;
use api::{annotations, finalizers, labels};

use super::page::{Page, Section, code};

pub(super) fn page() -> Page {
    let section = |heading: &str, text: &str, keys: &[MetadataKey]| {
        let rows = keys.iter().map(|it| {
            vec![
                code(it.key),
                it.objects.to_owned(),
                it.writer.to_owned(),
                it.meaning.to_owned(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        Section::named(heading, [text]).table(["key", "on", "written by", "meaning"], rows)
    };
    Page {
        file: "labels.md",
        title: "Labels, annotations and finalizers",
        sections: vec![
            Section::text([
                "In the column \"written by\", a name in code font is a controller. The label `controller` of the metrics has the same value.",
            ]),
            section(
                "Labels",
                "An Instance is copied to the hub only if it has all labels that link it to its WorkloadDeployment.",
                labels::ALL,
            ),
            section(
                "Annotations",
                "Of the annotations of a project's WorkloadDeployment, only those about referenced data and `compute.datumapis.com/suspended` are copied to the hub.",
                annotations::ALL,
            ),
            section(
                "Finalizers",
                "Only the code that finished the work of a finalizer removes it.",
                finalizers::ALL,
            ),
        ],
    }
}
