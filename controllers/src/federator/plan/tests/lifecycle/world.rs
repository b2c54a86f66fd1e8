//! The smallest model of a project, a hub, Karmada and our two controllers. The model has the objects on the planes,
//! the caches, and every step that an actor can take.

use std::hash::{Hash, Hasher};

use super::cast::Cast;

/// The number of WorkloadDeployments in the model, and the number of city codes.
pub(super) const DEPLOYMENTS: usize = 2;
/// The number of names that policies can have.
pub(super) const NAMES: usize = 3;

/// A city code. The value is an index into the city codes of the model.
pub(super) type City = u8;

/// The state of a project's WorkloadDeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ModelPhase {
    /// The object has no finalizer and no record yet.
    New,
    Recorded,
    Terminating,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelDeployment {
    pub(super) phase: ModelPhase,
    pub(super) city: City,
}

/// Identity of a policy. `name` is an index into the names. `uid` distinguishes policies of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) name: u8,
    pub(super) uid: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HubCopy {
    pub(super) city: City,
    pub(super) claim: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Binding {
    pub(super) claim: Option<Id>,
    /// The copy of the binding is gone, and garbage collection has not deleted the binding yet.
    pub(super) is_orphan: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Policy {
    pub(super) uid: u8,
    pub(super) city: City,
    pub(super) is_terminating: bool,
}

/// The objects on the planes, or the objects in the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelPlanes {
    pub(super) deployments: [Option<ModelDeployment>; DEPLOYMENTS],
    pub(super) copies: [Option<HubCopy>; DEPLOYMENTS],
    pub(super) bindings: [Option<Binding>; DEPLOYMENTS],
    pub(super) policies: [Option<Policy>; NAMES],
}

/// A deletion of a policy in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deletion {
    pub(super) id: Id,
    pub(super) city: City,
    pub(super) is_surplus: bool,
    /// The hub's API server has confirmed that nothing uses the policy.
    pub(super) is_proved: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ModelState {
    pub(super) there: ModelPlanes,
    pub(super) seen: ModelPlanes,
    /// Copies whose create request is in progress, with their city.
    pub(super) making: [Option<City>; DEPLOYMENTS],
    pub(super) deleting: Option<Deletion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelStep {
    UserCreates(usize, City),
    UserDeletes(usize),
    UserMoves(usize, City),
    WatchTellsOfDeployment(usize),
    WatchTellsOfCopy(usize),
    WatchTellsOfBinding(usize),
    WatchTellsOfPolicy(usize),
    KarmadaClaims(usize),
    KarmadaBinds(usize),
    KarmadaCollects(usize),
    KarmadaLetsGo(usize),
    FederatorPlans(usize),
    FederatorCreates(usize),
    PoliciesArePlanned,
    PolicyIsProvedUnused,
    PolicyIsDeleted,
}

impl ModelState {
    /// Returns the state after a step. If the step is impossible or has no effect, this is the same state.
    pub(super) fn after(mut self, step: ModelStep, cast: &mut Cast) -> Result<Self, String> {
        let Self { there, seen, .. } = &mut self;
        match step {
            ModelStep::UserCreates(i, city) => {
                let phase = ModelPhase::New;
                there.deployments[i].get_or_insert(ModelDeployment { phase, city });
            }
            ModelStep::UserDeletes(i) => match &mut there.deployments[i] {
                Some(it) if it.phase == ModelPhase::New => there.deployments[i] = None,
                Some(it) => it.phase = ModelPhase::Terminating,
                None => {}
            },
            ModelStep::UserMoves(i, city) => {
                let deployment = there.deployments[i].iter_mut();
                let live = deployment.filter(|it| it.phase != ModelPhase::Terminating);
                live.for_each(|it| it.city = city);
            }
            ModelStep::WatchTellsOfDeployment(i) => seen.deployments[i] = there.deployments[i],
            ModelStep::WatchTellsOfCopy(i) => seen.copies[i] = there.copies[i],
            ModelStep::WatchTellsOfBinding(i) => seen.bindings[i] = there.bindings[i],
            ModelStep::WatchTellsOfPolicy(name) => seen.policies[name] = there.policies[name],
            ModelStep::KarmadaClaims(i) => there.claim(i),
            ModelStep::KarmadaBinds(i) => there.bind(i),
            ModelStep::KarmadaCollects(i) => {
                there.bindings[i] = there.bindings[i].filter(|it| !it.is_orphan);
            }
            ModelStep::KarmadaLetsGo(name) => there.let_go(name),
            ModelStep::FederatorPlans(i) => self.federate(i, cast)?,
            ModelStep::FederatorCreates(i) => self.create_copy(i)?,
            ModelStep::PoliciesArePlanned => self.plan_policies(cast)?,
            ModelStep::PolicyIsProvedUnused => self.prove(),
            ModelStep::PolicyIsDeleted => self.delete_policy()?,
        }
        Ok(self)
    }

    fn federate(&mut self, i: usize, cast: &mut Cast) -> Result<(), String> {
        let (Some(deployment), None) = (self.seen.deployments[i], self.making[i]) else {
            return Ok(());
        };
        let (city, copy) = (deployment.city, self.seen.copies[i]);
        let is_to_be_made = copy.is_none() && deployment.phase != ModelPhase::Terminating;
        if is_to_be_made && self.deleting.is_some_and(|it| it.city == city) {
            return Ok(());
        }
        let policy_exists = cast.policy_exists(&self.seen.policies, city);
        let plan = cast.federate(deployment, copy, policy_exists);
        let there = &mut self.there;
        let is_current = there.deployments[i] == Some(deployment);
        if plan.records && !is_current {
            return Ok(());
        }
        if plan.records {
            let phase = ModelPhase::Recorded;
            there.deployments[i] = Some(ModelDeployment { phase, city });
            self.seen.deployments[i] = there.deployments[i];
        }
        match (plan.label, copy, &mut there.copies[i]) {
            (Some(label), None, _) => self.making[i] = Some(label),
            (Some(label), Some(_), Some(copy)) => {
                if copy.claim.is_some() && copy.city != label {
                    return Err("the label of a claimed copy is changed".to_owned());
                }
                copy.city = label;
                self.seen.copies[i] = Some(*copy);
            }
            _ => {}
        }
        if plan.deletes && self.there.copies[i].take().is_some() {
            let binding = self.there.bindings[i].iter_mut();
            binding.for_each(|it| it.is_orphan = true);
        }
        if plan.releases && self.there.copies[i].is_none() && is_current {
            self.there.deployments[i] = None;
        }
        Ok(())
    }

    fn create_copy(&mut self, i: usize) -> Result<(), String> {
        let Some(city) = self.making[i].take() else {
            return Ok(());
        };
        if self.there.copies[i].is_none() {
            if self.there.live_policy(city).is_none() {
                return Err("a copy is created and finds no policy".to_owned());
            }
            self.there.copies[i] = Some(HubCopy { city, claim: None });
            self.seen.copies[i] = self.there.copies[i];
        }
        Ok(())
    }

    fn plan_policies(&mut self, cast: &mut Cast) -> Result<(), String> {
        if self.deleting.is_some() {
            return Ok(());
        }
        let plan = cast.plan_policies(&self.seen)?;
        for (name, city) in &plan.create {
            if self.there.policies[*name].is_none() {
                let uid = self.unused_uid(*name)?;
                let (city, is_terminating) = (*city, false);
                self.there.policies[*name] = Some(Policy {
                    uid,
                    city,
                    is_terminating,
                });
                self.seen.policies[*name] = self.there.policies[*name];
            }
        }
        if plan.create.is_empty() {
            let mut deletions = plan.delete.iter();
            self.deleting = deletions
                .find(|it| !self.making.contains(&Some(it.city)))
                .copied();
        }
        Ok(())
    }

    fn prove(&mut self) {
        let Some(deletion) = &mut self.deleting else {
            return;
        };
        let copies = self.there.copies.iter().flatten();
        let of_city = copies.clone().any(|copy| copy.city == deletion.city);
        let claims = copies.map(|copy| copy.claim);
        let bindings = self.there.bindings.iter().flatten();
        let mut claims = claims.chain(bindings.map(|it| it.claim));
        if of_city && !deletion.is_surplus || claims.any(|claim| claim == Some(deletion.id)) {
            self.deleting = None;
        } else {
            deletion.is_proved = true;
        }
    }

    fn delete_policy(&mut self) -> Result<(), String> {
        let Some(deletion) = self.deleting.take_if(|it| it.is_proved) else {
            return Ok(());
        };
        let Id { name, uid } = deletion.id;
        let slot = usize::from(name);
        let Some(policy) = self.there.policies[slot]
            .as_mut()
            .filter(|it| it.uid == uid)
        else {
            return Ok(());
        };
        policy.is_terminating = true;
        self.seen.policies[slot] = self.there.policies[slot];
        let is_served = self.there.live_policy(deletion.city).is_some();
        let mut copies = self.there.copies.iter().flatten();
        if copies.any(|it| it.claim == Some(deletion.id) || it.city == deletion.city && !is_served)
        {
            return Err("the policy of a live copy is deleted".to_owned());
        }
        let mut bindings = self.there.bindings.iter().flatten();
        if bindings.any(|it| it.claim == Some(deletion.id)) {
            return Err("a policy is deleted before its bindings are gone".to_owned());
        }
        Ok(())
    }

    /// Returns a counter that no object or cache refers to.
    fn unused_uid(&self, name: usize) -> Result<u8, String> {
        let is_used = |uid: u8| {
            let id = Id {
                name: u8::try_from(name).unwrap(),
                uid,
            };
            [&self.there, &self.seen].iter().any(|planes| {
                let copies = planes.copies.iter().flatten().map(|it| it.claim);
                let bindings = planes.bindings.iter().flatten().map(|it| it.claim);
                planes.policies[name].is_some_and(|it| it.uid == uid)
                    || copies.chain(bindings).any(|claim| claim == Some(id))
            })
        };
        let mut uids = 0..8;
        uids.find(|uid| !is_used(*uid))
            .ok_or_else(|| "the model has too few identities".to_owned())
    }
}

impl Hash for ModelPlanes {
    /// Writes only few bits, because the exploration looks up states very often.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bits = 0_u64;
        let mut put = |width: u32, value: u8| bits = bits << width | u64::from(value);
        let of = |claim: Option<Id>| claim.map_or(0, |id| 1 + id.name * 8 + id.uid);
        for i in 0..DEPLOYMENTS {
            put(
                3,
                self.deployments[i].map_or(0, |it| 1 + it.phase as u8 * 2 + it.city),
            );
            put(
                6,
                self.copies[i].map_or(0, |it| 1 + of(it.claim) * 2 + it.city),
            );
            put(
                6,
                self.bindings[i].map_or(0, |it| 1 + of(it.claim) * 2 + u8::from(it.is_orphan)),
            );
        }
        for policy in self.policies.iter().copied() {
            put(
                6,
                policy.map_or(0, |it| {
                    1 + it.uid * 4 + it.city * 2 + u8::from(it.is_terminating)
                }),
            );
        }
        state.write_u64(bits);
    }
}

impl ModelPlanes {
    /// Returns the policy that Karmada prefers for unclaimed objects: the first by name.
    pub(super) fn live_policy(&self, city: City) -> Option<Id> {
        let mut policies = (0..).zip(&self.policies);
        policies.find_map(|(name, policy)| {
            let policy = policy.filter(|it| it.city == city && !it.is_terminating)?;
            let uid = policy.uid;
            Some(Id { name, uid })
        })
    }

    fn policy(&self, id: Id) -> Option<Policy> {
        self.policies[usize::from(id.name)].filter(|it| it.uid == id.uid)
    }

    fn claim(&mut self, i: usize) {
        let Some(copy) = self.copies[i] else { return };
        let claim = match copy.claim {
            None => self.live_policy(copy.city),
            // Karmada cleans up the claims of a policy that is gone.
            Some(id) => self.policy(id).map(|_| id),
        };
        self.copies[i] = Some(HubCopy { claim, ..copy });
    }

    fn bind(&mut self, i: usize) {
        let claim = self.copies[i].and_then(|copy| copy.claim);
        let policy = claim.and_then(|id| self.policy(id));
        // Karmada waits until the binding of a former copy is gone.
        let is_free = self.bindings[i].is_none_or(|it| !it.is_orphan);
        if is_free && policy.is_some_and(|it| !it.is_terminating) {
            let is_orphan = false;
            self.bindings[i] = Some(Binding { claim, is_orphan });
        }
    }

    fn let_go(&mut self, name: usize) {
        let Some(policy) = self.policies[name].take_if(|it| it.is_terminating) else {
            return;
        };
        let id = Id {
            name: u8::try_from(name).unwrap(),
            uid: policy.uid,
        };
        for i in 0..DEPLOYMENTS {
            if let Some(copy) = self.copies[i].as_mut().filter(|it| it.claim == Some(id)) {
                copy.claim = None;
                // Karmada finds a binding through its copy. An orphan has no copy, so an orphan keeps its claim.
                let binding = self.bindings[i].iter_mut().filter(|it| !it.is_orphan);
                binding.for_each(|it| it.claim = None);
            }
        }
    }
}
