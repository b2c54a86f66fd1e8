//! `conditions.md`: conditions, reasons and events.

use api::conditions::{EVENTS, EventType, PlaneKind, QUARANTINE, READ, written_conditions};

use super::page::{Page, Section, code, codes};

pub(super) fn page() -> Page {
    let mut sections = vec![Section::text([
        "Conditions of one object are one list with several writers. Each writer reads the list, changes its own conditions, and \
         writes the whole list with the `resourceVersion` that it has read. After a 409 it reads the object again. An \
         infrastructure provider must do the same.",
        "`CellsReporting`, `CopiedToHub` and `InstancesEnded` exist only while they are False.",
        "`Available` of a Workload or of a placement may also be Unknown. It then has the reason of the first WorkloadDeployment \
         whose `Available` is Unknown.",
        "`Ready` of an Instance may also have the reason that the infrastructure provider gives in `Programmed` or `Running`.",
    ])];
    let mut kinds = Vec::new();
    for condition in written_conditions() {
        if !kinds.contains(&condition.kind) {
            kinds.push(condition.kind);
        }
    }
    for kind in kinds {
        let rows = written_conditions()
            .filter(|condition| condition.kind == kind)
            .map(|it| {
                let planes: Vec<_> = it.planes.iter().copied().map(PlaneKind::as_str).collect();
                vec![
                    format!("`{}` {:?}", it.type_, it.status),
                    code(it.reason),
                    planes.join(", "),
                    it.meaning.to_owned(),
                    it.remedy.to_owned(),
                ]
            });
        let columns = ["condition", "reason", "plane", "meaning", "what to do"];
        sections.push(Section::named(kind, [""; 0]).table(columns, rows));
    }
    sections.push(quarantine());
    sections.push(events());
    sections.push(read());
    Page {
        file: "conditions.md",
        title: "Conditions, reasons and events",
        sections,
    }
}

fn quarantine() -> Section {
    let rows = QUARANTINE
        .iter()
        .map(|it| vec![code(it.reason), it.meaning.to_owned(), it.remedy.to_owned()]);
    let paragraphs = [
        "The labels of the hub namespace identify the project of an Instance. If the projector cannot project an Instance of the hub, \
         it quarantines the Instance. The Instance and its projection stay as they are and are never deleted automatically.",
        "The projector reports each quarantine once: by an event, a line in the log and the annotations \
         `compute.datumapis.com/quarantine-reason`, `-message`, `-fingerprint` (a hash of the labels that led to the verdict) and \
         `-time`. `compute_federation_quarantined_objects` counts the Instance until the quarantine ends. If the hub refuses the \
         annotations, the metric and the line in the log remain.",
        "A quarantine ends automatically when its cause is corrected.",
    ];
    Section::named("Quarantine reasons", paragraphs)
        .table(["reason", "meaning", "what to do"], rows)
}

fn events() -> Section {
    let rows = EVENTS.iter().map(|event| {
        vec![
            event.kind.to_owned(),
            event.plane.as_str().to_owned(),
            match event.type_ {
                EventType::Normal => "Normal".to_owned(),
                EventType::Warning => "Warning".to_owned(),
            },
            codes(event.reasons.iter().copied()),
            event.when.to_owned(),
        ]
    });
    let paragraphs = [
        "An event may be lost. The condition or the annotation that it reports contains the same information. Events on Workloads and \
         WorkloadDeployments delay no write.",
        "Karmada itself publishes `GetReplicasFailed` and `ApplyPolicyFailed` on WorkloadDeployments of the hub when it cannot call the \
         interpreter.",
    ];
    Section::named("Events", paragraphs).table(["object", "plane", "type", "reasons", "when"], rows)
}

fn read() -> Section {
    let rows = READ.iter().map(|it| {
        let reason = it.reason.map(|reason| format!(", reason `{reason}`"));
        vec![
            it.kind.to_owned(),
            it.plane.as_str().to_owned(),
            format!("`{}`{}", it.type_, reason.unwrap_or_default()),
            it.writer.to_owned(),
            it.effect.to_owned(),
        ]
    });
    let columns = ["object", "plane", "condition", "writer", "effect"];
    Section::named(
        "Conditions that others write",
        ["compute-federation reads these conditions."],
    )
    .table(columns, rows)
}
