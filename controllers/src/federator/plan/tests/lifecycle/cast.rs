//! Runs the real plans on real objects for the model. Results are cached, because the same inputs occur very often.

use std::collections::{BTreeSet, HashMap};

use api::karmada::PropagationPolicy;
use api::{CityCode, HubNamespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::*;
use super::world::{
    City, Deletion, HubCopy, Id, ModelDeployment, ModelPhase, ModelPlanes, NAMES, Policy,
};
use crate::names;
use crate::policy::plan as policies;
use crate::policy::serves;

/// The effect of a federator plan in the model.
#[derive(Clone, Copy)]
pub(super) struct Federated {
    pub(super) records: bool,
    /// The label of the copy that is created or changed.
    pub(super) label: Option<City>,
    pub(super) deletes: bool,
    pub(super) releases: bool,
}

/// The effect of a policy plan in the model.
#[derive(Clone, Default)]
pub(super) struct PolicyPlan {
    /// The names and cities of the policies that the plan creates.
    pub(super) create: Vec<(usize, City)>,
    pub(super) delete: Vec<Deletion>,
}

pub(super) struct Cast {
    cities: Vec<CityCode>,
    names: Vec<String>,
    namespace: HubNamespace,
    federated: HashMap<(ModelDeployment, Option<City>, bool), Federated>,
    planned: HashMap<ModelPlanes, PolicyPlan>,
    objects: HashMap<(u8, Policy), Arc<PropagationPolicy>>,
    deployments: HashMap<ModelDeployment, Arc<WorkloadDeployment>>,
    claimed: HashMap<(Option<City>, Option<Id>), ObjectMeta>,
}

impl Cast {
    pub(super) fn new(cities: &[&str]) -> Self {
        let cities = cities.iter().map(|code| CityCode::new(*code).unwrap());
        let cities: Vec<_> = cities.collect();
        // The model knows two policy names for each city. A third name would be missing here.
        let names = cities.iter().flat_map(|city| {
            let readable = format!("city-{}", city.name_part());
            let parts = [city.as_str()];
            let names = names::derived(&readable, &parts).take(2);
            names.collect::<Vec<_>>()
        });
        let names: BTreeSet<_> = names.collect();
        assert!(names.len() <= NAMES);
        Self {
            cities,
            names: names.into_iter().collect(),
            namespace: HubNamespace::new(HUB_NAMESPACE).unwrap(),
            federated: HashMap::new(),
            planned: HashMap::new(),
            objects: HashMap::new(),
            deployments: HashMap::new(),
            claimed: HashMap::new(),
        }
    }

    pub(super) fn cities(&self) -> impl Iterator<Item = City> + use<> {
        (0..).take(self.cities.len())
    }

    fn code(&self, city: City) -> &CityCode {
        &self.cities[usize::from(city)]
    }

    fn deployment(&mut self, it: ModelDeployment) -> Arc<WorkloadDeployment> {
        let city = &self.cities[usize::from(it.city)];
        let deployment = self.deployments.entry(it).or_insert_with(|| {
            let recorded = recorded(city.as_str());
            Arc::new(match it.phase {
                ModelPhase::New => deployment("default", "web-us-dfw", city.as_str(), 2),
                ModelPhase::Recorded => recorded,
                ModelPhase::Terminating => terminating(recorded),
            })
        });
        Arc::clone(deployment)
    }

    /// Returns the metadata of a copy or a binding. The metadata contain only the relevant fields.
    fn claimed(&mut self, city: Option<City>, claim: Option<Id>) -> &ObjectMeta {
        let (cities, names) = (&self.cities, &self.names);
        self.claimed.entry((city, claim)).or_insert_with(|| {
            let label = city.map(|city| {
                let city = cities[usize::from(city)].as_str();
                (labels::CITY_CODE.to_owned(), city.to_owned())
            });
            let claim = claim.map(|id| {
                let name = &names[usize::from(id.name)];
                (annotations::POLICY_NAME.to_owned(), name.clone())
            });
            ObjectMeta {
                labels: Some(label.into_iter().collect()),
                annotations: Some(claim.into_iter().collect()),
                ..ObjectMeta::default()
            }
        })
    }

    pub(super) fn federate(
        &mut self,
        deployment: ModelDeployment,
        copy: Option<HubCopy>,
        policy_exists: bool,
    ) -> Federated {
        let key = (deployment, copy.map(|copy| copy.city), policy_exists);
        if let Some(federated) = self.federated.get(&key) {
            return *federated;
        }
        let mut hub = complete(&recorded(
            copy.map_or("none", |copy| self.code(copy.city).as_str()),
        ));
        hub.copy = hub.copy.filter(|_| copy.is_some());
        hub.policy_exists = policy_exists;
        let plan = plan_for(&self.deployment(deployment), &hub);
        let label = plan.apply_copy.map(|copy| {
            let label = copy.labels[labels::CITY_CODE].as_str();
            self.cities()
                .find(|city| self.code(*city).as_str() == label)
        });
        let federated = Federated {
            records: plan.record,
            label: label.map(Option::unwrap),
            deletes: plan.delete_copy,
            releases: plan.release,
        };
        self.federated.insert(key, federated);
        federated
    }

    pub(super) fn policy_exists(&mut self, seen: &[Option<Policy>; NAMES], city: City) -> bool {
        let policies = self.policies(seen);
        policies
            .iter()
            .any(|policy| serves(policy, self.code(city)))
    }

    fn policies(&mut self, seen: &[Option<Policy>; NAMES]) -> Vec<Arc<PropagationPolicy>> {
        let seen = (0..)
            .zip(seen)
            .filter_map(|(name, policy)| Some((name, (*policy)?)));
        seen.map(|(name, policy)| self.policy(name, policy))
            .collect()
    }

    fn policy(&mut self, name: u8, policy: Policy) -> Arc<PropagationPolicy> {
        if let Some(object) = self.objects.get(&(name, policy)) {
            return Arc::clone(object);
        }
        let wanted = ModelPlanes {
            copies: [
                Some(HubCopy {
                    city: policy.city,
                    claim: None,
                }),
                None,
            ],
            ..ModelPlanes::default()
        };
        let desired = policies::plan(&self.observed(&wanted)).apply.remove(0);
        let mut object = PropagationPolicy::new(&self.names[usize::from(name)], desired.spec);
        object.meta_mut().labels = Some(desired.labels);
        object.meta_mut().uid = Some(format!("{name}/{}", policy.uid));
        if policy.is_terminating {
            object = terminating(object);
        }
        let object = Arc::new(object);
        self.objects.insert((name, policy), Arc::clone(&object));
        object
    }

    fn observed(&mut self, seen: &ModelPlanes) -> policies::Observed {
        let policies = self.policies(&seen.policies);
        let mut observed = policies::Observed::new(&self.namespace, policies, Vec::new(), true);
        for deployment in seen.deployments.iter().flatten() {
            observed.add_upstream(&self.deployment(*deployment));
        }
        for copy in seen.copies.iter().flatten() {
            observed.add_copy(self.claimed(Some(copy.city), copy.claim));
        }
        for binding in seen.bindings.iter().flatten() {
            observed.add_claim(self.claimed(None, binding.claim));
        }
        observed
    }

    pub(super) fn plan_policies(&mut self, seen: &ModelPlanes) -> Result<PolicyPlan, String> {
        if let Some(planned) = self.planned.get(seen) {
            return Ok(planned.clone());
        }
        let plan = policies::plan(&self.observed(seen));
        let index = |name: &str| {
            let index = self.names.iter().position(|it| it == name);
            index.ok_or_else(|| format!("the model has no policy named {name}"))
        };
        let mut planned = PolicyPlan::default();
        for desired in &plan.apply {
            if desired.existing.is_some() {
                return Err(format!(
                    "{} is repaired although it is correct",
                    desired.name
                ));
            }
            let label = &desired.labels[labels::CITY_CODE];
            let mut cities = self.cities();
            let city = cities.find(|city| self.code(*city).as_str() == label);
            planned.create.push((index(&desired.name)?, city.unwrap()));
        }
        for unneeded in &plan.delete {
            let name = index(&unneeded.policy.name_any())?;
            let policy = seen.policies[name].unwrap();
            planned.delete.push(Deletion {
                id: Id {
                    name: u8::try_from(name).unwrap(),
                    uid: policy.uid,
                },
                city: policy.city,
                is_surplus: unneeded.is_surplus,
                is_proved: false,
            });
        }
        self.planned.insert(*seen, planned.clone());
        Ok(planned)
    }
}
