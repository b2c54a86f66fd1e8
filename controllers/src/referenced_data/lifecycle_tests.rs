//! Model check of two WorkloadDeployments that share a source. The check runs the rules of both controllers, and visits
//! every state that is reachable within a number of steps. In the model, the caches can lag behind, requests take time,
//! and the process can restart after each step.

mod cast;
mod world;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use cast::Cast;
use world::{Companion, DEPLOYMENTS, Deployment, Phase, Step, World};

/// The most steps in which the controllers come to rest when nobody else changes anything.
const REST: usize = 200;

/// The steps that lead to a state.
struct Story<'a> {
    origins: &'a HashMap<World, Option<(World, Step)>>,
}

impl Story<'_> {
    fn tell(&self, world: World) -> String {
        let mut steps = Vec::new();
        let mut at = world;
        while let Some(Some((former, step))) = self.origins.get(&at) {
            steps.push(format!("  {step:?}"));
            at = *former;
        }
        steps.reverse();
        format!("{at:#?}\n{}\n{world:#?}", steps.join("\n"))
    }
}

/// Visits every state that is reachable from `begin` in this number of steps. Returns the number of states.
fn explore(begin: World, depth: usize) -> usize {
    let mut cast = Cast::default();
    let mut origins = HashMap::from([(begin, None)]);
    let mut rests = HashSet::new();
    let mut frontier = vec![begin];
    for _ in 0..depth {
        let mut next_frontier = Vec::new();
        for world in frontier {
            for step in Step::all() {
                let next = world.after(step, &mut cast).unwrap_or_else(|problem| {
                    let story = Story { origins: &origins };
                    panic!("{problem}, by {step:?} after\n{}", story.tell(world))
                });
                let Entry::Vacant(new) = origins.entry(next) else {
                    continue;
                };
                new.insert(Some((world, step)));
                next_frontier.push(next);
                let end = rest(next, &mut cast, &mut rests);
                end.unwrap_or_else(|problem| {
                    let story = Story { origins: &origins };
                    panic!(
                        "{problem}, in the end or before, after\n{}",
                        story.tell(next)
                    )
                });
            }
        }
        frontier = next_frontier;
    }
    origins.len()
}

/// Lets the controllers work until nothing is left to do, and checks the end. `known` are the states whose end has been
/// checked.
fn rest(begin: World, cast: &mut Cast, known: &mut HashSet<World>) -> Result<(), String> {
    let mut world = begin;
    for _ in 0..REST {
        if !known.insert(world) {
            return Ok(());
        }
        let mut next = world;
        for step in Step::of_system() {
            next = world.after(step, cast)?;
            if next != world {
                break;
            }
        }
        if next == world {
            return is_right_at_rest(&world).map_err(|problem| format!("{problem}: {world:#?}"));
        }
        world = next;
    }
    Err(format!("it does not come to rest: {world:#?}"))
}

/// Checks that exactly the WorkloadDeployments that need the source list it, and that the companion names them.
fn is_right_at_rest(world: &World) -> Result<(), String> {
    let mut named = [false; DEPLOYMENTS];
    for (named, deployment) in named.iter_mut().zip(world.there.deployments) {
        let Some(deployment) = deployment else {
            continue;
        };
        if deployment.phase != Phase::Live {
            return Err("a deployment does not end".to_owned());
        }
        // A source that is deleted stays listed, because running Instances keep their data.
        let can_be_listed = world.there.source.is_some() || deployment.is_listed;
        if deployment.is_listed != (deployment.uses && can_be_listed) {
            return Err("a list is wrong".to_owned());
        }
        *named = deployment.is_listed;
    }
    let is_needed = named.contains(&true);
    match world.there.companion {
        Some(companion) if companion.named != named || !is_needed => {
            Err("the companion is wrong".to_owned())
        }
        Some(companion) if world.there.source.is_some_and(|it| it != companion.version) => {
            Err("the companion has another version".to_owned())
        }
        None if is_needed && world.there.source.is_some() => {
            Err("there is no companion".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns a WorkloadDeployment that lists the source and whose Instances are of its template.
fn listing(phase: Phase) -> Deployment {
    Deployment {
        phase,
        uses: true,
        is_listed: true,
        is_rolled_out: true,
    }
}

/// Returns a settled state with these WorkloadDeployments.
fn settled(deployments: [Option<Deployment>; DEPLOYMENTS]) -> World {
    let mut world = World::default();
    world.there.source = Some(0);
    world.there.deployments = deployments;
    let named = deployments.map(|it| it.is_some_and(|it| it.is_listed));
    world.there.companion = named
        .contains(&true)
        .then_some(Companion { named, version: 0 });
    world.seen = world.there;
    world
}

#[test]
fn two_deployments_come() {
    let states = explore(settled([None, None]), 11);
    assert!(states > 10_000, "{states}");
}

#[test]
fn two_deployments_go() {
    let states = explore(settled([Some(listing(Phase::Live)); DEPLOYMENTS]), 9);
    assert!(states > 10_000, "{states}");
}

#[test]
fn one_deployment_goes_and_another_comes() {
    let states = explore(settled([Some(listing(Phase::Terminating)), None]), 10);
    assert!(states > 10_000, "{states}");
}

/// I-33: the companion is not deleted while the WorkloadDeployment begins to need it again.
#[test]
fn a_source_is_released_and_needed_again() {
    let unused = Deployment {
        uses: false,
        ..listing(Phase::Live)
    };
    let states = explore(settled([Some(unused), None]), 9);
    assert!(states > 10_000, "{states}");
}

#[test]
fn two_deployments_end_at_once() {
    let states = explore(settled([Some(listing(Phase::Ended)); DEPLOYMENTS]), 12);
    assert!(states > 1_000, "{states}");
}
