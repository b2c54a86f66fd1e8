//! `cargo xtask crds`: the CRDs of `deploy/base/crd`, generated from the Rust types.

use std::fs;

use anyhow::{Context, bail};
use harness::checkout::root;

use crate::output::print;

/// Writes the files that differ. With `check` writes nothing and fails if one differs.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let directory = root().join("deploy/base/crd");
    let mut stale = Vec::new();
    for file in api::crds::files()? {
        let path = directory.join(&file.name);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.yaml) {
            continue;
        }
        if check {
            stale.push(file.name);
        } else {
            fs::write(&path, file.yaml).with_context(|| path.display().to_string())?;
            print(format!("written: {}", file.name))?;
        }
    }
    if !stale.is_empty() {
        bail!(
            "{}: stale; run `cargo xtask crds` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}
