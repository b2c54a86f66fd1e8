//! Tests of ConfigMaps and Secrets: who may write a Workload that uses them, and who may change what a WorkloadDeployment
//! expects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use api::annotations::{EXPECTED_REFERENCED_DATA, OF_REFERENCED_DATA};
use harness::milo::{AuthorizerAnswer, ControlPlane, MiloUser, StatusError};
use serde_json::{Value, json};

use super::platform::{NAMESPACE, Platform, review, workload};
use crate::fixture::deployment;

/// The rights to read in a project: each is a user and an object. Every other user may read nothing.
#[derive(Clone, Default)]
struct ReadRights {
    allowed: Arc<Mutex<BTreeSet<(String, String)>>>,
    /// The access reviews about ConfigMaps and Secrets.
    reviews: Arc<Mutex<Vec<Value>>>,
}

impl ReadRights {
    /// Lets the authorizer of a project decide by these rights.
    fn decide(&self, platform: &Platform, project: &str) {
        let Self { allowed, reviews } = self.clone();
        platform
            .milo
            .authorizer()
            .decide_by(project, move |review| {
                let attributes = &review.spec["resourceAttributes"];
                let resource = attributes["resource"].as_str().unwrap_or_default();
                if !["configmaps", "secrets"].contains(&resource) || attributes["verb"] != "get" {
                    return None;
                }
                reviews.lock().unwrap().push(review.spec.clone());
                let name = attributes["name"].as_str().unwrap_or_default();
                let user = review.spec["user"].as_str().unwrap_or_default();
                let right = (user.to_owned(), format!("{resource}/{name}"));
                Some(match allowed.lock().unwrap().contains(&right) {
                    true => AuthorizerAnswer::Allowed,
                    false => AuthorizerAnswer::Denied(format!("no role for {resource}/{name}")),
                })
            });
    }

    fn allow(&self, user: &MiloUser, object: &str) {
        let right = (user.name.clone(), object.to_owned());
        self.allowed.lock().unwrap().insert(right);
    }

    fn reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.reviews.lock().unwrap())
    }
}

/// Returns a Workload that uses a Secret in a variable and a pull secret, and a ConfigMap in a volume that is optional.
fn using_data() -> Value {
    let mut web = workload("data", "default", &["DFW"]);
    let spec = &mut web["spec"]["template"]["spec"];
    let volume = json!({"name": "settings", "configMap": {"name": "settings", "optional": true}});
    spec["volumes"] = json!([volume]);
    let sandbox = &mut spec["runtime"]["sandbox"];
    sandbox["imagePullSecrets"] = json!([{"name": "keys"}]);
    let container = &mut sandbox["containers"][0];
    container["volumeAttachments"] = json!([{"name": "settings", "mountPath": "/settings"}]);
    let key = json!({"name": "keys", "key": "token"});
    container["env"] = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": key}}]);
    web
}

