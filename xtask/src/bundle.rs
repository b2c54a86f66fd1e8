//! `cargo xtask bundle`: writes `deploy` as the artifact that Flux's OCIRepository reads.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use harness::checkout::root;
use image::archive::{File, FileTree};
use image::{Reference, bundle};

use crate::build::{target, tracked};
use crate::image::provenance::{self, IMAGE, Provenance};
use crate::output::print;

/// The name of the bundle in the registry.
const BUNDLE: &str = "ghcr.io/datum-cloud/compute-kustomize";

/// Writes deploy as the OCI artifact that Flux reads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory for the results. Default: bundle in Cargo's target directory.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The name and the tag of the bundle. Default: ghcr.io/datum-cloud/compute-kustomize and the version of the
    /// project.
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<Reference>,
    /// The image that the manifests get. Default: ghcr.io/datum-cloud/compute with the tag of the bundle.
    #[arg(long, value_name = "NAME:TAG")]
    image: Option<Reference>,
    #[command(flatten)]
    provenance: Provenance,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let reference = match &args.tag {
        Some(reference) => reference.clone(),
        None => provenance::default_reference(BUNDLE)?,
    };
    let image = match &args.image {
        Some(image) => image.clone(),
        None => format!("{IMAGE}:{}", reference.tag).parse()?,
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| target().join("bundle"));
    let facts = args.provenance.facts()?;
    let mut files = files()?;
    bundle::stamp(&mut files, IMAGE, &image)?;
    let layout = bundle::artifact(&files, &reference, &facts)?;
    fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
    let directory = output.join("oci");
    layout.write(&directory)?;
    print(directory.display())?;
    let archive = output.join("compute-kustomize.tar");
    fs::write(&archive, layout.tar(FileTree::new(), facts.time)?)
        .with_context(|| archive.display().to_string())?;
    print(archive.display())?;
    for manifest in layout.manifests() {
        print(format!("{reference}@{}", manifest.digest))?;
    }
    Ok(())
}

/// Returns the files below `deploy`. A file that Git ignores is left out.
fn files() -> anyhow::Result<FileTree> {
    let mut files = FileTree::new();
    for path in tracked()? {
        if let Some(name) = path.strip_prefix("deploy/") {
            let content = fs::read(root().join(&path)).with_context(|| path.clone())?;
            files.insert(
                name.to_owned(),
                File {
                    mode: 0o644,
                    content,
                },
            );
        }
    }
    Ok(files)
}
