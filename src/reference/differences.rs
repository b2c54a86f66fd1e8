//! `differences.md`: the intended differences from the customization that compute-federation replaces.

use interpreters::InterpretedKind;
use interpreters::comparison::LAWS;

use super::page::{Page, Section, code};

pub(super) fn page() -> Page {
    let rows = LAWS.iter().map(|law| {
        let operation = law.operation.map_or("all with a script", |it| it.as_str());
        let kind = law.kind.map_or("both", InterpretedKind::as_str);
        vec![
            code(law.name),
            operation.to_owned(),
            kind.to_owned(),
            format!("{} [Rule](../{})", law.change, law.source),
        ]
    });
    let text = "`compute-federation verify` compares the customizations of a hub with the native interpreter. It marks a \
                difference as intended if one of these laws explains it. A law holds only for scripts that do what the \
                customization of the Go manager does: its AggregateStatus takes the status of the first cell, its Retain \
                keeps `spec.replicas` of the cell, its InterpretStatus reports the whole status, and its \
                InterpretDependency reads the annotation alone. The differences of other scripts are unexplained. See \
                [Remove a Lua customization](../operate/remove-lua-customization.md).";
    let columns = ["law", "operation", "kind", "what changes"];
    Page {
        file: "differences.md",
        title: "Differences from the Lua customization",
        sections: vec![Section::text([text]).table(columns, rows)],
    }
}
