//! Model check of copies and their policies. The check runs the plans of both controllers and visits every reachable
//! state. In the model, the cache of each object can lag behind. Karmada's claims and clean-ups can happen arbitrarily
//! late.

mod cast;
mod world;

use std::collections::HashMap;

use cast::Cast;
use world::{DEPLOYMENTS, ModelDeployment, ModelPhase, ModelState, ModelStep, NAMES, Policy};

/// Lower bound for the number of states of an exploration. An exploration with so few states has a broken setup.
const FEW: usize = 500;

/// The actions that users can take in one exploration.
struct Users {
    cities: &'static [&'static str],
    /// The number of WorkloadDeployments.
    deployments: usize,
    /// Whether users can create each WorkloadDeployment for any city and move it. If this is false and the model has
    /// several cities, users can create only the first WorkloadDeployment, and only for the first city.
    moves: bool,
    /// Whether the cache of bindings may lag behind. This multiplies the number of states.
    bindings_lag: bool,
}

impl Users {
    fn with_caches(&self, mut world: ModelState) -> ModelState {
        if !self.bindings_lag {
            world.seen.bindings = world.there.bindings;
        }
        world
    }

    fn steps(&self, cast: &Cast) -> Vec<ModelStep> {
        let mut steps = Vec::new();
        for i in 0..self.deployments {
            steps.push(ModelStep::UserDeletes(i));
            for city in cast.cities() {
                if self.moves {
                    steps.push(ModelStep::UserMoves(i, city));
                }
                if self.moves || i == 0 && city == 0 || self.cities.len() == 1 {
                    steps.push(ModelStep::UserCreates(i, city));
                }
            }
        }
        steps
    }

    fn others_steps(&self) -> Vec<ModelStep> {
        let of_deployment = [
            ModelStep::WatchTellsOfDeployment,
            ModelStep::WatchTellsOfCopy,
            ModelStep::WatchTellsOfBinding,
            ModelStep::KarmadaClaims,
            ModelStep::KarmadaBinds,
            ModelStep::KarmadaCollects,
            ModelStep::FederatorPlans,
            ModelStep::FederatorCreates,
        ];
        let of_deployment = of_deployment.into_iter();
        let mut steps: Vec<_> = of_deployment
            .flat_map(|step| (0..self.deployments).map(step))
            .collect();
        for of_policy in [ModelStep::WatchTellsOfPolicy, ModelStep::KarmadaLetsGo] {
            steps.extend((0..NAMES).map(of_policy));
        }
        steps.extend([
            ModelStep::PoliciesArePlanned,
            ModelStep::PolicyIsProvedUnused,
            ModelStep::PolicyIsDeleted,
        ]);
        steps
    }
}

/// The visited states.
struct Explored {
    worlds: Vec<ModelState>,
    numbers: HashMap<ModelState, usize>,
    /// For each state, the previous state and the step that first led to the state.
    origins: Vec<Option<(usize, ModelStep)>>,
    /// For each state, the previous states from which a step leads to the state. Steps of users do not count.
    led_to_by: Vec<Vec<usize>>,
}

impl Explored {
    fn add(&mut self, world: ModelState, origin: Option<(usize, ModelStep)>) -> usize {
        if let Some(number) = self.numbers.get(&world) {
            return *number;
        }
        let number = self.worlds.len();
        self.worlds.push(world);
        self.numbers.insert(world, number);
        self.origins.push(origin);
        self.led_to_by.push(Vec::new());
        number
    }

    /// Returns the steps that lead to a state.
    fn story(&self, number: usize) -> String {
        let mut steps = Vec::new();
        let mut at = number;
        while let Some((former, step)) = self.origins[at] {
            steps.push(format!("  {step:?}"));
            at = former;
        }
        steps.reverse();
        format!("{}\n{:#?}", steps.join("\n"), self.worlds[number])
    }
}

