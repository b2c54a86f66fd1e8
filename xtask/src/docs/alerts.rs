//! `alerts.md`: the rules of `deploy/components/alerts`.

use super::{Page, Section};
use crate::alerts::{Group, Rule, groups};

pub(super) fn page() -> anyhow::Result<Page> {
    let introduction = Section {
        paragraphs: vec![
            "The component `deploy/components/alerts` has these rules as a VMRule, and `deploy/components/alerts-prometheus` as a \
             PrometheusRule. [Alerts](../operate/alerts.md) describes how to use them. All metrics: [Metrics](metrics.md)."
                .to_owned(),
        ],
        ..Section::default()
    };
    let groups = groups()?;
    Ok(Page {
        file: "alerts.md".to_owned(),
        title: "Alerts and recording rules".to_owned(),
        sections: std::iter::once(introduction)
            .chain(groups.iter().map(section))
            .collect(),
    })
}

fn section(group: &Group) -> Section {
    let paragraph = match group.name.as_str() {
        "compute-federation.page" => "They page someone (`severity: critical`).",
        "compute-federation.records" => "Dashboards and alerts use them.",
        _ => "Look at them in working hours (`severity: warning`).",
    };
    Section {
        heading: Some(format!("Group `{}`", group.name)),
        paragraphs: vec![paragraph.to_owned()],
        columns: ["rule", "expression", "for", "meaning", "see"]
            .map(str::to_owned)
            .to_vec(),
        rows: group.rules.iter().map(row).collect(),
    }
}

fn row(rule: &Rule) -> Vec<String> {
    let name = rule.alert.as_ref().or(rule.record.as_ref());
    let annotation = |name: &str| rule.annotations.get(name).cloned().unwrap_or_default();
    // The runbook is a path in the repository.
    let see = annotation("runbook_url");
    let see = see.strip_prefix("docs/").map(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        format!("[{name}](../{path})")
    });
    vec![
        format!("`{}`", name.cloned().unwrap_or_default()),
        format!("`{}`", rule.expr),
        rule.duration.clone(),
        annotation("summary"),
        see.unwrap_or_default(),
    ]
}
