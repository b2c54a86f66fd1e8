//! API servers with and without a client certificate call a replica that verifies the callers of admission.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use harness::wait;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use serde_json::{Value, json};

use super::platform::{Platform, VALIDATE, bind, review, workload};
use crate::fixture::WITHIN;

/// Common name of the client certificate.
const NAME: &str = "kube-apiserver";
/// The project whose API server presents a client certificate.
const WITH: &str = "with-certificate";
/// The project whose API server presents none.
const WITHOUT: &str = "without-certificate";

/// Uses a separate replica and separate projects.
pub(crate) async fn only_api_servers_with_a_certificate_are_accepted(
    platform: &Platform,
) -> anyhow::Result<()> {
    let milo = &platform.milo;
    let mut replica = milo.replica("verifying")?;
    let directory = milo.directory().join("verifying");
    let client = client_certificate(&directory)?;
    let served = milo
        .webhook_certificate()
        .lock()
        .await
        .directory()
        .to_owned();
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        fs::copy(served.join(file), directory.join(file)).context(file)?;
    }
    let config = milo.directory().join("verifying.yaml");
    accept(&config, &directory, NAME)?;
    replica.restart().await?;

    for name in [WITH, WITHOUT] {
        let project = milo.add_project(name).await?;
        bind(&project, "DFW", Some(true)).await?;
        if name == WITH {
            let flag = admission_configuration(&directory, &client, replica.webhook_port())?;
            project.plane().await.add_apiserver_flag(flag);
            project.kill_apiserver().await;
            project.restart_apiserver().await?;
        }
        milo.register_admission_with(&project, replica.webhook_port())
            .await?;
    }
    let user = platform.user("of-callers", &[WITH, WITHOUT]);
    let web = workload("web", "default", &["DFW"]);
    wait::eventually("the Workload is accepted", WITHIN, || {
        platform.accepted(&user, WITH, &web)
    })
    .await?;
    let error = platform.refused(&user, WITHOUT, &web).await?;
    let problem = "admission needs a client certificate";
    ensure!(error.contains(problem), "{error}");
    let metrics = replica.metrics().await?;
    let refused = "admission_clients_refused_total{reason=\"no_certificate\"} ";
    ensure!(metrics.contains(refused), "{metrics}");

    // Karmada presents no certificate. This client presents none either.
    let kind = json!({"group": "compute.datumapis.com", "version": "v1alpha", "kind": "WorkloadDeployment"});
    let object = json!({"spec": {"replicas": 3}});
    let context = json!({
        "request": {"uid": "u1", "kind": kind, "operation": "InterpretReplica", "object": object},
    });
    let answer = platform.post_to(&replica, "/interpret", &context).await?;
    ensure!(answer["response"]["replicas"] == 3, "{answer}");
    let review = review(&user, WITH, &web);
    let admitted = platform.post_to(&replica, VALIDATE, &review);
    let error = admitted.await.err().context("admission was answered")?;
    ensure!(error.to_string().contains(problem), "{error}");

    accept(&config, &directory, "another-name")?;
    replica.terminate().await;
    replica.restart().await?;
    let other = workload("other", "default", &["DFW"]);
    wait::eventually("the other name is refused", WITHIN, || async {
        let error = platform.refused(&user, WITH, &other).await?;
        let problem = "none of the names in webhookServer.clientSubjectNames";
        ensure!(error.contains(problem), "{error}");
        Ok(())
    })
    .await?;

    replica.terminate().await;
    for name in [WITH, WITHOUT] {
        milo.delete_project(name).await?;
        milo.stop_project(name).await?;
    }
    Ok(())
}

/// The files of a client certificate.
struct ClientFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// Makes a CA for clients, and a certificate that it signs.
fn client_certificate(directory: &Path) -> anyhow::Result<ClientFiles> {
    fs::create_dir_all(directory)?;
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "clients");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    fs::write(directory.join("client-ca.crt"), authority.pem())?;
    let files = ClientFiles {
        certificate: directory.join("client.crt"),
        key: directory.join("client.key"),
    };
    fs::write(&files.certificate, certificate.pem())?;
    fs::write(&files.key, key.serialize_pem())?;
    Ok(files)
}

/// Changes the config file of a replica: admission accepts only clients with this name.
fn accept(config: &Path, certificates: &Path, name: &str) -> anyhow::Result<()> {
    let mut text: Value = serde_json::from_str(&fs::read_to_string(config)?)?;
    let server = &mut text["webhookServer"];
    server["tls"]["certDir"] = json!(certificates);
    server["clientCAName"] = json!("client-ca.crt");
    server["clientSubjectNames"] = json!([name]);
    Ok(fs::write(config, text.to_string())?)
}

/// Writes an AdmissionConfiguration, as in docs/operate/certificates.md. Returns the flag of the API server.
fn admission_configuration(
    directory: &Path,
    client: &ClientFiles,
    port: u16,
) -> anyhow::Result<OsString> {
    let kubeconfig = directory.join("webhooks.kubeconfig");
    let user = json!({"client-certificate": client.certificate, "client-key": client.key});
    let users = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": format!("127.0.0.1:{port}"), "user": user}],
    });
    fs::write(&kubeconfig, users.to_string())?;
    let plugin = |name: &str| {
        json!({
            "name": name,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": kubeconfig,
            },
        })
    };
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")],
    });
    let file = directory.join("admission.yaml");
    fs::write(&file, configuration.to_string())?;
    let mut flag = OsString::from("--admission-control-config-file=");
    flag.push(file);
    Ok(flag)
}
