//! Decides which Instances on the hub cannot be projected until an administrator has corrected them (I-14).

use std::time::Duration;

use api::reasons::quarantine;
use api::{annotations, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::hub::upstream::Upstream;
use crate::names;
use crate::objects::{StringMap, deployment_name};

/// How long an Instance may lack its WorkloadDeployment. The two objects are deleted independently, and their events
/// arrive in any order.
pub(crate) const GRACE: Duration = Duration::from_mins(15);

/// The annotations that a quarantined Instance gets.
pub(crate) const ANNOTATIONS: [&str; 4] = [
    annotations::QUARANTINE_REASON,
    annotations::QUARANTINE_MESSAGE,
    annotations::QUARANTINE_FINGERPRINT,
    annotations::QUARANTINE_TIME,
];

/// The reason why an Instance on the hub is not projected. Each reason persists until an administrator corrects the
/// objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuarantineReason {
    /// The labels of the Instance's namespace do not identify a project and a namespace.
    NamespaceUnidentified,
    /// The labels of the Instance identify another project or namespace than the labels of its namespace.
    IdentityContradicted,
    /// The Instance has neither a controller owner nor a label that identifies its WorkloadDeployment.
    DeploymentNameMissing,
    /// The project does not have the WorkloadDeployment of the Instance.
    DeploymentMissing,
}

impl QuarantineReason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NamespaceUnidentified => quarantine::NAMESPACE_UNIDENTIFIED,
            Self::IdentityContradicted => quarantine::IDENTITY_CONTRADICTED,
            Self::DeploymentNameMissing => quarantine::DEPLOYMENT_NAME_MISSING,
            Self::DeploymentMissing => quarantine::DEPLOYMENT_MISSING,
        }
    }
}

/// The reason and the message for one Instance on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: QuarantineReason,
    pub(crate) message: String,
    /// Fingerprint of the labels that led to the verdict.
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

    /// Returns whether the annotations of the Instance already contain this verdict.
    pub(crate) fn is_said_by(&self, instance: &ObjectMeta) -> bool {
        let said = |key| instance.annotations.as_ref()?.get(key).map(String::as_str);
        said(annotations::QUARANTINE_REASON) == Some(self.reason.as_str())
            && said(annotations::QUARANTINE_FINGERPRINT) == Some(&self.fingerprint)
    }

    /// Returns the annotations of this verdict.
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

/// Returns the verdict that follows from the Instance and its namespace, without the project.
pub(crate) fn of_hub(namespace: &ObjectMeta, instance: &ObjectMeta) -> Option<Verdict> {
    let verdict = |reason, message| Some(Verdict::new(reason, message, namespace, instance));
    let name = namespace.name.as_deref().unwrap_or_default();
    let upstream = match Upstream::of(namespace) {
        Ok(upstream) => upstream,
        Err(problem) => {
            let message = format!(
                "the labels of hub namespace {name} do not identify a project and a namespace: {problem}"
            );
            return verdict(QuarantineReason::NamespaceUnidentified, message);
        }
    };
    if upstream.is_contradicted_by(instance) {
        let Upstream { project, namespace } = &upstream;
        let message = format!(
            "the Instance has the labels {}={:?}, {}={:?}, but its hub namespace {name} belongs to namespace {namespace} of project {project}",
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

/// Returns the verdict on an Instance whose WorkloadDeployment the project does not have.
///
/// # Errors
///
/// The remaining time for which the WorkloadDeployment may be missing. The time ends [`GRACE`] after the Instance was
/// created and after the WorkloadDeployment was first missed, whichever is later. The hub's garbage collection deletes
/// the Instances of a WorkloadDeployment after the WorkloadDeployment. Such Instances must not be reported.
pub(crate) fn without_deployment(
    namespace: &ObjectMeta,
    instance: &ObjectMeta,
    missed_since: Timestamp,
    now: Timestamp,
) -> Result<Verdict, Duration> {
    let message = format!(
        "the project has no WorkloadDeployment {:?} in the namespace that hub namespace {} represents",
        deployment_name(instance).unwrap_or_default(),
        namespace.name.as_deref().unwrap_or_default(),
    );
    let verdict = Verdict::new(
        QuarantineReason::DeploymentMissing,
        message,
        namespace,
        instance,
    );
    // An earlier process reached the same verdict.
    if verdict.is_said_by(instance) {
        return Ok(verdict);
    }
    // Without a creation time, the Instance counts as new.
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

/// Returns whether the Instance has an annotation of a verdict.
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
