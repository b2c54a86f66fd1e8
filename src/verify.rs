//! `compute-federation verify` compares the customizations of the hub with the native interpreter
//! (docs/operate/remove-lua-customization.md).

mod answerers;
mod bases;
mod findings;
mod hub;
mod join;
mod report;
mod work;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use api::karmada::ResourceInterpreterCustomization;
use interpreters::InterpretedKind;
use interpreters::lua::{Limits, SCRIPT_TIME};
use multicluster::clock;

use crate::args::VerifyArgs;
use crate::{object_files, scripts, terminal};
use answerers::{answerers, compared};
use bases::Bases;
use hub::Hub;
use report::Report;
use work::{Job, Source, Task};

/// Exit code if a difference is unexplained.
const UNEXPLAINED: u8 = 1;

/// Prints the report, and returns the exit code.
pub(crate) fn run(args: &VerifyArgs) -> ExitCode {
    let verified = verify(args).and_then(|report| {
        let text = report.text(args.output)?;
        terminal::print(&text, args.output, args.color)?;
        Ok(report.is_safe())
    });
    match verified {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => UNEXPLAINED.into(),
        Err(error) => terminal::failed(&error, terminal::NO_ANSWER),
    }
}

fn verify(args: &VerifyArgs) -> anyhow::Result<Report> {
    // The thread reads pages while others compare.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let hub = runtime.block_on(Hub::connect(args))?;
    let customizations = match args.customization.as_slice() {
        [] => runtime.block_on(hub.customizations())?,
        files => object_files::customizations_of(files)?,
    };
    let customizations: Vec<_> = customizations
        .into_iter()
        .filter(is_for_our_kinds)
        .collect();
    if customizations.is_empty() && !args.customization.is_empty() {
        bail!("--customization: no customization is for {}", our_kinds());
    }
    let scripts = scripts::compile(&customizations, Limits::default())?;
    let webhooks = runtime.block_on(hub.webhooks(&args.registration))?;
    let answerers = answerers(&scripts, &webhooks, &args.registration);
    let compared = compared(&answerers);
    let task = Task {
        script_time: SCRIPT_TIME,
        scripts: &scripts,
        now: clock::now(),
        operations: &compared,
    };
    let (on_hub, generated) = work::compare(&task, |feeder| {
        let mut bases = Bases::default();
        for kind in compared.keys().copied() {
            let read = hub.objects(kind, |joined| {
                if bases.has_room(kind) {
                    bases.add(kind, hub::subject(kind, &joined)?);
                }
                let source = Source::Hub(Box::new(joined));
                feeder.add(Job { kind, source })
            });
            runtime.block_on(read)?;
        }
        bases.complete(compared.keys().copied());
        for number in 0..args.cases {
            let seed = args.seed.wrapping_add(number);
            let Some((kind, base)) = bases.of_seed(seed) else {
                break;
            };
            let source = Source::Variation(Arc::clone(base), seed);
            feeder.add(Job { kind, source })?;
        }
        Ok(())
    })?;
    Ok(Report {
        hub: hub.url,
        customizations: names(&customizations),
        registration: args.registration.clone(),
        webhooks,
        answerers,
        on_hub,
        generated,
        seed: args.seed,
    })
}

fn our_kinds() -> String {
    let named = InterpretedKind::ALL.map(|kind| format!("{} {}", api::API_VERSION, kind.as_str()));
    named.join(" or ")
}

/// Returns whether a customization is for a kind that the native interpreter interprets.
fn is_for_our_kinds(customization: &ResourceInterpreterCustomization) -> bool {
    let target = &customization.spec.target;
    InterpretedKind::of_target(&target.api_version, &target.kind).is_some()
}

fn names(customizations: &[ResourceInterpreterCustomization]) -> Vec<String> {
    let names = customizations
        .iter()
        .filter_map(|it| it.metadata.name.clone());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
