//! Builds kustomize, which renders the overlays of `deploy`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use crate::go::{BuildCache, Module};

const PROGRAM: &str = "kustomize";
const PACKAGE: &str = "sigs.k8s.io/kustomize/kustomize/v5";

/// Returns the path of kustomize. If the cache lacks it, builds it and calls `progress`.
///
/// # Errors
///
/// When Go is missing, or the program cannot be built.
pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<PathBuf> {
    let module = Module::at(PROGRAM);
    let mut hasher = DefaultHasher::new();
    module.hash_sources(&mut hasher)?;
    module.run(&["env", "GOVERSION"])?.hash(&mut hasher);
    let cache = BuildCache::lock()?;
    let directory = cache
        .directory()
        .join(format!("{PROGRAM}-{:016x}", hasher.finish()));
    let program = directory.join(PROGRAM);
    if !program.exists() {
        let version = module.version_of(PACKAGE)?;
        let flags = format!("-s -w -X sigs.k8s.io/kustomize/api/provenance.version={version}");
        module.build(
            &directory,
            &[(PROGRAM, PACKAGE)],
            &["-ldflags", &flags],
            &mut progress,
        )?;
    }
    Ok(program)
}
