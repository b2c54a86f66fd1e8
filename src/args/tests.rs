use super::*;

fn parse(args: &[&str]) -> Result<Args, String> {
    let args = std::iter::once("compute-federation")
        .chain(args.iter().copied())
        .map(OsString::from);
    let parsed = CommandLine::try_parse_from(go_forms(args));
    parsed
        .map(|line| line.manager)
        .map_err(|error| error.to_string())
}

#[test]
fn everything_is_off_by_default() {
    let args = parse(&[]).unwrap();
    assert!(!args.roles.has_controllers() && args.roles.manages_the_hub() && !args.leader_elect);
    assert_eq!(args.server_config, OptionalFlag(None));
    assert_eq!(
        args.health_probe_bind_address,
        BindAddress::At {
            host: String::new(),
            port: 8081
        }
    );
}

#[test]
fn booleans_accept_the_forms_of_go() {
    for (flag, expected) in [
        ("--leader-elect", true),
        ("-leader-elect", true),
        ("--leader-elect=true", true),
        ("--leader-elect=1", true),
        ("--leader-elect=T", true),
        ("--leader-elect=false", false),
        ("--leader-elect=F", false),
        ("--leader-elect=", false),
    ] {
        assert_eq!(parse(&[flag]).unwrap().leader_elect, expected, "{flag}");
    }
    let error = parse(&["--leader-elect=yes"]).unwrap_err();
    assert!(
        error.contains("--leader-elect") && error.contains("\"yes\" is not true or false"),
        "{error}"
    );
}

#[test]
fn an_empty_value_means_unset() {
    let args = parse(&[
        "--server-config=",
        "--federation-kubeconfig=",
        "--kubeconfig",
        "",
    ])
    .unwrap();
    assert_eq!(args.server_config, OptionalFlag(None));
    assert_eq!(args.federation_kubeconfig, OptionalFlag(None));
    assert_eq!(args.kubeconfig, OptionalFlag(None));
    let args = parse(&["--health-probe-bind-address="]).unwrap();
    assert_eq!(
        args.health_probe_bind_address,
        BindAddress::At {
            host: String::new(),
            port: 8081
        }
    );
}

#[test]
fn values_follow_an_equals_sign_or_a_space() {
    for flags in [
        vec!["--server-config=/c.yaml"],
        vec!["--server-config", "/c.yaml"],
        vec!["-server-config=/c.yaml"],
    ] {
        assert_eq!(
            parse(&flags).unwrap().server_config,
            OptionalFlag(Some("/c.yaml".into())),
            "{flags:?}"
        );
    }
    let args = parse(&["--downstream-kubeconfig=/hub"]).unwrap();
    assert_eq!(
        args.federation_kubeconfig,
        OptionalFlag(Some("/hub".into()))
    );
}

