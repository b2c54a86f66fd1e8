//! The report of `verify`.

use std::collections::BTreeSet;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use interpreters::{InterpretedKind, Operation};
use serde::Serialize;
use serde_json::json;

use super::answerers::{Answerer, Answerers, Successor};
use super::findings::{Counts, Example, Findings};
use super::hub::RegisteredWebhook;
use crate::args::OutputForm;

const INTENDED: Style = AnsiColor::Green.on_default();
const UNEXPLAINED: Style = AnsiColor::Red.on_default().bold();
const HEADING: Style = Style::new().bold();

/// The result of `verify`.
#[derive(Debug)]
pub(super) struct Report {
    /// Address of the hub's API server.
    pub(super) hub: String,
    pub(super) customizations: Vec<String>,
    /// Name of the webhook configuration of compute-federation.
    pub(super) registration: String,
    pub(super) webhooks: Vec<RegisteredWebhook>,
    pub(super) answerers: Answerers,
    pub(super) on_hub: Findings,
    pub(super) generated: Findings,
    /// First seed of the generated objects.
    pub(super) seed: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupRow<'r> {
    kind: &'static str,
    operation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    law: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    objects: u64,
    example: &'r Example,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationRow<'r> {
    kind: &'static str,
    operation: &'static str,
    now: String,
    #[serde(flatten)]
    counts: &'r Counts,
}

impl Report {
    /// Returns whether every operation with a script was compared, whether every difference is intended, and whether
    /// compute-federation succeeds the scripts.
    pub(super) fn is_safe(&self) -> bool {
        let mut all = [&self.on_hub, &self.generated].into_iter();
        all.all(|findings| findings.unexplained().next().is_none())
            && self.not_compared().is_empty()
            && self.blocked().is_empty()
    }

    /// Returns the operations with a script for which `is` is true.
    fn scripted(
        &self,
        is: impl Fn(&(InterpretedKind, Operation), &Successor) -> bool,
    ) -> Vec<String> {
        let scripted = self
            .answerers
            .iter()
            .filter(|(key, answerer)| match answerer {
                Answerer::Scripts(_, successor) => is(key, successor),
                Answerer::Webhook(_) | Answerer::Default => false,
            });
        scripted
            .map(|((kind, operation), _)| format!("{} {}", kind.as_str(), operation.as_str()))
            .collect()
    }

    /// Returns the operations that no webhook answers after the removal.
    fn unregistered(&self) -> Vec<String> {
        self.scripted(|_, successor| *successor == Successor::Unregistered)
    }

    /// Returns the operations that a webhook of somebody else answers after the removal.
    fn blocked(&self) -> Vec<String> {
        self.scripted(|_, successor| matches!(successor, Successor::Other(_)))
    }

    /// Returns the operations about which no object was compared.
    fn not_compared(&self) -> Vec<String> {
        let all = [&self.on_hub, &self.generated];
        self.scripted(|key, _| !all.iter().any(|findings| findings.counts.contains_key(key)))
    }

    /// Returns the last sentence of the report.
    fn conclusion(&self) -> String {
        let (objects, generated) = (self.on_hub.total(), self.generated.total());
        let answers = self.on_hub.answers() + self.generated.answers();
        let compared = format!(
            "{answers} answers about {objects} objects of the hub and {generated} generated objects"
        );
        let all = [&self.on_hub, &self.generated];
        let unexplained = all.iter().flat_map(|findings| &findings.groups);
        let unexplained = unexplained.filter(|(_, group)| group.law.is_none());
        let unexplained: BTreeSet<_> = unexplained.map(|(key, _)| key).collect();
        let unexplained = unexplained.len();
        let at_least = match all.iter().any(|findings| findings.has_more) {
            true => "at least ",
            false => "",
        };
        let (not_compared, blocked) = (self.not_compared(), self.blocked());
        let unregistered = self.unregistered();
        if self.answerers.is_empty() {
            "Nothing to remove: no customization has a script for WorkloadDeployment or Instance."
                .to_owned()
        } else if unexplained > 0 {
            let fields = if unexplained == 1 { "field" } else { "fields" };
            format!(
                "Not safe to remove: {compared} have unexplained differences in {at_least}{unexplained} {fields}."
            )
        } else if !not_compared.is_empty() {
            format!(
                "Not safe to remove: no object was compared for {}.",
                not_compared.join(", ")
            )
        } else if !blocked.is_empty() {
            let (operations, registration) = (blocked.join(", "), &self.registration);
            format!(
                "Not safe to remove: another webhook comes before {registration}, and would answer {operations}."
            )
        } else if !unregistered.is_empty() {
            format!(
                "Safe to remove after {} is registered for {}: every difference in {compared} is intended.",
                self.registration,
                unregistered.join(", ")
            )
        } else {
            format!("Safe to remove: every difference in {compared} is intended.")
        }
    }