/// Visits every state that is reachable from `begin`. Returns the number of states.
fn explore(users: &Users, begin: ModelState) -> usize {
    let mut cast = Cast::new(users.cities);
    let by_users = users.steps(&cast);
    let by_others = users.others_steps();
    let mut explored = Explored {
        worlds: Vec::new(),
        numbers: HashMap::new(),
        origins: Vec::new(),
        led_to_by: Vec::new(),
    };
    explored.add(begin, None);
    let mut at_rest = Vec::new();
    let mut number = 0;
    while let Some(world) = explored.worlds.get(number).copied() {
        let mut rests = true;
        let steps = by_users.iter().map(|step| (step, true));
        for (step, is_by_user) in steps.chain(by_others.iter().map(|step| (step, false))) {
            let next = world.after(*step, &mut cast).unwrap_or_else(|problem| {
                panic!("{problem}, by {step:?} after\n{}", explored.story(number))
            });
            let next = users.with_caches(next);
            if next != world {
                rests &= is_by_user;
                let next = explored.add(next, Some((number, *step)));
                if !is_by_user {
                    explored.led_to_by[next].push(number);
                }
            }
        }
        if rests {
            if let Err(problem) = is_right_at_rest(&world, &cast) {
                panic!("{problem} at rest after\n{}", explored.story(number));
            }
            at_rest.push(number);
        }
        number += 1;
    }
    assert_all_come_to_rest(&explored, at_rest);
    explored.worlds.len()
}

/// Checks that exactly the needed policies and copies exist, and that the copies are claimed and bound.
fn is_right_at_rest(world: &ModelState, cast: &Cast) -> Result<(), String> {
    let there = &world.there;
    for city in cast.cities() {
        let mut deployments = there.deployments.iter().flatten();
        let is_needed = deployments.any(|it| it.city == city);
        let policies = there.policies.iter().flatten();
        let of_city: Vec<_> = policies.filter(|it| it.city == city).collect();
        if of_city.len() != usize::from(is_needed) || of_city.iter().any(|it| it.is_terminating) {
            return Err(format!("the policies of city {city} are {of_city:?}"));
        }
    }
    for i in 0..DEPLOYMENTS {
        let wanted = there.deployments[i].map(|it| (it.city, ModelPhase::Recorded));
        let phase = there.deployments[i].map(|it| (it.city, it.phase));
        let claim = there.copies[i].and_then(|copy| copy.claim);
        let bound = there.bindings[i].and_then(|binding| binding.claim);
        let copy = there.copies[i].map(|copy| (copy.city, ModelPhase::Recorded));
        if phase != wanted
            || copy != wanted
            || claim.is_some() != wanted.is_some()
            || bound != claim
        {
            return Err(format!(
                "deployment {i}, its copy or its binding is not as expected"
            ));
        }
    }
    Ok(())
}

/// Asserts that a state at rest is reachable from every state without a step of a user.
fn assert_all_come_to_rest(explored: &Explored, at_rest: Vec<usize>) {
    let mut comes = vec![false; explored.worlds.len()];
    let mut next = at_rest;
    while let Some(number) = next.pop() {
        if !std::mem::replace(&mut comes[number], true) {
            next.extend(&explored.led_to_by[number]);
        }
    }
    if let Some(number) = comes.iter().position(|comes| !comes) {
        panic!("never at rest after\n{}", explored.story(number));
    }
}

#[test]
fn one_deployment_of_one_city() {
    let users = Users {
        cities: &["DFW"],
        deployments: 1,
        moves: false,
        bindings_lag: true,
    };
    assert!(explore(&users, ModelState::default()) > FEW);
}

#[test]
fn two_deployments_of_one_city() {
    let users = Users {
        cities: &["DFW"],
        deployments: 2,
        moves: false,
        bindings_lag: true,
    };
    assert!(explore(&users, ModelState::default()) > FEW);
}

#[test]
fn two_cities_with_the_same_policy_name() {
    let users = Users {
        cities: &["DFW", "dfw"],
        deployments: 2,
        moves: false,
        bindings_lag: false,
    };
    let mut begin = ModelState::default();
    let (phase, city) = (ModelPhase::New, 1);
    begin.there.deployments[1] = Some(ModelDeployment { phase, city });
    assert!(explore(&users, begin) > FEW);
}

#[test]
fn a_deployment_moves_between_cities_with_the_same_policy_name() {
    let users = Users {
        cities: &["DFW", "dfw"],
        deployments: 1,
        moves: true,
        bindings_lag: false,
    };
    assert!(explore(&users, ModelState::default()) > FEW);
}

#[test]
fn two_policies_for_one_city() {
    let users = Users {
        cities: &["DFW"],
        deployments: 1,
        moves: false,
        bindings_lag: true,
    };
    let mut begin = ModelState::default();
    let twin = Policy {
        uid: 0,
        city: 0,
        is_terminating: false,
    };
    begin.there.policies[..2].fill(Some(twin));
    begin.seen = begin.there;
    assert!(explore(&users, begin) > FEW);
}