#[test]
fn an_invalid_log_level_is_refused() {
    for good in [
        "info",
        "DEBUG",
        "off",
        "info,multicluster=debug",
        "warn,controllers::policy=trace,[reconcile]=debug",
    ] {
        assert_eq!(parse(&["--log-level", good]).unwrap().log.log_level, good);
    }
    assert_eq!(parse(&["--log-level="]).unwrap().log.log_level, "info");
    for (bad, expected) in [
        ("info,", "\"\" is not a level"),
        ("inf0", "\"inf0\" is not a level: off, error, warn"),
        ("info,planes", "\"planes\" is not a level"),
        (
            "info,multicluster=loud",
            "\"multicluster=loud\": error parsing level",
        ),
        ("=debug", "\"=debug\": invalid filter directive"),
    ] {
        let error = parse(&["--log-level", bad]).unwrap_err();
        assert!(
            error.contains("--log-level") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn addresses_accept_the_forms_of_go() {
    let at = |host: &str, port| {
        Ok(BindAddress::At {
            host: host.into(),
            port,
        })
    };
    assert_eq!("0".parse(), Ok(BindAddress::Off));
    assert_eq!(":8443".parse(), at("", 8443));
    assert_eq!("127.0.0.1:0".parse(), at("127.0.0.1", 0));
    assert_eq!("localhost:8081".parse(), at("localhost", 8081));
    assert_eq!("[::1]:8081".parse(), at("::1", 8081));
    for text in ["", "8081", ":x", ":70000", "::1:8081", "localhost"] {
        assert!(text.parse::<BindAddress>().is_err(), "{text}");
    }
}

#[test]
fn durations_accept_the_forms_of_go() {
    let delay = |text: &str| {
        parse(&[&format!("--ca-bundle-delay={text}")]).map(|args| args.ca_bundle_delay)
    };
    assert_eq!(delay("5s"), Ok(Duration::from_secs(5)));
    assert_eq!(delay("1m30s"), Ok(Duration::from_secs(90)));
    assert_eq!(delay("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(delay("0s"), Ok(Duration::ZERO));
    for text in ["", "5", "-5s", "soon"] {
        assert!(
            delay(text).unwrap_err().contains("--ca-bundle-delay"),
            "{text}"
        );
    }
}

fn parse_interpreter(args: &[&str]) -> Result<Box<InterpreterArgs>, String> {
    let args = ["compute-federation", "interpreter"]
        .iter()
        .chain(args)
        .map(OsString::from);
    match CommandLine::try_parse_from(go_forms(args)) {
        Ok(CommandLine {
            command: Some(Command::Interpreter(args)),
            ..
        }) => Ok(args),
        Ok(_) => panic!("no interpreter"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_interpreter_has_its_own_flags() {
    let args = parse_interpreter(&["--cert-dir", "/c"]).unwrap();
    assert_eq!((args.bind_address.as_str(), args.port), ("127.0.0.1", 9443));
    let error = parse_interpreter(&["--self-signed=yes"]).unwrap_err();
    assert!(error.contains("\"yes\" is not true or false"), "{error}");
}

#[test]
fn a_limit_of_zero_is_refused_with_its_flag() {
    for flag in [
        "--max-body=0",
        "--max-bytes-in-flight=0",
        "--max-requests=0",
        "--max-connections=0",
        "--max-requests-per-connection=0",
        "--request-timeout=0s",
        "--handshake-timeout=0s",
        "--header-timeout=0s",
        "--write-timeout=0s",
        "--idle-timeout=0s",
        "--max-connection-age=0s",
        "--certificate-poll=0s",
    ] {
        let error = parse(&[flag]).unwrap_err();
        let (name, _) = flag.split_once('=').unwrap();
        assert!(error.contains(name) && error.contains('0'), "{error}");
    }
    assert!(parse(&["--shutdown-delay=0s", "--drain-timeout=0s"]).is_ok());
    let error = parse(&["--request-timeout=9223372036854775807s"]).unwrap_err();
    assert!(error.contains("--request-timeout") && error.contains("too long"));
}

#[test]
fn the_interpreter_needs_exactly_one_certificate_source() {
    let directory = CertificateSource::Directory("/c".as_ref());
    let url = Some("https://x/interpret");
    for (flags, expected) in [
        (&["--cert-dir=/c"][..], directory),
        (
            &["--cert-dir=/c", "--self-signed=false", "--url="],
            directory,
        ),
        (
            &["--self-signed"],
            CertificateSource::SelfSigned { url: None },
        ),
        (
            &["-self-signed=true", "--cert-dir="],
            CertificateSource::SelfSigned { url: None },
        ),
        (
            &["--self-signed", "--url=https://x/interpret"],
            CertificateSource::SelfSigned { url },
        ),
    ] {
        let args = parse_interpreter(flags).unwrap();
        assert_eq!(args.certificate_source().unwrap(), expected, "{flags:?}");
    }
    for (flags, expected) in [
        (&[][..], "one of --cert-dir and --self-signed is required"),
        (
            &["--cert-dir=", "--self-signed=false"],
            "one of --cert-dir and --self-signed is required",
        ),
        (
            &["--cert-dir=/c", "--self-signed"],
            "--cert-dir and --self-signed exclude each other",
        ),
        (
            &["--cert-dir=/c", "--url=https://x/interpret"],
            "--url has no effect without --self-signed",
        ),
    ] {
        let args = parse_interpreter(flags).unwrap();
        let error = args.certificate_source().unwrap_err();
        assert_eq!(error.to_string(), expected, "{flags:?}");
    }
}

#[test]
fn the_last_of_a_repeated_flag_wins() {
    let args = parse(&[
        "--leader-elect",
        "--leader-elect=false",
        "--server-config=/a",
        "--server-config",
        "/b",
        "--downstream-kubeconfig=/c",
        "--federation-kubeconfig=/d",
        "--log-format=json",
        "--log-format=text",
        "--max-requests=1",
        "-max-requests=2",
    ])
    .unwrap();
    assert!(!args.leader_elect);
    assert_eq!(args.server_config, OptionalFlag(Some("/b".into())));
    assert_eq!(args.federation_kubeconfig, OptionalFlag(Some("/d".into())));
    assert!(matches!(args.log.log_format, LogFormat::Text));
    assert_eq!(args.server.requests(1).requests, 2);
    let args = parse_interpreter(&["--cert-dir=/a", "--cert-dir=/b"]).unwrap();
    let last = CertificateSource::Directory("/b".as_ref());
    assert_eq!(args.certificate_source().unwrap(), last);
}

#[test]
fn flags_of_the_go_manager_are_ignored_where_that_is_harmless() {
    let args = parse(&[
        "--zap-devel",
        "--zap-devel=false",
        "--zap-encoder=json",
        "-zap-log-level",
        "debug",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=iso8601",
        "--feature-gates=RuntimeClasses=0",
        "--instance-type-deprecation-grace-period=1440h",
        "--instance-type-default=x",
        "--karmada-kubeconfig=/hub",
    ])
    .unwrap();
    assert_eq!(args.ignored.given().len(), 7);
    assert_eq!(
        args.federation_kubeconfig,
        OptionalFlag(Some("/hub".into()))
    );
    assert_eq!(parse(&[]).unwrap().ignored.given(), [""; 0]);
}

#[test]
fn only_networks_are_a_feature() {
    for (gates, expected) in [
        ("", None),
        ("RuntimeClasses=false", None),
        ("NetworkingIntegration=true", Some(true)),
        ("RuntimeClasses=0, NetworkingIntegration=1", Some(true)),
        (
            "NetworkingIntegration=true,NetworkingIntegration=false",
            Some(false),
        ),
    ] {
        let args = parse(&["--feature-gates", gates]).unwrap();
        assert_eq!(
            args.feature_gates.networking_integration, expected,
            "{gates}"
        );
    }
    assert_eq!(parse(&[]).unwrap().feature_gates, FeatureGates::default());
    for (gates, problem) in [
        (
            "InstanceTypes=true",
            "feature \"InstanceTypes\" does not exist here",
        ),
        ("InstanceTypes", "\"InstanceTypes\" is not a feature gate"),
    ] {
        let error = parse(&["--feature-gates", gates]).unwrap_err();
        assert!(
            error.contains("--feature-gates") && error.contains(problem),
            "{error}"
        );
    }
}
