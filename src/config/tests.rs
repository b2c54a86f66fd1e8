//! Valid config files, and the errors of others.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n";

fn parse(text: &str) -> anyhow::Result<Config> {
    Config::parse("c.yaml", &format!("{HEAD}{text}"))
}

/// Returns the error for a config file with this text. The text begins in line 3, after the head.
fn error(text: &str) -> String {
    format!("{:#}", parse(text).unwrap_err())
}

#[test]
fn the_defaults_are_those_of_the_go_manager() {
    for config in [Config::load(None).unwrap(), parse("").unwrap()] {
        assert!(config.webhooks.is_none());
        assert_eq!(config.metrics.address, BindAddress::Off);
        assert!(config.metrics.secure);
        assert!(
            config
                .metrics
                .files
                .directory
                .ends_with("k8s-metrics-server/serving-certs")
        );
        assert_eq!(config.cluster_name, None);
        assert_eq!(config.discovery, DiscoveryMode::Single);
    }
    let webhooks = parse("webhookServer: {}").unwrap().webhooks.unwrap();
    assert_eq!(
        webhooks.address,
        BindAddress::At {
            host: String::new(),
            port: 9443
        }
    );
    assert!(
        webhooks
            .files
            .directory
            .ends_with("k8s-webhook-server/serving-certs")
    );
    assert_eq!(
        (
            webhooks.files.certificate.as_str(),
            webhooks.files.key.as_str()
        ),
        ("tls.crt", "tls.key")
    );
}

#[test]
fn every_field_has_its_effect() {
    let config = parse(
        "metricsServer: {secureServing: false, bindAddress: ':8443'}\n\
         webhookServer: {host: 127.0.0.1, port: 1234, interpreterPort: 1235, tls: {certDir: /c, certName: a, keyName: b}}\n\
         discovery: {mode: single, clusterName: dfw1, formerClusterNames: [dfw]}\n",
    )
    .unwrap();
    assert!(!config.metrics.secure);
    assert_eq!(
        config.metrics.address,
        BindAddress::At {
            host: String::new(),
            port: 8443
        }
    );
    let webhooks = config.webhooks.unwrap();
    assert_eq!(
        webhooks.address,
        BindAddress::At {
            host: "127.0.0.1".into(),
            port: 1234
        }
    );
    assert_eq!(
        webhooks.interpreter,
        Some(BindAddress::At {
            host: "127.0.0.1".into(),
            port: 1235
        })
    );
    assert_eq!(
        webhooks.files,
        Files {
            directory: "/c".into(),
            certificate: "a".into(),
            key: "b".into(),
            authorities: "ca.crt".into(),
            client_authorities: None,
        }
    );
    assert_eq!(config.cluster_name.unwrap().as_str(), "dfw1");
    assert_eq!(config.former_cluster_names[0].as_str(), "dfw");
}

#[test]
fn clients_of_admission_are_verified_if_there_is_a_ca() {
    let clients = |text: &str| {
        let webhooks = parse(&format!("webhookServer: {text}")).unwrap().webhooks;
        let WebhookServer { clients, files, .. } = webhooks.unwrap();
        (clients, files.client_authorities)
    };
    assert_eq!(clients("{clientCAName: ''}"), (None, None));
    let file = Some("client-ca.crt".to_owned());
    assert_eq!(
        clients("{clientCAName: client-ca.crt}"),
        (Some(Vec::new()), file.clone())
    );
    assert_eq!(
        clients("{clientCAName: client-ca.crt, clientSubjectNames: [kube-apiserver]}"),
        (Some(vec!["kube-apiserver".to_owned()]), file)
    );
    let error = error("webhookServer: {clientSubjectNames: [kube-apiserver]}");
    assert!(
        error.contains(
            "webhookServer.clientSubjectNames has no effect without webhookServer.clientCAName"
        ),
        "{error}"
    );
}

