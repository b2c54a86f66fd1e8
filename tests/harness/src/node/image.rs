//! Container images that contain only programs of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use image::archive::{self, FileTree};
use image::rootfs::USER;
use image::{Architecture, oci};
use serde_json::json;

use super::system::run;

/// Writes an image as a tar file that containerd can import. The programs lie in `/bin`, next to the libraries that
/// they need. The first program is the entry point. User and group are 65532, unless the Pod says otherwise.
///
/// # Errors
///
/// When a program does not exist, or the file cannot be written.
pub fn write(name: &str, programs: &[PathBuf], file: &Path) -> anyhow::Result<()> {
    let mut files = FileTree::new();
    for program in programs {
        files.insert(format!("bin/{}", file_name(program)?), executable(program)?);
        for library in libraries(program)? {
            let path = library.strip_prefix("/").unwrap_or(&library);
            files.insert(path.display().to_string(), executable(&library)?);
        }
    }
    let layer = archive::tar(&files, 0)?;
    let first = programs.first().context("an image needs a program")?;
    let architecture = Architecture::of_host().context("a node needs amd64 or arm64")?;
    let config = json!({
        "architecture": architecture.name(),
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/bin/{}", file_name(first)?)],
            "Env": ["PATH=/bin"],
            "User": USER,
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", oci::sha256(&layer))]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    let data = |content| archive::File {
        mode: 0o644,
        content,
    };
    let files = FileTree::from([
        ("config.json".to_owned(), data(config.to_string().into())),
        ("layer.tar".to_owned(), data(layer)),
        (
            "manifest.json".to_owned(),
            data(manifest.to_string().into()),
        ),
    ]);
    fs::write(file, archive::tar(&files, 0)?).with_context(|| file.display().to_string())
}

fn file_name(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name();
    let name = name.with_context(|| format!("{} is not a program", path.display()))?;
    Ok(name.display().to_string())
}

fn executable(path: &Path) -> anyhow::Result<archive::File> {
    let content = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(archive::File {
        mode: 0o755,
        content,
    })
}

/// Returns the libraries that a program loads, with the loader itself. A static program has none.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(program.is_file(), "{} does not exist", program.display());
    // ldd fails for a static program.
    let text = run("ldd", [program]).unwrap_or_default();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}
