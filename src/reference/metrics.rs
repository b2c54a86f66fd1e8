//! `metrics.md`: the metrics of the real registry, with advice for alarms.

mod advice;

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use certs::{CertificateState, Problem};
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use self::advice::ADVICE;
use super::page::{Page, Section, code};
use crate::admission_clients::RefusedClients;
use crate::certificate_metrics::{CertificateCollector, ProblemCollector, Server};
use crate::customizations;
use crate::logging;
use crate::process_metrics;

/// A metric, as described in the exposition.
#[derive(Debug, Default)]
struct Metric {
    help: String,
    type_: String,
    labels: Vec<String>,
}

/// The meaning of the values of the label `trouble` of `queue_groups_in_trouble`.
const TROUBLE: [&str; 6] = [
    "`compute_federation_queue_groups_in_trouble` counts the tenants of a controller's queue that wait. A tenant is usually a \
     project. Hub namespaces whose labels identify no project are one more tenant. The controller `customizations`, and each \
     controller of a cell, has only one tenant.",
    "The word `groups` in the name of the metric is an older word for tenants.",
    "`unreachable`: an API server that the controller needs for this tenant does not answer: that of the project or the cell, or that of \
     the hub. The log names the tenant.",
    "`suspended`: the project refuses writes until its suspension ends.",
    "`busy`: the tenant has used up its write budget in this controller (500 keys at once, then 200 per second). It waits, so that it does \
     not delay others. A backlog with fewer writes per second does not count.",
    "An idle controller sends no requests, so it does not notice an outage. If the API server of an idle cell does not answer, the log of \
     the cell's process and the cell's Cluster on the hub show it.",
];

pub(super) fn page() -> anyhow::Result<Page> {
    let mut metrics = exposed()?;
    let rows = ADVICE.iter().map(|advice| {
        let metric = metrics
            .remove(advice.metric)
            .with_context(|| format!("no metric is called {}", advice.metric))?;
        let labels: Vec<_> = advice.labels.iter().map(|(label, _)| *label).collect();
        ensure!(
            metric.labels == labels,
            "{}: its labels are {:?}, not {labels:?}",
            advice.metric,
            metric.labels
        );
        let labels = advice.labels.iter().map(|(label, values)| match *values {
            "" => code(label),
            values => format!("`{label}`: {values}"),
        });
        Ok(vec![
            code(advice.metric),
            metric.type_,
            labels.collect::<Vec<_>>().join("; "),
            format!("{}.", metric.help.trim_end_matches('.')),
            advice.alarm.to_owned(),
        ])
    });
    let rows: Vec<_> = rows.collect::<anyhow::Result<_>>()?;
    if let Some(name) = metrics.keys().next() {
        bail!("{name}: src/reference/metrics/advice.rs has no entry for this metric");
    }
    let introduction = [
        "The manager serves metrics at `metricsServer.bindAddress` of the [config file](config.md). \
         `compute-federation interpreter` serves them at `--metrics-bind-address`.",
        "A counter or histogram with labels has a time series only after its first event. Counters that an alert uses exist from the \
         start, with the value 0. `compute_federation_certificate_problem` has a time series only while there is a problem. The `process_*` metrics describe the process. `process_tasks` counts asynchronous tasks \
         that have not ended.",
    ];
    Ok(Page {
        file: "metrics.md",
        title: "Metrics",
        sections: vec![
            Section::text(introduction)
                .table(["metric", "type", "labels", "meaning", "alarm"], rows),
            Section::named("Trouble of a queue", TROUBLE),
        ],
    })
}

/// Returns the metrics of a process in which all parts are enabled, by the name of their samples.
fn exposed() -> anyhow::Result<BTreeMap<String, Metric>> {
    let mut registry = Registry::with_prefix("compute_federation");
    logging::register(&mut registry);
    let planes = multicluster::Metrics::register(&mut registry);
    planes.record_examples();
    let mut cell = Registry::with_prefix("compute");
    planes.register_cell(&mut cell);
    webhooks::Metrics::register(&mut registry).record_examples();
    customizations::Metrics::register(&mut registry);
    RefusedClients::register(&mut registry).record_examples();
    certs::Metrics::register(registry.sub_registry_with_prefix("webhooks")).record_examples();
    let state = CertificateState {
        not_after: Some(Timestamp::UNIX_EPOCH),
        not_before: Some(Timestamp::UNIX_EPOCH),
        reloaded: Some(Timestamp::UNIX_EPOCH),
        problem: Some(Problem {
            reason: "example",
            message: String::new(),
        }),
        ..CertificateState::default()
    };
    let (_sender, state) = watch::channel(state);
    registry.register_collector(Box::new(CertificateCollector(state.clone())));
    registry.register_collector(Box::new(ProblemCollector(vec![(Server::Webhooks, state)])));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    encode(&mut text, &cell)?;
    encode(&mut text, &process_metrics::registry(Vec::new()))?;
    parse(&text)
}