/// Uses a separate project.
pub(crate) async fn a_user_with_the_right_may_reference_a_secret(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "data";
    let project = platform.add_project_in_dfw(name).await?;
    let rights = ReadRights::default();
    rights.decide(platform, name);
    let ada = platform
        .user("data-ada", &[name])
        .with_extra("example.com/team", &["z", "a"]);
    let mut web = using_data();
    rights.allow(&ada, "configmaps/settings");
    let error = platform.refused(&ada, name, &web).await?;
    let denied = "Forbidden: permission to get the Secret was denied: no role for secrets/keys; ask for this right, or \
                  remove the reference";
    for field in [
        "containers[0].env[0].valueFrom.secretKeyRef",
        "imagePullSecrets[0]",
    ] {
        let line = format!("spec.template.spec.runtime.sandbox.{field}: {denied}");
        ensure!(error.contains(&line), "{line}: {error}");
    }
    ensure!(!error.contains("configMap"), "{error}");

    // Each object is asked about once, with all claims.
    let claims = &review(&ada, name, &web)["request"]["userInfo"]["extra"];
    let asked = rights.reviews();
    let resources: BTreeSet<_> = asked
        .iter()
        .map(|spec| spec["resourceAttributes"]["resource"].as_str())
        .collect();
    ensure!(asked.len() == 2 && resources.len() == 2, "{asked:#?}");
    for spec in &asked {
        ensure!(
            spec["extra"] == *claims && spec["uid"] == "data-ada",
            "{spec:#}"
        );
        ensure!(
            spec["resourceAttributes"]["namespace"] == NAMESPACE,
            "{spec:#}"
        );
    }

    rights.allow(&ada, "secrets/keys");
    platform.accepted(&ada, name, &web).await?;
    ensure!(rights.reviews().len() == 2);

    // An update that uses no further object asks nothing.
    let stranger = platform.user("data-stranger", &[name]);
    web["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
        json!("nginx:2");
    platform.accepted(&stranger, name, &web).await?;
    ensure!(rights.reviews().is_empty());
    let all = json!([{"secretRef": {"name": "more", "optional": true}}]);
    web["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    let error = platform.refused(&stranger, name, &web).await?;
    let line =
        "containers[0].envFrom[0].secretRef: Forbidden: permission to get the Secret was denied";
    ensure!(error.contains(line), "{error}");
    ensure!(rights.reviews().len() == 1);

    project.refuse(StatusError::unavailable());
    let replica = platform.replica(0)?;
    let response = platform.post(replica, &review(&ada, name, &web)).await?;
    project.pass();
    let message = response["status"]["message"].as_str();
    let message = message.context("admitted without an answer")?;
    let line = "secretKeyRef: Internal error: it is not known whether the Secret may be read";
    ensure!(message.contains(line), "{message}");
    remove(platform, name).await
}

async fn remove(platform: &Platform, name: &str) -> anyhow::Result<()> {
    platform.milo.authorizer().decide_by_rights(name);
    platform.milo.delete_project(name).await?;
    platform.milo.stop_project(name).await
}

/// Sets an annotation of the WorkloadDeployment, or removes it. Returns the error output of `kubectl`.
async fn annotate(
    platform: &Platform,
    user: &MiloUser,
    project: &ControlPlane,
    key: &str,
    value: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let patch = json!({"metadata": {"annotations": {key: value}}}).to_string();
    let patch = format!("--patch={patch}");
    let args = ["patch", "workloaddeployment", "wd", "--type=merge", &patch];
    let output = platform.kubectl(user, project.name(), &args, None).await?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(error))
}

/// Uses a separate project. The authorizer of Milo allows everything about WorkloadDeployments.
pub(crate) async fn only_the_resolver_changes_what_is_expected(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "expected";
    let project = platform.add_project_in_dfw(name).await?;
    let user = platform.user("expecting", &[name]);
    let listed = r#"["Secret/of-somebody"]"#;
    let create = ["create", "--filename=-"];
    let mut object = deployment("wd", "DFW");
    object["metadata"]["annotations"] = json!({EXPECTED_REFERENCED_DATA: listed});
    let output = platform
        .kubectl(&user, name, &create, Some(&object))
        .await?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = |key: &str| {
        format!(
            "\"wd\" is forbidden: metadata.annotations: expecting@example.com may not change {key}: "
        )
    };
    ensure!(
        error.contains(&refused(EXPECTED_REFERENCED_DATA)),
        "{error}"
    );
    object["metadata"]["annotations"] = json!({"example.com/note": "mine"});
    let output = platform
        .kubectl(&user, name, &create, Some(&object))
        .await?;
    ensure!(output.status.success(), "{output:?}");

    let (manager, administrator) = (MiloUser::management(), MiloUser::administrator());
    for key in OF_REFERENCED_DATA {
        for (before, value) in [
            (None, Some("")),
            (None, Some(listed)),
            (Some("[]"), Some(listed)),
            (Some("[]"), None),
            (Some(""), None),
        ] {
            let reset = annotate(platform, &manager, &project, key, before).await?;
            ensure!(reset.is_none(), "{key} {before:?}: {reset:?}");
            let error = annotate(platform, &user, &project, key, value).await?;
            let error = error.with_context(|| format!("{key} became {value:?}"))?;
            ensure!(error.contains(&refused(key)), "{error}");
        }
        // The user may change everything beside them.
        let note = annotate(platform, &user, &project, "example.com/note", Some(key)).await?;
        ensure!(note.is_none(), "{note:?}");
        let set = annotate(platform, &administrator, &project, key, Some(listed)).await?;
        ensure!(set.is_none(), "{set:?}");
    }
    remove(platform, name).await
}
