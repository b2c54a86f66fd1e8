//! Tests of the rights of compute-federation. All federation tests run with the roles of `deploy/`. The tests here
//! check what these roles do not allow. At the end of a run, [`check_requests`] checks the audit logs.

#[path = "rights/requests.rs"]
mod requests;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use api::lower_hub::lease_of;
use api::rights::{
    DENIED, Denied, Identity, MANAGER_USER, NAMESPACE, Plane, ROLES, Role, Rule, Subject, Target,
};
use api::{Instance, LowerHub, labels};
use harness::milo::MiloUser;
use harness::rights::{PlaneUser, attributes};
use harness::{Federation, Milo};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectRulesReview};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use multicluster::connect;
use serde_json::{Value, json};

use crate::fixture::{DFW, ORD, Space, create, instance};
use crate::milo::PROJECTS;
pub(crate) use requests::check_requests;

/// Rights that every authenticated user has: discovery, and reviews about itself.
const OF_EVERYONE: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];

/// One right: verb, API group, resource, and the name of the only object.
pub(crate) type Right = (String, String, String, String);

pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = connect::kubeconfig(kubeconfig, None).await?;
    Ok(connect::client(config, "test")?)
}

/// Asks the API server whether the user of the client may do something.
async fn may(client: &Client, target: &Target, verb: &str) -> anyhow::Result<bool> {
    let attributes = attributes(target, verb).context("not a resource")?;
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review)?;
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Checks the rows of [`DENIED`] for an identity on a plane.
async fn nothing_of_the_table(
    client: &Client,
    identity: Identity,
    plane: &str,
) -> anyhow::Result<()> {
    let is_of = |row: &&Denied| row.identity == identity && row.plane == plane;
    let mut tried = 0;
    for row in DENIED.iter().filter(is_of) {
        let target = Target::Resource {
            group: row.group,
            resource: row.resource,
            names: &[],
        };
        for verb in row.verbs {
            let allowed = may(client, &target, verb).await?;
            ensure!(!allowed, "{identity:?} on {plane}: {verb} {}", row.resource);
            tried += 1;
        }
    }
    ensure!(
        tried > 0,
        "the table has no row for {identity:?} on {plane}"
    );
    Ok(())
}

/// Checks that the user of the client may do everything that these roles allow. Without this check, a client that the
/// API server does not know would pass all other checks.
async fn all_of(client: &Client, roles: &[&Role]) -> anyhow::Result<()> {
    for role in roles {
        for Rule { target, verbs, .. } in role.rules {
            for verb in *verbs {
                let allowed = may(client, target, verb.name()).await?;
                ensure!(allowed, "{}: {verb:?} {target:?}", role.name);
            }
        }
    }
    Ok(())
}

/// Returns the rights that these roles list.
fn listed(roles: &[&Role]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role.rules) {
        let Target::Resource {
            group,
            resource,
            names,
        } = rule.target
        else {
            continue;
        };
        let names = if names.is_empty() { &[""] } else { names };
        for (verb, name) in rule
            .verbs
            .iter()
            .flat_map(|verb| names.iter().map(move |name| (verb, name)))
        {
            let right = [verb.name(), group, resource, name].map(str::to_owned);
            rights.insert(right.into());
        }
    }
    rights
}

/// Returns the rights that the API server gives to the user of the client in a namespace and outside all namespaces.
pub(crate) async fn given(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<Right>> {
    let review = serde_json::from_value(json!({"spec": {"namespace": namespace}}))?;
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    let status = answer.status.context("no rules")?;
    ensure!(!status.incomplete, "{status:?}");
    let mut rights = BTreeSet::new();
    for rule in status.resource_rules {
        let names = rule.resource_names.unwrap_or_default();
        let names = if names.is_empty() {
            vec![String::new()]
        } else {
            names
        };
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.clone().unwrap_or_default() {
                for (verb, name) in rule
                    .verbs
                    .iter()
                    .flat_map(|verb| names.iter().map(move |name| (verb, name)))
                {
                    rights.insert((verb.clone(), group.clone(), resource.clone(), name.clone()));
                }
            }
        }
    }
    let is_own = |(_, group, resource, _): &Right| {
        !(OF_EVERYONE.contains(&group.as_str()) && resource.starts_with("self"))
    };
    Ok(rights.into_iter().filter(is_own).collect())
}

/// Returns the ClusterRoles that pass the filter.
fn roles(filter: impl Fn(&Role) -> bool) -> Vec<&'static Role> {
    ROLES
        .iter()
        .filter(|role| !role.namespaced && filter(role))
        .collect()
}