#[test]
fn the_port_of_the_interpreter_is_another_one() {
    let interpreter = |text: &str| {
        let webhooks = parse(&format!("webhookServer: {text}")).unwrap().webhooks;
        webhooks.unwrap().interpreter
    };
    assert_eq!(interpreter("{}"), None);
    assert_eq!(interpreter("{interpreterPort: 0}"), None);
    for same in ["{interpreterPort: 9443}", "{port: 1, interpreterPort: 1}"] {
        let error = error(&format!("webhookServer: {same}"));
        assert!(
            error.contains("webhookServer.interpreterPort is ")
                && error.ends_with("set another port, or remove the field"),
            "{error}"
        );
    }
}

#[test]
fn fields_of_the_go_manager_are_ignored_where_that_is_harmless() {
    let config = parse(
        "referencedData: {perObjectLimitBytes: 1, aggregateLimitBytes: 2}\n\
         locationSource: ''\n",
    );
    assert_eq!(
        config.unwrap().ignored,
        [
            "referencedData.perObjectLimitBytes",
            "referencedData.aggregateLimitBytes",
            "locationSource"
        ]
    );
    assert_eq!(parse("").unwrap().ignored, [""; 0]);
    for (text, problem) in [
        (
            "discovery: {consumerScopedProjection: {providerProject: p}}",
            "discovery.consumerScopedProjection: every project is served",
        ),
        (
            "locationSource: Locations",
            "locationSource: cities come from LocationBindings only",
        ),
    ] {
        assert!(error(text).contains(problem), "{}", error(text));
    }
}

#[test]
fn discovery_follows_the_mode_of_the_file() {
    for (text, expected) in [
        ("{mode: single}", DiscoveryMode::Single),
        (
            "{mode: '', discoveryKubeconfigPath: ''}",
            DiscoveryMode::Single,
        ),
        (
            "{mode: single, internalServiceDiscovery: false}",
            DiscoveryMode::Single,
        ),
        (
            "{mode: milo}",
            DiscoveryMode::Milo(MiloDiscovery::default()),
        ),
        (
            "{mode: milo, internalServiceDiscovery: true, discoveryKubeconfigPath: /d, projectKubeconfigPath: /p}",
            DiscoveryMode::Milo(MiloDiscovery {
                internal_service_discovery: true,
                discovery_kubeconfig: Some("/d".into()),
                project_kubeconfig: Some("/p".into()),
            }),
        ),
        (
            "{mode: kubeconfigs, projectKubeconfigDirectory: /k, projectKubeconfigPath: ''}",
            DiscoveryMode::Kubeconfigs("/k".into()),
        ),
    ] {
        let config = parse(&format!("discovery: {text}")).unwrap();
        assert_eq!(config.discovery, expected, "{text}");
    }
    assert!(
        error("discovery: {mode: kubeconfigs}")
            .contains("discovery.projectKubeconfigDirectory is missing: ")
    );
    let quota = "{mode: kubeconfigs, projectKubeconfigDirectory: /k, quotaKubeconfigPath: /q}";
    let error = error(&format!("discovery: {quota}"));
    assert!(
        error.contains("discovery.quotaKubeconfigPath leads to one API server"),
        "{error}"
    );
}

#[test]
fn the_name_of_a_cell_is_no_former_name() {
    let error = error("discovery: {clusterName: dfw1, formerClusterNames: [dfw, dfw1]}");
    assert!(
        error.contains("discovery.formerClusterNames contains"),
        "{error}"
    );
}

#[test]
fn quota_is_claimed_with_the_credentials_of_the_file() {
    let quota = |field, path: &str, per_project| {
        Some(QuotaConfig {
            field,
            kubeconfig: path.into(),
            per_project,
        })
    };
    let (own, projects) = ("quotaKubeconfigPath", "projectKubeconfigPath");
    for (text, expected) in [
        ("{}", None),
        ("{quotaKubeconfigPath: ''}", None),
        ("{mode: milo}", None),
        ("{quotaKubeconfigPath: /q}", quota(own, "/q", false)),
        (
            "{mode: milo, quotaKubeconfigPath: /q}",
            quota(own, "/q", true),
        ),
        (
            "{mode: milo, projectKubeconfigPath: /p}",
            quota(projects, "/p", true),
        ),
        (
            "{mode: milo, projectKubeconfigPath: /p, quotaKubeconfigPath: /q}",
            quota(own, "/q", true),
        ),
    ] {
        let config = parse(&format!("discovery: {text}")).unwrap();
        assert_eq!(config.quota, expected, "{text}");
    }
}

