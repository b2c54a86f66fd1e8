//! The identities of compute-federation, and the rights that each API server gives them: the roles of `deploy/`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::rights::{
    CELLS_GROUP, MANAGER_USER, NAMESPACE, ROLES, Role, SERVICE_ACCOUNT, Subject, Target,
};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::manager::deploy;
use crate::objects::apply;
use crate::wait;

/// Time limit until an API server uses a new binding.
const EFFECTIVE: Duration = Duration::from_mins(1);
/// ServiceAccount of a webhook server that runs without management controllers.
const WEBHOOK_ACCOUNT: &str = "compute-webhook";
/// User name of [`WEBHOOK_ACCOUNT`].
pub(crate) const WEBHOOK_USER: &str = "system:serviceaccount:compute-system:compute-webhook";
/// User of Milo's front. It impersonates the callers.
pub(crate) const FRONT_USER: &str = "harness-front";

/// A user that an API server authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneUser {
    /// The name.
    pub name: String,
    /// The groups. API servers add `system:authenticated`.
    pub groups: Vec<String>,
}

impl PlaneUser {
    fn new(name: &str, group: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            groups: group.map(str::to_owned).into_iter().collect(),
        }
    }

    /// Returns the user of the management process, and of the process of a cell or a lower hub on its own API server.
    pub fn manager() -> Self {
        Self::new(MANAGER_USER, None)
    }

    /// Returns the user of a cell's process on the hub.
    pub fn cell(cell: &str) -> Self {
        Self::new(&format!("compute-cell-{cell}"), Some(CELLS_GROUP))
    }

    /// Returns the user of the process of a lower hub on the upper hub.
    pub fn lower_hub(name: &str) -> Self {
        Self::new(&format!("compute-lower-hub-{name}"), None)
    }

    /// Returns the user of Karmada's agent of a cell on the hub.
    pub fn agent(cell: &str) -> Self {
        Self::new(
            &format!("system:karmada:agent:{cell}"),
            Some("system:karmada:agents"),
        )
    }

    /// Returns the user of all cells in a project, which claims quota.
    pub fn quota() -> Self {
        Self::new("quota-credentials", None)
    }

    /// Returns a user with the roles for customers.
    pub fn customer() -> Self {
        Self::new("customer", None)
    }

    /// Returns the user of Milo's front. It has all rights, because it impersonates every caller.
    pub(crate) fn front() -> Self {
        Self::new(FRONT_USER, Some("system:masters"))
    }
}

/// Roles that an API server gets from a folder of `deploy/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    folder: &'static str,
    /// The ServiceAccount of the bindings.
    account: &'static str,
}

const fn grant(folder: &'static str) -> Grant {
    let account = SERVICE_ACCOUNT;
    Grant { folder, account }
}

const fn to_webhook(folder: &'static str) -> Grant {
    let account = WEBHOOK_ACCOUNT;
    Grant { folder, account }
}

const CA_BUNDLE: &str = "components/controller_rbac/ca-bundle";
const DISCOVERY: &str = "components/controller_rbac/discovery";
const MANAGEMENT: &str = "components/controller_rbac/management";
const USERS: &str = "components/controller_rbac/users";
const WEBHOOK: &str = "components/controller_rbac/webhook";

/// The roles in the project of a federation. The project is also the own cluster of the management process.
pub(crate) const PROJECT: &[Grant] = &[
    grant(MANAGEMENT),
    grant(WEBHOOK),
    grant(CA_BUNDLE),
    grant("components/controller_rbac/metrics"),
    grant(USERS),
];
/// The roles on a hub.
pub(crate) const HUB: &[Grant] = &[
    grant("base/downstream-rbac/management"),
    grant("base/downstream-rbac/namespace-contents"),
    grant("base/downstream-rbac/ca-bundle"),
    grant("base/downstream-rbac/cell"),
];
/// The roles in a cell.
pub(crate) const CELL: &[Grant] = &[
    grant("components/controller_rbac/cell"),
    grant("components/controller_rbac/interface-claims"),
    grant("components/controller_rbac/network-bindings"),
    grant("components/controller_rbac/referenced-data"),
];
/// The roles on a lower hub.
pub(crate) const LOWER_HUB: &[Grant] = &[
    grant("components/controller_rbac/lower-hub"),
    grant("base/downstream-rbac/ca-bundle"),
];
/// The roles at the Milo root. Management and the webhook server are separate processes with separate identities.
pub(crate) const MILO_ROOT: &[Grant] = &[
    grant(DISCOVERY),
    grant("components/controller_rbac/project-proofs"),
    to_webhook(DISCOVERY),
    to_webhook(CA_BUNDLE),
];
/// The roles in a project of Milo.
pub(crate) const MILO_PROJECT: &[Grant] = &[grant(MANAGEMENT), to_webhook(WEBHOOK), grant(USERS)];