/// The identities of management and of the cells have exactly the rights of the table.
pub(crate) async fn no_identity_may_do_more(federation: &Federation) -> anyhow::Result<()> {
    let (project, hub) = (federation.project(), federation.hub());
    let cell = federation.cell(DFW)?;
    let (manager, cell_user) = (PlaneUser::manager(), PlaneUser::cell(DFW));
    let in_project = [Plane::Project, Plane::Registrations, Plane::OwnCluster];
    for (plane, user, identity, planes, subject) in [
        (
            project,
            &manager,
            Identity::Management,
            in_project.as_slice(),
            Subject::Manager,
        ),
        (
            hub,
            &manager,
            Identity::Management,
            &[Plane::Hub],
            Subject::ManagerUser,
        ),
        (
            hub,
            &cell_user,
            Identity::Cell,
            &[Plane::Hub],
            Subject::Cells,
        ),
        (
            cell,
            &manager,
            Identity::Cell,
            &[Plane::Cell],
            Subject::Manager,
        ),
    ] {
        let client = client(&plane.kubeconfig_of(user)?).await?;
        let roles = roles(|role| planes.contains(&role.plane) && role.subject == subject);
        all_of(&client, &roles).await?;
        nothing_of_the_table(&client, identity, plane.kind()).await?;
        let (given, listed) = (given(&client, "default").await?, listed(&roles));
        let more: Vec<_> = given.difference(&listed).collect();
        let less: Vec<_> = listed.difference(&given).collect();
        ensure!(
            more.is_empty() && less.is_empty(),
            "{user:?} in {}: {more:?}, {less:?}",
            plane.name()
        );
    }

    // A real request is refused too.
    let cell_on_hub = client(&hub.kubeconfig_of(&cell_user)?).await?;
    let secrets: Api<Secret> = Api::all(cell_on_hub);
    let error = secrets.list(&ListParams::default()).await;
    ensure!(
        matches!(&error, Err(kube::Error::Api(status)) if status.code == 403),
        "{error:?}"
    );
    // The identity of one plane is a stranger on another plane.
    let stranger = client(&project.kubeconfig_of(&cell_user)?).await?;
    ensure!(
        given(&stranger, "default").await?.is_empty(),
        "a cell has rights in a project"
    );
    Ok(())
}

/// The folder of the roles for users.
const OF_USERS: &str = "components/controller_rbac/users";

/// A customer with all roles for users writes only Workloads.
pub(crate) async fn a_customer_writes_only_workloads(
    federation: &Federation,
) -> anyhow::Result<()> {
    let project = federation.project();
    let user = PlaneUser::customer();
    let of_users = roles(|role| role.folder == OF_USERS);
    for role in &of_users {
        let binding = json!({
            "metadata": {"name": format!("{}-of-customer", role.name)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role.name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
        });
        create::<ClusterRoleBinding>(&Api::all(project.client()), binding).await?;
    }
    let client = client(&project.kubeconfig_of(&user)?).await?;
    harness::wait::eventually("the bindings are used", crate::fixture::WITHIN, || async {
        all_of(&client, &of_users).await
    })
    .await?;
    nothing_of_the_table(&client, Identity::Customer, project.kind()).await
}

/// With Milo, management and a separate webhook server have different rights.
pub(crate) async fn a_webhook_server_reads_no_workload(milo: &Milo) -> anyhow::Result<()> {
    let [project, _] = PROJECTS;
    for (user, identity) in [
        (MiloUser::management(), Identity::Management),
        (MiloUser::webhook_server(), Identity::WebhookServer),
    ] {
        for (plane, project) in [("project", Some(project)), ("root", None)] {
            let client = milo.client(&user, project).await?;
            nothing_of_the_table(&client, identity, plane).await?;
            let of_management = user.name == MANAGER_USER;
            let has = |role: &Role| match (role.name, plane) {
                ("compute", "project") | ("compute-project-proofs", "root") => of_management,
                ("compute-webhook", "project") | ("compute-ca-bundle", "root") => !of_management,
                ("compute-discovery", "root") => true,
                _ => false,
            };
            let roles = roles(|role| role.plane != Plane::Hub && has(role));
            all_of(&client, &roles).await?;
        }
    }
    Ok(())
}

/// The process of a lower hub sees and writes nothing on the upper hub but its own LowerHub and its own Lease.
pub(crate) async fn a_lower_hub_writes_only_its_own_status(
    federation: &Federation,
) -> anyhow::Result<()> {
    let hub = federation.hub();
    let (own, other) = ("below-one", "below-other");
    for name in [own, other] {
        harness::admit_lower_hub(hub, name).await?;
    }
    let client = client(&hub.kubeconfig_of(&PlaneUser::lower_hub(own))?).await?;
    nothing_of_the_table(&client, Identity::LowerHub, hub.kind()).await?;
    let lower_hubs: Api<LowerHub> = Api::all(client.clone());
    let status = json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub",
        "status": {
            "cellCount": 1, "notReady": 1,
            "cells": [{"name": "a1", "ready": false, "since": "2026-01-01T00:00:00Z", "message": "m"}],
        },
    });
    let apply = PatchParams::apply("test");
    let write = |name: &'static str, status: &Value| {
        let (lower_hubs, apply, patch) = (&lower_hubs, &apply, Patch::Apply(status.clone()));
        async move { lower_hubs.patch_status(name, apply, &patch).await }
    };
    lower_hubs.get(own).await?;
    let written = write(own, &status).await?;
    ensure!(written.status.is_some_and(|status| status.cells.len() == 1));
    forbidden(lower_hubs.get(other).await)?;
    forbidden(write(other, &status).await)?;
    forbidden(lower_hubs.delete(own, &DeleteParams::default()).await)?;
    forbidden(lower_hubs.list(&ListParams::default()).await)?;
    // The CRD does not accept a cell that is not ready at no time.
    let mut timeless = status;
    timeless["status"]["cells"][0] = json!({"name": "a1", "ready": false});
    let error = write(own, &timeless).await;
    ensure!(
        matches!(&error, Err(kube::Error::Api(status)) if status.code == 422),
        "{error:?}"
    );
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let beat = Patch::Merge(json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}));
    let params = PatchParams::default();
    leases.patch(&lease_of(own), &params, &beat).await?;
    forbidden(leases.patch(&lease_of(other), &params, &beat).await)?;
    forbidden(
        leases
            .delete(&lease_of(own), &DeleteParams::default())
            .await,
    )?;
    let all: Api<LowerHub> = Api::all(hub.client());
    let all_leases: Api<Lease> = Api::namespaced(hub.client(), NAMESPACE);
    for name in [own, other] {
        all.delete(name, &DeleteParams::default()).await?;
        all_leases
            .delete(&lease_of(name), &DeleteParams::default())
            .await?;
    }
    Ok(())
}

