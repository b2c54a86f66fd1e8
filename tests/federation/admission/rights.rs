//! Tests of the right to use a network. The authorizer of the project decides. Its input is the claims that Milo adds
//! to the request.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use harness::milo::{AuthorizerAnswer, MiloUser};
use serde_json::{Value, json};

use super::platform::{A, B, Platform, review, workload};

/// Returns a user with many claims of all kinds.
fn rich(platform: &Platform, uid: &str, projects: &[&str]) -> MiloUser {
    let mut user = platform
        .user(uid, projects)
        .with_extra("authentication.kubernetes.io/credential-id", &["X509=1"])
        .with_extra("example.com/teams/in.order", &["z", "a", "m", "a"])
        .with_extra("example.com/Case-And %2F", &["Kept As It Is, %41"])
        .with_extra("ключ", &["Zoë 日本"])
        .with_extra("empty", &["", "not", ""]);
    for count in 0..20 {
        user = user.with_extra(&format!("claims.example.com/{count}"), &["one", "two"]);
    }
    user.groups = vec!["writers".to_owned(), "équipe".to_owned()];
    user
}

/// Returns the access reviews that the authorizer of a project has received about a network.
fn specs_of_reviews(platform: &Platform, project: &str, network: &str) -> Vec<Value> {
    let reviews = platform.milo.authorizer().reviews(project).into_iter();
    reviews
        .map(|review| review.spec)
        .filter(|spec| spec["resourceAttributes"]["name"] == network)
        .collect()
}

pub(crate) async fn a_user_with_the_right_may_use_a_network(
    platform: &Platform,
) -> anyhow::Result<()> {
    let network = "of-rights";
    let ada = rich(platform, "rights-ada", &[A]);
    let mut web = workload("rights", network, &["ORD"]);
    platform.accepted(&ada, A, &web).await?;
    let specs_then = specs_of_reviews(platform, A, network);
    let [spec] = specs_then.as_slice() else {
        anyhow::bail!("{specs_then:#?}")
    };
    let claims = &review(&ada, A, &web)["request"]["userInfo"]["extra"];
    assert_eq!(&spec["extra"], claims);
    assert_eq!(spec["user"], "rights-ada@example.com");
    assert_eq!(spec["uid"], "rights-ada");
    assert_eq!(
        spec["groups"],
        json!(["writers", "équipe", "system:authenticated"])
    );
    let attributes = json!({
        "group": "networking.datumapis.com", "version": "v1alpha", "resource": "networks", "verb": "use",
        "namespace": "default", "name": network,
    });
    assert_eq!(spec["resourceAttributes"], attributes);

    // In the other project the same user has no right.
    let error = platform.refused(&ada, B, &web).await?;
    let line = "spec.template.spec.networkInterfaces[0].network: Forbidden: permission to use the network was denied: \
                rights-ada has no";
    ensure!(error.contains(line), "{error}");

    // A dry run sends a review and has no other effect. An update that uses no further network sends no review.
    web["metadata"]["name"] = json!("rights-dry");
    let dry_run = ["apply", "--dry-run=server", "--filename=-"];
    let output = platform.kubectl(&ada, A, &dry_run, Some(&web)).await?;
    ensure!(output.status.success(), "{output:?}");
    let get = ["get", "workload", "rights-dry"];
    let output = platform.kubectl(&ada, A, &get, None).await?;
    ensure!(!output.status.success(), "a dry run has made it");
    assert_eq!(specs_of_reviews(platform, A, network).len(), 2);
    web["metadata"]["name"] = json!("rights");
    web["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
        json!("nginx:2");
    let stranger = MiloUser::new("stranger@example.com", "rights-stranger");
    platform.accepted(&stranger, A, &web).await?;
    assert_eq!(specs_of_reviews(platform, A, network).len(), 2);
    Ok(())
}

/// Uses project `b`. The authorizer of this project checks each claim.
pub(crate) async fn every_claim_identifies_the_requester(
    platform: &Platform,
) -> anyhow::Result<()> {
    let ada = rich(platform, "claims-ada", &[]);
    let web = workload("claims", "of-claims", &["LHR"]);
    let claims = review(&ada, B, &web)["request"]["userInfo"]["extra"].clone();
    platform.milo.authorizer().decide_by(B, move |review| {
        let spec = &review.spec;
        if spec["resourceAttributes"]["name"] != "of-claims" {
            return None;
        }
        Some(match spec["extra"] == claims {
            true => AuthorizerAnswer::Allowed,
            false => AuthorizerAnswer::Denied("other claims".to_owned()),
        })
    });
    let mut others = BTreeMap::new();
    for key in ada.extra.keys() {
        let mut without = ada.clone();
        without.extra.remove(key);
        others.insert(format!("without {key}"), without);
    }
    let mut changed = ada.clone();
    changed
        .extra
        .insert("ключ".to_owned(), vec!["Zoe 日本".to_owned()]);
    others.insert("changed".to_owned(), changed);
    let mut order = ada.clone();
    let teams = order.extra.get_mut("example.com/teams/in.order");
    teams.context("no claim has several values")?.swap(0, 1);
    others.insert("in another order".to_owned(), order);
    // Posts each review directly to the webhook, as the API server does. With `kubectl`, the test would take a minute.
    let replica = platform.replica(1)?;
    for (which, user) in &others {
        let response = platform.post(replica, &review(user, B, &web)).await?;
        assert_eq!(response["allowed"], false, "{which}");
        let cause = &response["status"]["details"]["causes"][0];
        let denied = "Forbidden: permission to use the network was denied: other claims";
        assert_eq!(cause["message"], denied, "{which}");
    }
    let (_, other) = others
        .first_key_value()
        .context("there are no other users")?;
    let error = platform.refused(other, B, &web).await?;
    ensure!(error.contains("other claims"), "{error}");
    platform.accepted(&ada, B, &web).await?;
    platform.milo.authorizer().decide_by_rights(B);
    Ok(())
}

/// The test includes claims that a request through the front cannot have.
pub(crate) async fn every_claim_reaches_the_authorizer(platform: &Platform) -> anyhow::Result<()> {
    let network = "of-every-claim";
    let user = platform
        .user("every-claim", &[A])
        .with_extra("UPPER.example.com/Key", &["V", "v"])
        .with_extra(" space ", &[" around ", "\u{1}", "\"quotes\"", ""])
        .with_extra("nothing", &[])
        .with_extra(&"long".repeat(1000), &[&"x".repeat(100_000)]);
    let review = review(&user, A, &workload("every-claim", network, &["DFW"]));
    for replica in &platform.replicas {
        let response = platform.post(replica, &review).await?;
        assert_eq!(response["allowed"], true, "{response}");
        assert_eq!(response["uid"], review["request"]["uid"]);
    }
    let specs = specs_of_reviews(platform, A, network);
    assert_eq!(specs.len(), 2);
    for spec in specs {
        let mut extra = review["request"]["userInfo"]["extra"].clone();
        // We keep a claim without values, but the API server drops it when it calls the authorizer.
        if spec["extra"].get("nothing").is_none_or(Value::is_null) {
            extra
                .as_object_mut()
                .context("Extra is no object")?
                .remove("nothing");
        }
        assert_eq!(spec["extra"], extra);
    }
    Ok(())
}
