//! The Go programs that only the benchmarks need: the programs for the comparison, and a load generator. They have
//! their own cache. A change to them therefore does not rebuild the external programs of a federation.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use anyhow::Context;

use crate::go::{self, tools};

/// The programs and their packages. For a package of our module, the name of its folder is enough.
const PROGRAMS: [(&str, &str); 5] = [
    ("peer", "./peer"),
    ("admission", "./peer/admission"),
    ("informers", "./peer/informers"),
    ("karmada", "./karmada"),
    ("vegeta", "github.com/tsenart/vegeta/v12"),
];

/// The Go programs of the benchmarks.
#[derive(Clone, Debug)]
pub struct Rivals {
    directory: PathBuf,
}

impl Rivals {
    /// Returns the programs in the cache. Programs that the cache lacks are built, and `progress` is called for each of
    /// them.
    ///
    /// # Errors
    ///
    /// When Go is missing, or a program cannot be built.
    pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<Self> {
        let cache = go::BuildCache::lock()?;
        let directory = cache.directory().join(format!("rivals-{}", version()?));
        go::build(&directory, &PROGRAMS, "-s -w", &mut progress)?;
        Ok(Self { directory })
    }

    /// Returns the Go webhook that interprets objects. It uses Karmada's server SDK.
    pub fn peer(&self) -> PathBuf {
        self.directory.join("peer")
    }

    /// Returns the Go webhook for admission. It uses controller-runtime.
    pub fn admission(&self) -> PathBuf {
        self.directory.join("admission")
    }

    /// Returns the program that watches projects with client-go's informers.
    pub fn informers(&self) -> PathBuf {
        self.directory.join("informers")
    }

    /// Returns the program that runs Karmada's Lua engine and its webhook client.
    pub fn karmada(&self) -> PathBuf {
        self.directory.join("karmada")
    }

    /// Returns vegeta, a load generator with a constant rate.
    pub fn vegeta(&self) -> PathBuf {
        self.directory.join("vegeta")
    }
}

/// Returns a hash of the sources and of the Go version.
fn version() -> anyhow::Result<String> {
    let mut files = vec![tools().join("go.mod"), tools().join("go.sum")];
    for (_, package) in PROGRAMS {
        if !package.starts_with("./") {
            continue;
        }
        let folder = tools().join(package);
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            // Subfolders are other packages.
            if entry.file_type()?.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        fs::read(&file)
            .with_context(|| file.display().to_string())?
            .hash(&mut hasher);
    }
    go::run(&["env", "GOVERSION"])?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
