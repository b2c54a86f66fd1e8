//! Checks the manifests in `deploy` against the program and its documentation. `tests/federation/deploy.rs` applies
//! them.

use std::collections::BTreeSet;
use std::fs;

use api::labels;
use serde_json::Value;

/// The page with the defaults of the flags.
const FLAGS: &str = "docs/reference/flags.md";
/// The page with the metrics and their alarms.
const METRICS: &str = "docs/reference/metrics.md";
const RULES: &str = "deploy/components/alerts-prometheus/prometheus_rule.yaml";
const DASHBOARDS: [&str; 2] = ["federation.json", "webhooks.json"];
/// Metrics whose row names a state that is no alarm.
const NO_ALARM: [&str; 1] = ["compute_federation_projects_suspended"];

fn read(path: &str) -> String {
    let file = harness::checkout::root().join(path);
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the objects of a file in `deploy`.
fn objects(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(&format!("deploy/{path}"))).unwrap()
}

fn object(path: &str, kind: &str) -> Value {
    let found = objects(path).into_iter().find(|it| it["kind"] == kind);
    found.unwrap_or_else(|| panic!("{path} has no {kind}"))
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

/// Returns the number in the variable of the first container.
fn variable(deployment: &Value, name: &str) -> u64 {
    let variables = container(deployment)["env"].as_array().unwrap();
    let found = variables.iter().find(|it| it["name"] == name);
    found.unwrap()["value"].as_str().unwrap().parse().unwrap()
}

/// Returns the default of a flag, in seconds.
fn default_seconds(flag: &str) -> u64 {
    let text = read(FLAGS);
    let row = text
        .lines()
        .find(|line| line.starts_with(&format!("| `{flag}`")));
    let cell = row.unwrap().split(" | ").nth(1).unwrap();
    cell.trim_matches('`')
        .trim_end_matches('s')
        .parse()
        .unwrap()
}

#[test]
fn the_grace_period_is_longer_than_the_drain() {
    let drain = default_seconds("--shutdown-delay") + default_seconds("--drain-timeout");
    for path in [
        "base/manager/manager.yaml",
        "components/interpreter/interpreter.yaml",
    ] {
        let deployment = object(path, "Deployment");
        let pod = &deployment["spec"]["template"]["spec"];
        let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(
            grace >= drain + 5,
            "{path}: {grace} s, the drain takes {drain} s"
        );
    }
}

/// The rule of docs/reference/limits.md#memory: 512 KiB for each connection, one and a half times the bytes in flight,
/// and 32 MiB for the process itself. A body is never larger than 1/16 of the bytes in flight, or 1/32 if
/// admission is served.
#[test]
fn the_memory_limit_is_enough_for_the_webhook_server() {
    for path in [
        "base/manager/manager.yaml",
        "components/interpreter/interpreter.yaml",
        "overlays/management-plane/manager.yaml",
        "overlays/single-cluster/manager.yaml",
    ] {
        let deployment = object(path, "Deployment");
        let limit = &container(&deployment)["resources"]["limits"]["memory"];
        let limit = limit.as_str().unwrap().trim_end_matches("Mi");
        let limit = limit.parse::<u64>().unwrap() << 20;
        let bytes = variable(&deployment, "MAX_BYTES_IN_FLIGHT");
        let connections = variable(&deployment, "MAX_CONNECTIONS");
        let needed = bytes * 3 / 2 + connections * (512 << 10);
        assert!(
            needed + (32 << 20) <= limit,
            "{path}: {needed} of {limit} bytes"
        );
        // Only the subcommand `interpreter` never serves admission. A patch without arguments is one of the manager.
        let parts = match container(&deployment)["args"][0] == "interpreter" {
            true => 16,
            false => 32,
        };
        assert!(variable(&deployment, "MAX_BODY") <= bytes / parts, "{path}");
    }
}

/// A metric that is not declared makes the catalogue drop the whole configuration.
#[test]
fn every_metric_of_a_limit_or_rule_is_declared() {
    let configuration = object(
        "components/service-catalogue/service_configuration.yaml",
        "ServiceConfiguration",
    );
    let spec = &configuration["spec"];
    let list = |value: &Value| value.as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let metrics = list(&spec["metrics"]);
    let declared: BTreeSet<_> = metrics.iter().map(|metric| text(&metric["name"])).collect();
    let quota = &spec["quota"];
    let mut used: BTreeSet<_> = list(&quota["limits"])
        .iter()
        .map(|limit| text(&limit["metric"]))
        .collect();
    for rule in list(&quota["metricRules"]) {
        used.extend(rule["metricCosts"].as_object().unwrap().keys().cloned());
    }
    assert!(used.is_subset(&declared), "{used:?}, {declared:?}");
    assert!(spec["billing"].is_null(), "rules belong under quota");
    let registered = objects("components/quota/resource_registrations.yaml");
    for registration in &registered {
        let kind = text(&registration["spec"]["resourceType"]);
        assert!(declared.contains(&kind), "{kind}");
    }
}

/// Without the class of the platform's locations, every LocationBinding becomes unavailable, and admission refuses
/// every Workload.
#[test]
fn the_locations_of_the_platform_are_supported() {
    let configuration = object(
        "components/service-catalogue/service_configuration.yaml",
        "ServiceConfiguration",
    );
    let classes = &configuration["spec"]["locations"]["supportedClasses"];
    assert_eq!(*classes, serde_json::json!(["datum-managed"]));
}

/// The permission check of Milo denies what no ProtectedResource names.
#[test]
fn every_permission_of_a_role_is_one_of_a_protected_resource() {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let mut known = BTreeSet::new();
    for resource in objects("components/iam/protected_resources.yaml") {
        let spec = &resource["spec"];
        let (service, plural) = (text(&spec["serviceRef"]["name"]), text(&spec["plural"]));
        for permission in list(&spec["permissions"]) {
            known.insert(format!("{service}/{plural}.{}", text(&permission)));
        }
    }
    for role in objects("components/iam/roles.yaml") {
        for permission in list(&role["spec"]["includedPermissions"]) {
            assert!(known.contains(&text(&permission)), "{permission}");
        }
    }
}

/// A claim or a grant of a type that is not registered is refused.
#[test]
fn every_granted_resource_type_is_registered() {
    let registrations = objects("components/quota/resource_registrations.yaml");
    let registered: BTreeSet<_> = registrations
        .iter()
        .map(|it| it["spec"]["resourceType"].as_str().unwrap())
        .collect();
    let policy = object(
        "components/quota/grant_creation_policy.yaml",
        "GrantCreationPolicy",
    );
    let template = &policy["spec"]["target"]["resourceGrantTemplate"];
    let allowances = template["spec"]["allowances"].as_array().unwrap();
    let granted: BTreeSet<_> = allowances
        .iter()
        .map(|it| it["resourceType"].as_str().unwrap())
        .collect();
    assert_eq!(granted, registered);
}

/// A cell claims quota for the Project, because the project does not have the Instance yet.
#[test]
fn every_resource_type_may_be_claimed_for_project_and_instance() {
    for registration in objects("components/quota/resource_registrations.yaml") {
        let claiming = registration["spec"]["claimingResources"]
            .as_array()
            .unwrap();
        let kinds: BTreeSet<_> = claiming
            .iter()
            .map(|it| it["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, BTreeSet::from(["Instance", "Project"]));
    }
}

/// A label that no object has would always be empty.
#[test]
fn the_metrics_of_objects_read_labels_that_exist() {
    let text = read("deploy/components/resource-metrics/resource_metrics_policy.yaml");
    let known: BTreeSet<_> = labels::ALL.iter().map(|label| label.key).collect();
    let read: BTreeSet<_> = text
        .split("labels[\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(
        read,
        BTreeSet::from([labels::WORKLOAD_UID, labels::WORKLOAD_DEPLOYMENT_UID])
    );
    assert!(read.is_subset(&known));
}

/// The operator finds targets by the labels of a Service and by the name of its port. Alerts name the Services as jobs.
#[test]
fn every_service_monitor_selects_a_service() {
    let services = objects("components/prometheus/service.yaml")
        .into_iter()
        .chain(objects("components/interpreter/interpreter.yaml"))
        .chain(objects("base/manager/service.yaml"))
        .filter(|object| object["kind"] == "Service");
    let services: Vec<_> = services.collect();
    let mut jobs = BTreeSet::new();
    for monitor in objects("components/prometheus/service_monitor.yaml") {
        let spec = &monitor["spec"];
        let port = &spec["endpoints"][0]["port"];
        let selector = spec["selector"]["matchLabels"].as_object().unwrap();
        let selected = services.iter().filter(|service| {
            let labels = &service["metadata"]["labels"];
            let ports = service["spec"]["ports"].as_array().unwrap();
            selector
                .iter()
                .all(|(label, value)| labels[label] == *value)
                && ports.iter().any(|it| it["name"] == *port)
        });
        let names: Vec<_> = selected.map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, [&monitor["metadata"]["name"]]);
        jobs.insert(names[0].as_str().unwrap().to_owned());
    }
    let watched = r#"up{job=~"compute-metrics|compute-interpreter"} == 0"#;
    assert!(read(RULES).contains(watched));
    assert_eq!(
        jobs,
        ["compute-interpreter", "compute-metrics"]
            .map(str::to_owned)
            .into()
    );
}

/// A policy that selects a pod blocks all ports of the pod that no policy opens.
#[test]
fn the_network_policies_open_the_ports_of_every_pod() {
    let policies = objects("components/network-policy/network_policy.yaml");
    assert_eq!(policies.len(), 2);
    for path in [
        "base/manager/manager.yaml",
        "components/interpreter/interpreter.yaml",
    ] {
        let deployment = object(path, "Deployment");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let ports = container(&deployment)["ports"].as_array().unwrap();
        for (name, policy) in ["webhook-server", "metrics"].iter().zip(&policies) {
            let selector = &policy["spec"]["podSelector"];
            let mut wanted = selector["matchLabels"].as_object().unwrap().iter();
            assert!(wanted.all(|(key, value)| labels[key] == *value), "{path}");
            let expression = &selector["matchExpressions"][0];
            assert_eq!(expression["key"], "control-plane");
            let values = expression["values"].as_array().unwrap();
            assert!(values.contains(&labels["control-plane"]), "{path}");
            let port = ports.iter().find(|port| port["name"] == *name).unwrap();
            let open = policy["spec"]["ingress"][0]["ports"].as_array().unwrap();
            let is_open = open.iter().any(|it| it["port"] == port["containerPort"]);
            assert!(is_open, "{path}: {name}");
        }
    }
}

/// Returns the names of metrics in a text of PromQL, without the suffixes of histograms.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let prefixes = [
        "compute_federation_",
        "compute_quota_",
        "compute_networks_",
        "process_",
    ];
    let is_metric = |word: &&str| prefixes.iter().any(|prefix| word.starts_with(prefix));
    words
        .filter(is_metric)
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect()
}

