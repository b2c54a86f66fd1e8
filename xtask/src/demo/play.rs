//! Plays the demo on its scene.

use super::hops::{creation, phases};
use super::scene::DemoScene;
use super::screen::Screen;
use super::{Args, NAMESPACE, WORKLOAD, once};
use crate::observe::Observer;
use crate::output::print;

/// Shows the Workload until it is deleted, or without `--once` until an error.
pub(super) async fn play(scene: &DemoScene, args: &Args) -> anyhow::Result<()> {
    let mut observer = Observer::start(&scene.planes, NAMESPACE, &scene.hub_namespace);
    let mut screen = Screen::new(&scene.planes);
    let edit = &scene.edit;
    if args.once {
        once::run(
            phases(scene.gates.is_some()),
            scene,
            &mut observer,
            &mut screen,
        )
        .await?;
        once::show_emptiness(scene, &scene.hub_namespace).await?;
        if args.keep {
            let again = vec![creation("create again, to be looked at", false)];
            once::run(again, scene, &mut observer, &mut screen).await?;
            print(format!(
                "\nWorkload {WORKLOAD} in namespace {NAMESPACE} of the project keeps running; change it:\n{edit}"
            ))?;
        }
        return Ok(());
    }
    print(format!(
        "Workload {WORKLOAD} in namespace {NAMESPACE} of the project; Ctrl-C ends the demo. Change it and see:\n{edit}"
    ))?;
    creation("create", false).change.make(scene).await?;
    loop {
        screen.draw(&observer.state, &[])?;
        observer.changed().await?;
    }
}
