//! The rights of the agent of a pull cell.

use anyhow::ensure;
use harness::Federation;
use harness::rights::PlaneUser;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::FAR;
use crate::fixture::DFW;

/// The agent of a cell can neither read nor write anything of another cell.
pub(super) async fn the_agent_has_only_its_own(federation: &Federation) -> anyhow::Result<()> {
    let reviews: Api<SubjectAccessReview> = Api::all(federation.hub().client());
    let PlaneUser {
        name: user,
        mut groups,
    } = PlaneUser::agent(FAR);
    groups.push("system:authenticated".to_owned());
    let may = |verb: &str, group: &str, resource: &str, namespace: &str, name: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review: Value = json!({"spec": {"user": user, "groups": groups, "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name,
        }}});
        let reviews = reviews.clone();
        async move {
            let review = serde_json::from_value(review)?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            anyhow::Ok(answer.status.is_some_and(|status| status.allowed))
        }
    };
    let (own, other) = (format!("karmada-es-{FAR}"), format!("karmada-es-{DFW}"));
    let (clusters, leases, works) = (
        "cluster.karmada.io",
        "coordination.k8s.io",
        "work.karmada.io",
    );
    for (verb, group, resource, namespace, name, expected) in [
        ("update", works, "works/status", &*own, "any", true),
        ("get", works, "works", &other, "any", false),
        ("list", works, "works", &other, "", false),
        ("list", works, "works", "", "", false),
        ("update", works, "works", &other, "any", false),
        ("update", works, "works/status", &other, "any", false),
        ("create", works, "works", &own, "", false),
        ("delete", works, "works", &own, "any", false),
        ("update", clusters, "clusters/status", "", FAR, true),
        ("update", clusters, "clusters/status", "", DFW, false),
        ("update", clusters, "clusters", "", FAR, false),
        ("create", clusters, "clusters", "", "", false),
        ("delete", clusters, "clusters", "", FAR, false),
        ("update", leases, "leases", "karmada-cluster", FAR, true),
        ("update", leases, "leases", "karmada-cluster", DFW, false),
        (
            "update",
            leases,
            "leases",
            "karmada-system",
            "karmada-scheduler",
            false,
        ),
        ("create", leases, "leases", "karmada-cluster", "", false),
        ("create", "", "secrets", "karmada-cluster", "", false),
        ("get", "", "secrets", "karmada-cluster", DFW, false),
        ("list", "", "secrets", "", "", false),
        ("list", "", "namespaces", "", "", false),
        (
            "get",
            api::GROUP,
            "workloaddeployments",
            "default",
            "any",
            false,
        ),
        ("list", works, "resourcebindings", "", "", false),
    ] {
        let allowed = may(verb, group, resource, namespace, name).await?;
        ensure!(
            allowed == expected,
            "{verb} {resource}.{group} {namespace}/{name}: allowed is {allowed}"
        );
    }
    Ok(())
}
