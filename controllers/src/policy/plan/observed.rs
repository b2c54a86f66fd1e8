//! The observations about one hub namespace and the project's namespace that it belongs to.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::karmada::PropagationPolicy;
use api::{CityCode, HubNamespace, WorkloadDeployment, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::objects::{is_terminating, recorded_hub_namespace};

/// The observations, all from caches.
pub(crate) struct Observed {
    pub(crate) namespace: HubNamespace,
    /// All decodable policies in the namespace, including those of other writers.
    pub(crate) policies: Vec<Arc<PropagationPolicy>>,
    /// The metadata of the undecodable policies.
    pub(crate) unreadable: Vec<ObjectMeta>,
    /// Whether all caches are current and all objects can be decoded. If not, there may be more objects than were
    /// observed.
    pub(crate) is_complete: bool,
    /// The cities of every WorkloadDeployment that is on the hub or that a project wants on the hub.
    pub(super) needed: BTreeSet<CityCode>,
    /// The cities of every WorkloadDeployment of the project. Terminating WorkloadDeployments are included, because
    /// their copies may still exist.
    pub(super) kept: BTreeSet<CityCode>,
    /// The names of the policies for which Karmada has claimed objects.
    pub(super) claiming: BTreeSet<String>,
}

impl Observed {
    /// Creates observations of a hub namespace with these policies and nothing else.
    pub(crate) fn new(
        namespace: &HubNamespace,
        policies: Vec<Arc<PropagationPolicy>>,
        unreadable: Vec<ObjectMeta>,
        is_complete: bool,
    ) -> Self {
        Self {
            namespace: namespace.clone(),
            policies,
            unreadable,
            is_complete,
            needed: BTreeSet::new(),
            kept: BTreeSet::new(),
            claiming: BTreeSet::new(),
        }
    }

    /// Adds a WorkloadDeployment of the project. It belongs to this hub namespace if it has recorded this hub namespace
    /// or none.
    pub(crate) fn add_upstream(&mut self, deployment: &WorkloadDeployment) {
        let recorded = recorded_hub_namespace(deployment.meta());
        let is_recorded = recorded == Some(self.namespace.as_str());
        // The federator reports an invalid code. No label can have an invalid code, so the code needs no policy.
        let city = CityCode::new(deployment.spec.city_code.as_str());
        if let (true, Ok(city)) = (is_recorded || recorded.is_none(), city) {
            if is_recorded && !is_terminating(deployment) {
                self.needed.insert(city.clone());
            }
            self.kept.insert(city);
        }
    }

    /// Adds a copy on the hub. The copy may be undecodable or terminating.
    pub(crate) fn add_copy(&mut self, copy: &ObjectMeta) {
        let city = of_copy(copy).city;
        let city = city.and_then(|city| CityCode::new(city).ok());
        self.needed.extend(city);
        self.add_claim(copy);
    }

    /// Adds an object that Karmada may have claimed for a policy. The object is a copy or a binding.
    pub(crate) fn add_claim(&mut self, metadata: &ObjectMeta) {
        self.claiming
            .extend(claimed_for(metadata).map(str::to_owned));
    }
}

/// The fields of a project's WorkloadDeployment that decide about policies. The status does not decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OfUpstream<'a> {
    uid: Option<&'a str>,
    generation: Option<i64>,
    terminating: bool,
    recorded: Option<&'a str>,
}

pub(crate) fn of_upstream(deployment: &ObjectMeta) -> OfUpstream<'_> {
    OfUpstream {
        uid: deployment.uid.as_deref(),
        generation: deployment.generation,
        terminating: deployment.deletion_timestamp.is_some(),
        recorded: recorded_hub_namespace(deployment),
    }
}

/// The fields of a copy on the hub that decide about policies. The status does not decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OfCopy<'a> {
    city: Option<&'a str>,
    claimed_for: Option<&'a str>,
}

pub(crate) fn of_copy(copy: &ObjectMeta) -> OfCopy<'_> {
    let labels = copy.labels.as_ref();
    let city = labels.and_then(|labels| labels.get(labels::CITY_CODE));
    OfCopy {
        city: city.map(String::as_str),
        claimed_for: claimed_for(copy),
    }
}

/// Returns the policy for which Karmada has claimed a copy or a binding. The policy is in the same namespace.
pub(crate) fn claimed_for(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations
        .get(annotations::POLICY_NAME)
        .map(String::as_str)
}
