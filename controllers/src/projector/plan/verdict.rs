//! Which hub Instances can have no projection until someone has put them right (P-10, I-14).

use std::time::Duration;

use api::{annotations, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::hub::upstream::Upstream;
use crate::names;
use crate::objects::{StringMap, deployment_name};

/// How long an Instance may be without its WorkloadDeployment: each goes by itself, and their ends are not told in order.
pub(crate) const GRACE: Duration = Duration::from_mins(15);

/// The annotations that say it.
pub(crate) const ANNOTATIONS: [&str; 4] = [
    annotations::QUARANTINE_REASON,
    annotations::QUARANTINE_MESSAGE,
    annotations::QUARANTINE_FINGERPRINT,
    annotations::QUARANTINE_TIME,
];

/// Why a hub Instance is not projected. Nothing that happens by itself would change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuarantineReason {
    /// The labels of its namespace do not say whose it is.
    NamespaceUnidentified,
    /// Its own labels name another project or namespace than those of its namespace.
    IdentityContradicted,
    /// It does not say which WorkloadDeployment it belongs to.
    DeploymentNameMissing,
    /// The project does not have that WorkloadDeployment.
    DeploymentMissing,
}

impl QuarantineReason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NamespaceUnidentified => "NamespaceUnidentified",
            Self::IdentityContradicted => "IdentityContradicted",
            Self::DeploymentNameMissing => "DeploymentNameMissing",
            Self::DeploymentMissing => "DeploymentMissing",
        }
    }
}

/// Why one hub Instance is not projected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: QuarantineReason,
    pub(crate) message: String,
    /// Of the labels that led here.
    pub(crate) fingerprint: String,
}

impl Verdict {
    fn new(
        reason: QuarantineReason,
        message: String,
        namespace: &ObjectMeta,
        instance: &ObjectMeta,
    ) -> Self {
        let upstream = [labels::UPSTREAM_CLUSTER_NAME, labels::UPSTREAM_NAMESPACE];
        let [of_cluster, of_namespace] = upstream.map(|key| label(namespace, key));
        let [cluster, name] = upstream.map(|key| label(instance, key));
        let deployment = deployment_name(instance).unwrap_or_default();
        Self {
            reason,
            message,
            fingerprint: names::hash(&[of_cluster, of_namespace, cluster, name, deployment]),
        }
    }

    /// Whether the Instance says so already.
    pub(crate) fn is_said_by(&self, instance: &ObjectMeta) -> bool {
        let said = |key| instance.annotations.as_ref()?.get(key).map(String::as_str);
        said(annotations::QUARANTINE_REASON) == Some(self.reason.as_str())
            && said(annotations::QUARANTINE_FINGERPRINT) == Some(&self.fingerprint)
    }

    /// The annotations that say so from now on.
    pub(crate) fn annotations(&self, now: Timestamp) -> StringMap {
        let [reason, message, fingerprint, time] = ANNOTATIONS.map(str::to_owned);
        StringMap::from([
            (reason, self.reason.as_str().to_owned()),
            (message, self.message.clone()),
            (fingerprint, self.fingerprint.clone()),
            (time, now.to_string()),
        ])
    }
}

/// What the hub alone tells of an Instance and the namespace that it is in.
pub(crate) fn of_hub(namespace: &ObjectMeta, instance: &ObjectMeta) -> Option<Verdict> {
    let verdict = |reason, message| Some(Verdict::new(reason, message, namespace, instance));
    let name = namespace.name.as_deref().unwrap_or_default();
    let upstream = match Upstream::of(namespace) {
        Ok(upstream) => upstream,
        Err(problem) => {
            let message = format!("hub namespace {name} does not say whose it is: {problem}");
            return verdict(QuarantineReason::NamespaceUnidentified, message);
        }
    };
    if upstream.is_contradicted_by(instance) {
        let Upstream { project, namespace } = &upstream;
        let message = format!(
            "labelled {}={:?}, {}={:?}, but in hub namespace {name}, which is that of namespace {namespace} of project {project}",
            labels::UPSTREAM_CLUSTER_NAME,
            label(instance, labels::UPSTREAM_CLUSTER_NAME),
            labels::UPSTREAM_NAMESPACE,
            label(instance, labels::UPSTREAM_NAMESPACE),
        );
        return verdict(QuarantineReason::IdentityContradicted, message);
    }
    if deployment_name(instance).is_none() {
        let label = labels::WORKLOAD_DEPLOYMENT_NAME;
        let message =
            format!("neither label {label} nor a controller names its WorkloadDeployment");
        return verdict(QuarantineReason::DeploymentNameMissing, message);
    }
    None
}

/// Of an Instance whose WorkloadDeployment the project does not have.
///
/// # Errors
///
/// How long that may still be on the way: for a while after the Instance was made, and after the WorkloadDeployment was
/// first missed. The hub collects Instances after their WorkloadDeployment has gone, and nothing is to be said of those.
pub(crate) fn without_deployment(
    namespace: &ObjectMeta,
    instance: &ObjectMeta,
    missed_since: Timestamp,
    now: Timestamp,
) -> Result<Verdict, Duration> {
    let message = format!(
        "the project has no WorkloadDeployment {:?} in the namespace whose hub namespace {} is",
        deployment_name(instance).unwrap_or_default(),
        namespace.name.as_deref().unwrap_or_default(),
    );
    let verdict = Verdict::new(
        QuarantineReason::DeploymentMissing,
        message,
        namespace,
        instance,
    );
    // It was found so before this process began.
    if verdict.is_said_by(instance) {
        return Ok(verdict);
    }
    // Without a time of creation it is as if it had been made just now.
    let made = instance
        .creation_timestamp
        .as_ref()
        .map_or(now, |made| made.0);
    let age = now.duration_since(made.max(missed_since));
    let age = Duration::try_from(age).unwrap_or_default();
    match GRACE.checked_sub(age) {
        None | Some(Duration::ZERO) => Ok(verdict),
        Some(rest) => Err(rest),
    }
}

/// Whether the Instance carries anything of a verdict.
pub(crate) fn is_marked(instance: &ObjectMeta) -> bool {
    let keys = instance.annotations.as_ref();
    keys.is_some_and(|keys| ANNOTATIONS.iter().any(|key| keys.contains_key(*key)))
}

fn label<'o>(object: &'o ObjectMeta, key: &str) -> &'o str {
    let keys = object.labels.as_ref();
    keys.and_then(|keys| keys.get(key))
        .map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