    /// Returns the report in a form. Only [`OutputForm::Text`] has colours.
    ///
    /// # Errors
    ///
    /// If the report cannot be written as JSON or YAML.
    pub(super) fn text(&self, form: OutputForm) -> anyhow::Result<String> {
        Ok(match form {
            OutputForm::Text => self.for_people()?,
            OutputForm::Json => serde_json::to_string_pretty(&self.as_json())? + "\n",
            OutputForm::Yaml => serde_saphyr::to_string(&self.as_json())?,
        })
    }

    fn as_json(&self) -> serde_json::Value {
        let found = |findings: &Findings| {
            json!({
                "objects": findings.total(),
                "operations": self.operations(findings),
                "differences": groups(findings),
                "hasMore": findings.has_more,
            })
        };
        let webhooks: Vec<_> = self.webhooks.iter().map(|webhook| &webhook.name).collect();
        json!({
            "hub": self.hub,
            "customizations": self.customizations,
            "webhooks": webhooks,
            "unregistered": self.unregistered(),
            "blocked": self.blocked(),
            "notCompared": self.not_compared(),
            "onHub": found(&self.on_hub),
            "generated": found(&self.generated),
            "seed": self.seed,
            "safe": self.is_safe(),
            "conclusion": self.conclusion(),
        })
    }

    fn operations<'r>(&self, findings: &'r Findings) -> Vec<OperationRow<'r>> {
        let rows = findings.counts.iter().map(|((kind, operation), counts)| {
            let answerer = self.answerers.get(&(*kind, *operation));
            OperationRow {
                kind: kind.as_str(),
                operation: operation.as_str(),
                now: answerer.map(now).unwrap_or_default(),
                counts,
            }
        });
        rows.collect()
    }

    fn for_people(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let listed = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        let webhooks: Vec<_> = self.webhooks.iter().map(|it| it.name.clone()).collect();
        writeln!(text, "hub             {}", self.hub)?;
        writeln!(text, "customizations  {}", listed(&self.customizations))?;
        writeln!(text, "webhooks        {}", listed(&webhooks))?;
        let seed = self.seed;
        let headings = [
            "Objects of the hub".to_owned(),
            format!("Generated objects, from seed {seed}"),
        ];
        for (findings, heading) in [&self.on_hub, &self.generated].into_iter().zip(headings) {
            if findings.total() == 0 {
                continue;
            }
            writeln!(
                text,
                "\n{HEADING}{heading}: {}{HEADING:#}",
                findings.total()
            )?;
            for row in self.operations(findings) {
                let OperationRow {
                    kind,
                    operation,
                    now,
                    counts:
                        Counts {
                            compared,
                            different,
                        },
                } = row;
                writeln!(
                    text,
                    "  {kind} {operation:<20} {compared:>8} compared {different:>8} different   now: {now}"
                )?;
            }
            for row in groups(findings) {
                write_group(&mut text, &row)?;
            }
            if findings.has_more {
                writeln!(text, "  more fields have unexplained differences")?;
            }
        }
        let style = if self.is_safe() {
            INTENDED
        } else {
            UNEXPLAINED
        };
        writeln!(text, "\n{style}{}{style:#}", self.conclusion())?;
        Ok(text)
    }
}

fn write_group(text: &mut String, row: &GroupRow<'_>) -> std::fmt::Result {
    let GroupRow {
        kind,
        operation,
        objects,
        example,
        ..
    } = row;
    match (row.law, row.change, &row.source) {
        (Some(law), Some(change), Some(source)) => {
            writeln!(
                text,
                "\n  {INTENDED}intended{INTENDED:#} {kind} {operation}: {law}, {objects} objects"
            )?;
            writeln!(text, "    {change} ({source})")?;
        }
        _ => writeln!(
            text,
            "\n  {UNEXPLAINED}UNEXPLAINED{UNEXPLAINED:#} {kind} {operation}, {objects} objects"
        )?,
    }
    let Example {
        seed,
        namespace,
        name,
        field,
        now,
        native,
    } = example;
    let seed = seed
        .map(|seed| format!(", seed {seed}"))
        .unwrap_or_default();
    writeln!(
        text,
        "    {namespace}/{name}{seed}: {field}: {now} -> {native}"
    )
}