/// Returns the metrics of the reference. The value is true if the row names an alarm.
fn metrics() -> Vec<(String, bool)> {
    let text = read(METRICS);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        let alarm = rest.trim_end_matches('|').trim_end();
        (name.to_owned(), !alarm.ends_with('|'))
    })
    .collect()
}

#[test]
fn every_metric_with_an_alarm_has_an_alert() {
    let rule = object(
        "components/alerts-prometheus/prometheus_rule.yaml",
        "PrometheusRule",
    );
    let mut used = BTreeSet::new();
    for group in rule["spec"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            used.extend(metrics_in(rule["expr"].as_str().unwrap()));
        }
    }
    for (metric, has_alarm) in metrics() {
        if has_alarm && !NO_ALARM.contains(&metric.as_str()) {
            assert!(used.contains(&metric), "no alert for {metric}");
        }
    }
}

#[test]
fn alerts_and_dashboards_name_only_metrics_that_exist() {
    let known: BTreeSet<_> = metrics().into_iter().map(|(name, _)| name).collect();
    let rules = read(RULES);
    let dashboards = DASHBOARDS.map(|file| read(&format!("deploy/components/dashboards/{file}")));
    for text in [&rules, &dashboards[0], &dashboards[1]] {
        let named = metrics_in(text);
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    let shown = metrics_in(&dashboards.concat());
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "no dashboard shows {missing:?}");
}

