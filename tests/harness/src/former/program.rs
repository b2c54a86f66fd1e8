//! Builds the stand-in for the Go manager, into a cache outside the checkout.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use crate::go::{self, BuildCache, tools};

/// Name of the program. The harness puts it into `/bin` of the image.
const PROGRAM: &str = "manager";
const PACKAGE: &str = "./former";

/// Returns the path of the program. If the cache lacks it, builds it and calls `progress`.
///
/// # Errors
///
/// When Go is missing, or the program cannot be built.
pub(crate) fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for file in ["go.mod", "go.sum", "former/main.go"] {
        fs::read(tools().join(file))?.hash(&mut hasher);
    }
    go::run(&["env", "GOVERSION"])?.hash(&mut hasher);
    let cache = BuildCache::lock()?;
    let directory = cache
        .directory()
        .join(format!("former-{:016x}", hasher.finish()));
    go::build(&directory, &[(PROGRAM, PACKAGE)], "-s -w", &mut progress)?;
    Ok(directory.join(PROGRAM))
}
