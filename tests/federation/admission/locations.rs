//! Tests of the cities that admission accepts. A Workload may add a city only if the project has a LocationBinding of
//! this city whose condition Available is not False.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::platform::{A, B, Platform, bind, workload};

/// Time limit until every replica has observed a change.
const FOLLOWED: Duration = Duration::from_secs(1);

pub(crate) async fn cities_are_those_of_the_project(platform: &Platform) -> anyhow::Result<()> {
    let user = platform.user("of-two-projects", &[A, B]);
    for (project, own, other) in [(A, "DFW", "LHR"), (B, "LHR", "DFW")] {
        let web = workload("cities-own", "default", &[own, "ORD"]);
        platform.accepted(&user, project, &web).await?;
        let web = workload("cities-other", "default", &[other]);
        let error = platform.refused(&user, project, &web).await?;
        let line = format!(
            "spec.placements[0].cityCodes[0]: Unsupported value: \"{other}\": supported values: "
        );
        ensure!(error.contains(&line), "{error}");
    }
    Ok(())
}

/// Uses a separate project. The test adds and removes the locations of this project.
///
/// I-4: every replica discovers projects, fills its caches, and answers admission.
pub(crate) async fn every_replica_follows_locations(platform: &Platform) -> anyhow::Result<()> {
    let name = "followed";
    let project = platform.milo.add_project(name).await?;
    platform.until_cities(name, &[]).await?;
    let user = platform.user("follower", &[name]);
    let mut slowest = Duration::ZERO;

    // The replicas offer the city of a binding without a condition. They also offer the city of an available binding.
    for available in [None, Some(true)] {
        bind(&project, "NYC", available).await?;
        slowest = slowest.max(platform.until_cities(name, &["NYC"]).await?);
    }
    let mut web = workload("followed", "default", &["NYC"]);
    platform.accepted(&user, name, &web).await?;

    bind(&project, "NYC", Some(false)).await?;
    slowest = slowest.max(platform.until_cities(name, &[]).await?);
    let another = workload("another", "default", &["NYC"]);
    let error = platform.refused(&user, name, &another).await?;
    let line = "spec.placements[0].cityCodes[0]: Unsupported value: \"NYC\": no city is available to this project";
    ensure!(error.contains(line), "{error}");

    // The city NYC is no longer available. The user can still change the Workload, and can add another city to it.
    bind(&project, "SFO", Some(true)).await?;
    slowest = slowest.max(platform.until_cities(name, &["SFO"]).await?);
    web["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
        json!("nginx:2");
    web["spec"]["placements"][0]["cityCodes"] = json!(["SFO", "NYC"]);
    platform.accepted(&user, name, &web).await?;

    project.unbind_location("sfo").await?;
    slowest = slowest.max(platform.until_cities(name, &[]).await?);
    ensure!(
        slowest < FOLLOWED,
        "the slowest replica offered the changed cities only after {slowest:?}"
    );
    eprintln!(
        "every replica offers the changed cities within {} ms",
        slowest.as_millis()
    );
    Ok(())
}
