//! Tests of invalid configuration. The process must end with an error. The error must contain the name of the field,
//! the file or the flag.

use std::process::Output;

use tempfile::TempDir;
use tokio::time::timeout;

use crate::{HEAD, WITHIN, command, write};

/// Runs the process and returns its log. The process must end with an error, although the test sends no signal.
async fn refused(args: &[&str]) -> String {
    let output = timeout(
        WITHIN,
        command()
            .arg("--health-probe-bind-address=0")
            .args(args)
            .output(),
    );
    let Output { status, stderr, .. } = output.await.expect("the process goes on").unwrap();
    assert!(!status.success(), "{args:?}");
    String::from_utf8(stderr).unwrap()
}

/// Writes a kubeconfig. The server in the kubeconfig does not exist. The process detects this at its first request, not
/// earlier.
pub(crate) fn kubeconfig(directory: &TempDir) -> String {
    let text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
    write(directory, "kubeconfig", text)
}

#[tokio::test]
async fn an_unknown_field_of_the_config_file_is_named_with_the_file() {
    let directory = TempDir::new().unwrap();
    let config = write(
        &directory,
        "config.yaml",
        &format!("{HEAD}webhookServers: {{}}\n"),
    );
    let error = refused(&[&format!("--server-config={config}")]).await;
    assert!(
        error.contains(&format!(
            "--server-config: {config}:3:1: webhookServers: unknown field"
        )),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let directory = TempDir::new().unwrap();
    let error = refused(&["--server-config=/no/such/config.yaml"]).await;
    assert!(
        error.contains("--server-config: /no/such/config.yaml: No such file"),
        "{error}"
    );
    let error = refused(&[
        "--enable-cell-controllers",
        "--kubeconfig=/no/such/kubeconfig",
    ])
    .await;
    assert!(
        error.contains("--kubeconfig: /no/such/kubeconfig: No such file"),
        "{error}"
    );
    let own = format!("--kubeconfig={}", kubeconfig(&directory));
    let hub = "--federation-kubeconfig=/no/such/hub";
    let error = refused(&["--enable-management-controllers", &own, hub]).await;
    assert!(
        error.contains("--federation-kubeconfig: /no/such/hub: No such file"),
        "{error}"
    );
}

/// A Secret that is not mounted must not switch quota off.
#[tokio::test]
async fn a_missing_kubeconfig_for_quota_is_named() {
    let directory = TempDir::new().unwrap();
    let own = format!("--kubeconfig={}", kubeconfig(&directory));
    let hub = format!("--federation-kubeconfig={}", kubeconfig(&directory));
    for (field, mode) in [
        ("quotaKubeconfigPath", "single"),
        ("quotaKubeconfigPath", "milo"),
        ("projectKubeconfigPath", "milo"),
    ] {
        let config = write(
            &directory,
            "quota.yaml",
            &format!(
                "{HEAD}discovery: {{mode: {mode}, clusterName: dfw1, {field}: /no/such/quota}}\n"
            ),
        );
        let config = format!("--server-config={config}");
        let error = refused(&["--enable-cell-controllers", &own, &hub, &config]).await;
        assert!(
            error.contains(&format!("discovery.{field}: /no/such/quota: No such file")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_invalid_kubeconfig_is_named() {
    let directory = TempDir::new().unwrap();
    let broken = write(&directory, "broken", "clusters: 3\n");
    let error = refused(&[
        "--enable-cell-controllers",
        &format!("--kubeconfig={broken}"),
    ])
    .await;
    assert!(error.contains(&format!("{broken}: ")), "{error}");
    let own = format!("--kubeconfig={}", kubeconfig(&directory));
    let hub = format!("--federation-kubeconfig={}", kubeconfig(&directory));
    let error = refused(&[
        "--enable-management-controllers",
        &own,
        &hub,
        "--federation-context=other",
    ])
    .await;
    assert!(
        error.contains("--federation-kubeconfig") && error.contains("other"),
        "{error}"
    );
}

/// I-28: a role does not start without its prerequisites.
#[tokio::test]
async fn an_error_names_the_missing_prerequisite_of_a_role() {
    let directory = TempDir::new().unwrap();
    let own = format!("--kubeconfig={}", kubeconfig(&directory));
    let hub = format!("--federation-kubeconfig={}", kubeconfig(&directory));
    let error = refused(&["--enable-management-controllers"]).await;
    assert!(
        error.contains(
            "--enable-management-controllers needs the own cluster: no kubeconfig: --kubeconfig is not given"
        ),
        "{error}"
    );
    let metrics = write(
        &directory,
        "metrics.yaml",
        &format!("{HEAD}metricsServer: {{bindAddress: 'localhost:0'}}\n"),
    );
    let error = refused(&[&format!("--server-config={metrics}")]).await;
    assert!(
        error.contains(
            "metricsServer.secureServing, which is on unless it is false, needs the own cluster: "
        ),
        "{error}"
    );
    let error = refused(&["--enable-management-controllers", &own]).await;
    assert!(
        error.contains("--enable-management-controllers needs --federation-kubeconfig"),
        "{error}"
    );
    let error = refused(&["--enable-cell-controllers", &own, &hub]).await;
    assert!(
        error.contains("--enable-cell-controllers needs discovery.clusterName"),
        "{error}"
    );
    let error = refused(&["--enable-lower-hub-controllers", &own, &hub]).await;
    assert!(
        error.contains("--enable-lower-hub-controllers needs discovery.clusterName"),
        "{error}"
    );
    let error = refused(&["--leader-elect", &own]).await;
    assert!(
        error.contains("--leader-elect needs --leader-elect-namespace"),
        "{error}"
    );
}

/// A lower hub is a Cluster of the upper hub, and is no cell.
#[tokio::test]
async fn a_lower_hub_has_the_name_of_a_cluster_and_no_cell_controllers() {
    let directory = TempDir::new().unwrap();
    let own = format!("--kubeconfig={}", kubeconfig(&directory));
    let hub = format!("--federation-kubeconfig={}", kubeconfig(&directory));
    let config = |name: &str| {
        let text = format!("{HEAD}discovery: {{clusterName: {name}}}\n");
        format!("--server-config={}", write(&directory, name, &text))
    };
    let below = config("us.dfw");
    let error = refused(&["--enable-lower-hub-controllers", &own, &hub, &below]).await;
    assert!(
        error.contains("discovery.clusterName: \"us.dfw\""),
        "{error}"
    );
    let of_cluster = config("dfw");
    let error = refused(&["--enable-lower-hub-controllers", &own, &of_cluster]).await;
    assert!(
        error.contains("--enable-lower-hub-controllers needs --federation-kubeconfig"),
        "{error}"
    );
    for other in [
        "--enable-cell-controllers",
        "--enable-management-controllers",
    ] {
        let both = ["--enable-lower-hub-controllers", other];
        let error = refused(&[&both[..], &[&own, &hub, &of_cluster]].concat()).await;
        assert!(
            error.contains(&format!("cannot be combined with {other}")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_invalid_flag_is_named() {
    let error = refused(&["--enable-cell-controllers=perhaps"]).await;
    assert!(
        error.contains("--enable-cell-controllers")
            && error.contains("\"perhaps\" is not true or false"),
        "{error}"
    );
    let error = refused(&["--leader-elector"]).await;
    assert!(error.contains("--leader-elector"), "{error}");
    let error = refused(&["--log-level=inf0"]).await;
    assert!(
        error.contains("--log-level") && error.contains("\"inf0\" is not a level"),
        "{error}"
    );
}