/// Returns the groups of differences, those without an explanation first.
fn groups(findings: &Findings) -> Vec<GroupRow<'_>> {
    let mut all: Vec<_> = findings.groups.iter().collect();
    all.sort_by_key(|(_, group)| group.law.is_some());
    all.into_iter()
        .map(|((kind, operation, _), group)| GroupRow {
            kind: kind.as_str(),
            operation: operation.as_str(),
            law: group.law.map(|law| law.name),
            change: group.law.map(|law| law.change),
            source: group.law.map(|law| format!("docs/{}", law.source)),
            objects: group.objects,
            example: &group.example,
        })
        .collect()
}

/// Returns what answers today, for people.
fn now(answerer: &Answerer) -> String {
    match answerer {
        Answerer::Scripts(names, Successor::Other(webhook)) => {
            format!("script of {}, then webhook {webhook}", names.join(", "))
        }
        Answerer::Scripts(names, _) => format!("script of {}", names.join(", ")),
        Answerer::Webhook(name) => format!("webhook {name}"),
        Answerer::Default => "no script".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use interpreters::comparison::{Difference, FieldPath, LAWS, Law, Side, Subject};

    use super::super::findings::Origin;
    use super::*;

    const KIND: InterpretedKind = InterpretedKind::WorkloadDeployment;

    fn report(laws: &[Option<&'static Law>], successor: Successor) -> Report {
        let mut on_hub = Findings::default();
        let subject = Subject::sample(KIND);
        on_hub.add_object(KIND);
        let differences = laws.iter().map(|law| Difference {
            path: FieldPath::default(),
            former: Side::Absent,
            native: Side::Value(json!(1)),
            law: *law,
        });
        let origin = (Origin::Hub, &subject);
        on_hub.add(KIND, Operation::Retain, origin, differences.collect());
        let scripts = Answerer::Scripts(vec!["former".to_owned()], successor);
        Report {
            hub: "https://hub".to_owned(),
            customizations: vec!["former".to_owned()],
            registration: "compute-federation".to_owned(),
            webhooks: Vec::new(),
            answerers: BTreeMap::from([((KIND, Operation::Retain), scripts)]),
            on_hub,
            generated: Findings::default(),
            seed: 0,
        }
    }

    #[test]
    fn the_last_sentence_says_what_to_do() {
        let law = LAWS.first().copied();
        let compared = "in 1 answers about 1 objects of the hub and 0 generated objects";
        let mut nothing = report(&[], Successor::Native);
        nothing.answerers.clear();
        let mut empty = report(&[], Successor::Native);
        empty.on_hub = Findings::default();
        let foreign = Successor::Other("aaa/w".to_owned());
        for (report, is_safe, expected) in [
            (
                report(&[law], Successor::Native),
                true,
                format!("Safe to remove: every difference {compared} is intended."),
            ),
            (
                report(&[law], Successor::Unregistered),
                true,
                format!(
                    "Safe to remove after compute-federation is registered for WorkloadDeployment Retain: every difference \
                     {compared} is intended."
                ),
            ),
            (
                report(&[law], foreign),
                false,
                "Not safe to remove: another webhook comes before compute-federation, and would answer WorkloadDeployment \
                 Retain."
                    .to_owned(),
            ),
            (
                report(&[law, None], Successor::Native),
                false,
                "Not safe to remove: 1 answers about 1 objects of the hub and 0 generated objects have unexplained \
                 differences in 1 field."
                    .to_owned(),
            ),
            (
                empty,
                false,
                "Not safe to remove: no object was compared for WorkloadDeployment Retain.".to_owned(),
            ),
            (
                nothing,
                true,
                "Nothing to remove: no customization has a script for WorkloadDeployment or Instance.".to_owned(),
            ),
        ] {
            assert_eq!((report.is_safe(), report.conclusion()), (is_safe, expected));
        }
    }

    #[test]
    fn unexplained_differences_come_first() {
        let report = report(&[LAWS.first().copied(), None], Successor::Native);
        let text = report.text(OutputForm::Text).unwrap();
        let text = anstream::adapter::strip_str(&text).to_string();
        let unexplained = text
            .find("UNEXPLAINED WorkloadDeployment Retain, 1 objects")
            .unwrap();
        let intended = text.find("intended WorkloadDeployment Retain").unwrap();
        assert!(unexplained < intended, "{text}");
        assert!(text.contains("sample/sample: : absent -> 1"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&report.text(OutputForm::Json).unwrap()).unwrap();
        assert_eq!(json["safe"], false);
        assert_eq!(json["onHub"]["operations"][0]["different"], 1);
        assert_eq!(json["onHub"]["differences"][0]["example"]["name"], "sample");
    }
}