/// The recording rules that dashboards use exist.
#[test]
fn dashboards_use_recording_rules_that_exist() {
    let rules = read(RULES);
    for file in DASHBOARDS {
        let text = read(&format!("deploy/components/dashboards/{file}"));
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
        for word in words.filter(|word| word.contains(":compute_federation_")) {
            assert!(
                rules.contains(&format!("record: {word}\n")),
                "{file}: {word}"
            );
        }
    }
}

/// The runbook of an alert is a section of a page.
#[test]
fn the_runbook_of_every_alert_exists() {
    let mut count = 0;
    for line in read(RULES).lines() {
        let Some(runbook) = line.trim().strip_prefix("runbook_url: ") else {
            continue;
        };
        count += 1;
        let (page, anchor) = runbook.split_once('#').unwrap_or((runbook, ""));
        let page = read(page);
        let anchors = page.lines().filter_map(|line| {
            let heading = line.strip_prefix("## ")?.to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -".contains(*c));
            Some(kept.collect::<String>().replace(' ', "-"))
        });
        assert!(
            anchor.is_empty() || anchors.into_iter().any(|found| found == anchor),
            "{runbook}"
        );
    }
    assert!(count > 20, "{count} alerts");
    assert_eq!(count, read(RULES).matches("- alert: ").count());
}

#[test]
fn every_component_and_overlay_is_documented() {
    let page = read("docs/operate/deploy.md") + &read("docs/operate/alerts.md");
    for parent in ["components", "overlays"] {
        let folder = harness::checkout::root().join("deploy").join(parent);
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().display().to_string();
            let is_named = page.contains(&format!("`{name}`"))
                || page.contains(&format!("`deploy/{parent}/{name}`"));
            assert!(is_named, "deploy/{parent}/{name} is not documented");
        }
    }
}