#[test]
fn networks_follow_the_file_and_the_feature_gate() {
    use Networking::{Bindings, Disabled, InterfaceClaims};
    let networking = |text: &str, networking_integration| {
        let gates = FeatureGates {
            networking_integration,
        };
        parse(text).unwrap().networking(gates)
    };
    for (text, gate, expected) in [
        // An existing installation has neither, and makes no networks.
        ("", None, Disabled),
        ("networking: {}", None, Disabled),
        ("networking: {strategy: ''}", None, Disabled),
        ("", Some(false), Disabled),
        ("", Some(true), InterfaceClaims),
        ("networking: {strategy: Disabled}", None, Disabled),
        ("networking: {strategy: Bindings}", None, Bindings),
        (
            "networking: {strategy: InterfaceClaims}",
            None,
            InterfaceClaims,
        ),
        (
            "networking: {strategy: InterfaceClaims}",
            Some(true),
            InterfaceClaims,
        ),
        ("networking: {strategy: Disabled}", Some(false), Disabled),
    ] {
        assert_eq!(networking(text, gate).unwrap(), expected, "{text} {gate:?}");
    }
    for (strategy, gate) in [
        ("Bindings", true),
        ("Disabled", true),
        ("InterfaceClaims", false),
    ] {
        let text = format!("networking: {{strategy: {strategy}}}");
        let error = networking(&text, Some(gate)).unwrap_err().to_string();
        for part in [
            strategy,
            &format!("NetworkingIntegration={gate}"),
            "remove one",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    // A NetworkBinding has nothing to do with the feature gate, so the gate may be off explicitly.
    assert_eq!(
        networking("networking: {strategy: Bindings}", Some(false)).unwrap(),
        Bindings
    );
    assert_eq!(
        error("networking: {strategy: bindings}"),
        "c.yaml:3:24: networking.strategy: must be \"Bindings\", \"InterfaceClaims\" or \"Disabled\", is \"bindings\""
    );
}

#[test]
fn a_field_of_another_mode_is_an_error() {
    for (field, value) in [
        ("internalServiceDiscovery", "true"),
        ("discoveryKubeconfigPath", "/d"),
        ("projectKubeconfigPath", "/p"),
    ] {
        for mode in ["", "mode: single, "] {
            assert_eq!(
                error(&format!("discovery: {{{mode}{field}: {value}}}")),
                format!(
                    "c.yaml: discovery.{field} has no effect in discovery.mode \"single\": remove it, or set the mode to \"milo\""
                )
            );
        }
        let mode = "mode: kubeconfigs, projectKubeconfigDirectory: /k, ";
        let error = error(&format!("discovery: {{{mode}{field}: {value}}}"));
        let expected = format!(
            "c.yaml: discovery.{field} has no effect in discovery.mode \"kubeconfigs\": remove it, or set the mode to \"milo\""
        );
        assert_eq!(error, expected);
    }
    for mode in ["single", "milo"] {
        let error = error(&format!(
            "discovery: {{mode: {mode}, projectKubeconfigDirectory: /k}}"
        ));
        let expected = format!(
            "c.yaml: discovery.projectKubeconfigDirectory has no effect in discovery.mode {mode:?}: remove it, or set the mode to \"kubeconfigs\""
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn the_users_that_resolve_referenced_data_are_configured() {
    let names = |text: &str| parse(text).unwrap().resolver_usernames;
    for text in [
        "",
        "referencedData:",
        "referencedData: {resolverUsernames: }",
    ] {
        assert_eq!(names(text), [""; 0], "{text}");
    }
    let text = "referencedData: {resolverUsernames: [a, 'system:serviceaccount:b:c']}";
    assert_eq!(names(text), ["a", "system:serviceaccount:b:c"]);
    for (text, expected) in [
        (
            "referencedData: {resolverUsernames: [a, '']}",
            "referencedData.resolverUsernames contains an empty name: remove it",
        ),
        (
            "referencedData: {resolverUsername: [a]}",
            "resolverUsername: unknown field, known are resolverUsernames",
        ),
    ] {
        let error = format!("{:#}", parse(text).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_error_is_one_line_with_the_position_and_the_field() {
    for (text, expected) in [
        (
            "metricServer: {}",
            "3:1: metricServer: unknown field, known are apiVersion, kind, metricsServer, webhookServer, discovery, networking, featureFlags, referencedData, interpreterCustomizations, locationSource",
        ),
        (
            "webhookServer: {tls: {secretRef: {name: x}}}",
            "3:34: webhookServer.tls.secretRef: certificates are read from files only: mount the Secret, and set certDir",
        ),
        (
            "webhookServer: {port: 70000}",
            "3:23: webhookServer.port: must be 1-65535",
        ),
        (
            "discovery: {internalServiceDiscovery: perhaps}",
            "3:39: discovery.internalServiceDiscovery: must be true or false",
        ),
        ("webhookServer: 3", "3:16: webhookServer: must be a mapping"),
        (
            "webhookServer: {host: []}",
            "3:23: webhookServer.host: must be a text",
        ),
        (
            "discovery:\n  mode: kind",
            "4:9: discovery.mode: must be \"single\", \"milo\" or \"kubeconfigs\", is \"kind\"",
        ),
        (
            "metricsServer: {bindAddress: ':70000'}",
            "3:30: metricsServer.bindAddress: the port of \":70000\" must be a number from 0 to 65535; 0 means a free port",
        ),
        (
            "discovery: {}\ndiscovery: {}",
            "4:1: not valid YAML: duplicate mapping key: discovery not allowed here",
        ),
        (
            "metricServer: [1, 2\nb: 3",
            "4:2: not valid YAML: illegal placement of ':' indicator",
        ),
    ] {
        assert_eq!(error(text), format!("c.yaml:{expected}"), "{text}");
    }
    for (text, expected) in [
        (
            "discovery: {clusterName: DFW 1}",
            "c.yaml:3:26: discovery.clusterName: cell name \"DFW 1\" is not valid",
        ),
        (
            "metricsServer: {bindAddress: x}",
            "c.yaml:3:30: metricsServer.bindAddress: \"x\" is not an address",
        ),
    ] {
        assert!(error(text).starts_with(expected), "{}", error(text));
    }
}

#[test]
fn an_error_names_a_wrong_or_missing_api_version_or_kind() {
    for (text, expected) in [
        (
            "",
            ": apiVersion is missing, must be \"apiserver.config.datumapis.com/v1alpha1\"",
        ),
        (
            "apiVersion: v1\nkind: Config",
            ":1:13: apiVersion: must be \"apiserver.config.datumapis.com/v1alpha1\", is \"v1\"",
        ),
        (
            "apiVersion: apiserver.config.datumapis.com/v1alpha1",
            ": kind is missing, must be \"WorkloadOperator\"",
        ),
        ("text", ":1:1: must be a mapping"),
    ] {
        let error = Config::parse("c.yaml", text).unwrap_err();
        assert_eq!(format!("{error:#}"), format!("c.yaml{expected}"), "{text}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = format!(
        "{:#}",
        Config::load(Some(Path::new("/no/such/config.yaml"))).unwrap_err()
    );
    assert!(error.starts_with("/no/such/config.yaml: "), "{error}");
}

#[test]
fn customizations_need_a_webhook_server_and_a_directory() {
    let directory = |text: &str| parse(text).unwrap().webhooks.unwrap().customizations;
    assert_eq!(directory("webhookServer: {}"), None);
    let text = "webhookServer: {}\ninterpreterCustomizations: {directory: /scripts}";
    assert_eq!(directory(text), Some("/scripts".into()));
    for (text, expected) in [
        (
            "interpreterCustomizations: {directory: /scripts}",
            "has no effect without webhookServer",
        ),
        (
            "webhookServer: {}\ninterpreterCustomizations: {directory: ''}",
            "interpreterCustomizations.directory is empty",
        ),
    ] {
        let error = error(text);
        assert!(error.contains(expected), "{error}");
    }
}