/// Parses the description of each metric in the exposition.
fn parse(text: &str) -> anyhow::Result<BTreeMap<String, Metric>> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let mut current = String::new();
    let mut shown = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap_or((help, ""));
            name.clone_into(&mut current);
            let metric = metrics.entry(current.clone()).or_default();
            help.clone_into(&mut metric.help);
        } else if let Some(type_) = line.strip_prefix("# TYPE ") {
            let (_, type_) = type_.split_once(' ').unwrap_or_default();
            type_.clone_into(&mut metrics.entry(current.clone()).or_default().type_);
        } else if !line.starts_with('#') {
            if !shown.contains(&current) {
                shown.push(current.clone());
            }
            let labels = line
                .split_once('{')
                .and_then(|(_, rest)| rest.rsplit_once('}'));
            let names = labels.iter().flat_map(|(labels, _)| labels.split(','));
            let names = names
                .filter_map(|label| label.split_once('='))
                .map(|(name, _)| name.to_owned());
            // `le` is the bucket of a histogram, not a label of the metric itself.
            metrics.entry(current.clone()).or_default().labels =
                names.filter(|name| name != "le").collect();
        }
    }
    // Samples of counters have a suffix.
    let named = metrics.into_iter().map(|(name, metric)| {
        ensure!(
            shown.contains(&name),
            "{name}: `record_examples` creates no case of this metric"
        );
        let name = match metric.type_.as_str() {
            "counter" => format!("{name}_total"),
            _ => name,
        };
        Ok((name, metric))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_metric_has_advice_and_no_advice_is_left_over() {
        let page = page().unwrap();
        assert_eq!(page.sections[0].rows.len(), ADVICE.len());
    }

    /// `rate` and `increase` do not see the first event of a counter that the event itself creates.
    #[test]
    fn the_counters_of_alerts_exist_before_the_first_event() {
        let mut registry = Registry::with_prefix("compute_federation");
        multicluster::Metrics::register(&mut registry);
        webhooks::Metrics::register(&mut registry);
        RefusedClients::register(&mut registry);
        certs::Metrics::register(registry.sub_registry_with_prefix("webhooks"));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for counter in [
            "admission_clients_refused_total{reason=\"no_certificate\"}",
            "admission_clients_refused_total{reason=\"wrong_name\"}",
            "admission_requests_refused_total{reason=\"overloaded\"}",
            "admission_requests_refused_total{reason=\"too_large\"}",
            "admission_requests_total{webhook=\"mutate\",outcome=\"error\"}",
            "admission_requests_total{webhook=\"validate\",outcome=\"error\"}",
            "events_total{outcome=\"dropped\"}",
            "events_total{outcome=\"failed\"}",
            "interpreter_requests_total{operation=\"Retain\",kind=\"Instance\",outcome=\"failure\"}",
            "interpreter_requests_refused_total{reason=\"overloaded\"}",
            "interpreter_requests_refused_total{reason=\"too_large\"}",
            "webhooks_connections_shed_total{reason=\"idle\"}",
            "webhooks_connections_shed_total{reason=\"refused\"}",
            "webhooks_tls_errors_total{reason=\"certificate_expired\"}",
            "webhooks_tls_errors_total{reason=\"certificate_not_trusted\"}",
        ] {
            let line = format!("compute_federation_{counter} 0");
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn a_metric_without_a_case_is_an_error() {
        let text = "# HELP a_things Things.\n# TYPE a_things counter\n# EOF\n";
        assert!(parse(text).is_err());
        let text = "# HELP a_things Things.\n# TYPE a_things counter\na_things_total{kind=\"x\",le=\"1\"} 0\n# EOF\n";
        let metrics = parse(text).unwrap();
        assert_eq!(metrics["a_things_total"].labels, ["kind"]);
    }
}