/// The roles are the same for all cells. The policy of `deploy/base/cell-isolation` tells them apart.
pub(crate) async fn a_cell_writes_only_its_own_copies(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "own-copies").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let other = federation.hub().kubeconfig_of(&PlaneUser::cell(ORD))?;
    let own = federation.hub().kubeconfig_of(&PlaneUser::cell(DFW))?;
    let copies = |client: Client| Api::<Instance>::namespaced(client, &space.hub_name);
    let (other, own) = (copies(client(&other).await?), copies(client(&own).await?));

    let label = labels::SOURCE_CLUSTER;
    let name = "web-us-dfw-0";
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let merge = |change: &Value| Patch::Merge(change.clone());
    let annotated = merge(&json!({"metadata": {"annotations": {"example.com/by": "a cell"}}}));
    let taken = merge(&json!({"metadata": {"labels": {label: ORD}}}));
    let unlabelled = merge(&json!({"metadata": {"labels": {label: null}}}));
    let status = merge(&json!({"status": {"conditions": []}}));
    let deletion = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    let mut of_dfw = instance("made", "web-us-dfw");
    of_dfw["metadata"]["labels"][label] = json!(DFW);
    let of_dfw: Instance = serde_json::from_value(of_dfw)?;
    let creation = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    refused(other.patch(name, &dry, &annotated).await)?;
    refused(other.patch(name, &dry, &taken).await)?;
    refused(other.patch_status(name, &dry, &status).await)?;
    refused(other.delete(name, &deletion).await)?;
    refused(other.create(&creation, &of_dfw).await)?;
    // A cell cannot give its copies to another cell, or hide their origin.
    refused(own.patch(name, &dry, &taken).await)?;
    refused(own.patch(name, &dry, &unlabelled).await)?;
    own.patch(name, &dry, &annotated).await?;
    own.patch_status(name, &dry, &status).await?;
    own.create(&creation, &of_dfw).await?;
    own.delete(name, &deletion).await?;
    // A copy of a former version does not name its cell.
    let unnamed: Instance = serde_json::from_value(instance("unnamed", "web-us-dfw"))?;
    refused(own.create(&creation, &unnamed).await)?;
    let on_hub = copies(federation.hub().client());
    on_hub.create(&PostParams::default(), &unnamed).await?;
    refused(own.patch("unnamed", &dry, &annotated).await)?;
    let mine = merge(&json!({"metadata": {"labels": {label: DFW}}}));
    own.patch("unnamed", &dry, &mine).await?;
    on_hub.delete("unnamed", &DeleteParams::default()).await?;
    space.delete_workload("web").await
}

/// Checks that the API server forbids a request.
pub(crate) fn forbidden<T>(answer: kube::Result<T>) -> anyhow::Result<()> {
    match answer {
        Err(kube::Error::Api(error)) if error.code == 403 => Ok(()),
        Err(error) => Err(error).context("refused for another reason"),
        Ok(_) => bail!("the request is not refused"),
    }
}

/// Checks that the policy has refused a write.
fn refused<T>(written: kube::Result<T>) -> anyhow::Result<()> {
    match written {
        Err(kube::Error::Api(error)) if error.message.contains("has the name of its cell") => {
            Ok(())
        }
        Err(error) => Err(error).context("refused for another reason"),
        Ok(_) => bail!("the write is not refused"),
    }
}