/// Applies roles of `deploy/`, and waits until the API server uses their bindings.
pub(crate) async fn apply_grants(client: &Client, grants: &[Grant]) -> anyhow::Result<()> {
    for grant in grants {
        for role in ROLES.iter().filter(|role| role.folder == grant.folder) {
            apply_role(client, role, grant.account, NAMESPACE).await?;
        }
    }
    let grants = grants.iter().flat_map(|grant| {
        let roles = ROLES.iter().filter(|role| role.folder == grant.folder);
        roles.map(|role| until_effective(client, role, grant.account))
    });
    try_join_all(grants).await.map(drop)
}

/// Gives the manager the Role for leader election in this namespace. In `deploy/` the namespace is `compute-system`,
/// and an overlay can change it.
///
/// # Errors
///
/// When the API server refuses the Role.
pub async fn allow_leader_election(client: &Client, namespace: &str) -> anyhow::Result<()> {
    for role in ROLES.iter().filter(|role| role.namespaced) {
        apply_role(client, role, SERVICE_ACCOUNT, namespace).await?;
    }
    Ok(())
}

/// Gives [`PlaneUser::quota`] the role that `deploy/` binds to nobody.
pub(crate) async fn allow_quota(client: &Client) -> anyhow::Result<()> {
    apply_grants(client, &[grant("components/controller_rbac/quota")]).await?;
    let PlaneUser { name, .. } = PlaneUser::quota();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "compute-cell-quota"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    });
    apply(client, &binding).await.map(drop)
}

/// Applies the file of a role. The binding gets this ServiceAccount. A Role gets this namespace.
async fn apply_role(
    client: &Client,
    role: &Role,
    account: &str,
    namespace: &str,
) -> anyhow::Result<()> {
    let file = deploy()
        .join(role.folder)
        .join(format!("{}.yaml", role.name));
    let read = || -> anyhow::Result<Vec<Value>> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&file)?)?;
        ensure!(!documents.is_empty(), "no role");
        Ok(documents)
    };
    for mut object in read().with_context(|| file.display().to_string())? {
        if role.namespaced {
            set(&mut object, "/metadata/namespace", namespace)?;
        }
        if account != SERVICE_ACCOUNT && object.get("subjects").is_some() {
            let name = format!("{}-{account}", role.name);
            set(&mut object, "/metadata/name", &name)?;
            set(&mut object, "/subjects/0/name", account)?;
        }
        apply(client, &object).await?;
    }
    Ok(())
}

/// Replaces a field that exists.
fn set(object: &mut Value, pointer: &str, value: &str) -> anyhow::Result<()> {
    let field = object.pointer_mut(pointer);
    *field.with_context(|| format!("no field {pointer}"))? = json!(value);
    Ok(())
}

/// Waits until the API server uses the binding of a ClusterRole. API servers receive bindings from a watch.
async fn until_effective(client: &Client, role: &Role, account: &str) -> anyhow::Result<()> {
    let user = match role.subject {
        Subject::Manager => PlaneUser::new(
            &format!("system:serviceaccount:{NAMESPACE}:{account}"),
            None,
        ),
        Subject::ManagerUser => PlaneUser::manager(),
        Subject::Cells => PlaneUser::cell("any"),
        Subject::Unbound => return Ok(()),
    };
    let last = role.rules.last().context("a role without rules")?;
    let verb = last.verbs.first().context("a rule without verbs")?;
    let attributes = attributes(&last.target, verb.name()).context("no resource")?;
    until_allowed(client, &user, &attributes).await
}

/// Waits until a user may do something.
pub(crate) async fn until_allowed(
    client: &Client,
    user: &PlaneUser,
    attributes: &Value,
) -> anyhow::Result<()> {
    let review = json!({"spec": {
        "user": user.name,
        "groups": user.groups,
        "resourceAttributes": attributes,
    }});
    let review: SubjectAccessReview = serde_json::from_value(review)?;
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let what = format!("{}: {attributes} is allowed", user.name);
    wait::eventually(&what, EFFECTIVE, || async {
        let answer = api.create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        ensure!(status.allowed, "{status:?}");
        Ok(())
    })
    .await
}

/// Returns the attributes of an access review for this verb, or `None` if the target is no resource.
pub fn attributes(target: &Target, verb: &str) -> Option<Value> {
    let Target::Resource {
        group,
        resource,
        names,
    } = *target
    else {
        return None;
    };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Some(json!({
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "name": names.first(),
        "verb": verb,
    }))
}
