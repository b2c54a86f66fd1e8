//! `cargo xtask crds`: the files of `deploy/` that are generated from Rust: CRDs, and the roles of RBAC.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::rights;
use harness::checkout::root;

use crate::output::print;

/// Writes the files that differ, and removes roles that the table does not have. With `check` writes nothing and fails
/// if a file differs.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let deploy = root().join("deploy");
    let mut stale = Vec::new();
    for (path, yaml) in files()? {
        let file = deploy.join(&path);
        if fs::read_to_string(&file).is_ok_and(|text| text == yaml) {
            continue;
        }
        if !check {
            let write = || {
                fs::create_dir_all(file.parent().unwrap_or(&deploy))?;
                fs::write(&file, yaml)
            };
            write().with_context(|| file.display().to_string())?;
            print(format!("written: {path}"))?;
        }
        stale.push(path);
    }
    for path in removed_roles(&deploy)? {
        if !check {
            fs::remove_file(deploy.join(&path)).with_context(|| path.clone())?;
            print(format!("removed: {path}"))?;
        }
        stale.push(path);
    }
    if check && !stale.is_empty() {
        bail!(
            "{}: stale; run `cargo xtask crds` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}

/// Returns the generated files: the path below `deploy/`, and the content.
fn files() -> anyhow::Result<Vec<(String, String)>> {
    let crds = api::crds::files()?.into_iter();
    let crds = crds.chain(api::crds::hub_files()?);
    let crds = crds.chain([api::crds::project_file()?]);
    let crds = crds.map(|file| (file.path, file.yaml));
    let roles = rights::files().into_iter();
    let roles = roles.map(|file| (file.path, file.yaml));
    Ok(crds.chain(roles).collect())
}

/// Returns the files in the folders of the roles that are not generated.
fn removed_roles(deploy: &Path) -> anyhow::Result<Vec<String>> {
    let generated: BTreeSet<_> = rights::files().into_iter().map(|file| file.path).collect();
    let mut removed = Vec::new();
    let mut folders: Vec<PathBuf> = rights::FOLDERS.map(|folder| deploy.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            let below = path.strip_prefix(deploy)?.display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if !generated.contains(&below) {
                removed.push(below);
            }
        }
    }
    Ok(removed)
}
