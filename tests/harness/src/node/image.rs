//! Container images that contain only programs of this machine.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::json;

use super::system::run;

/// User and group of the processes, unless the Pod says otherwise.
const USER: &str = "65532:65532";

/// Writes an image as a tar file that containerd can import. The programs lie in `/bin`, next to the libraries that
/// they need. The first program is the entry point.
///
/// # Errors
///
/// When a program does not exist, or the file cannot be written.
pub fn write(name: &str, programs: &[PathBuf], file: &Path) -> anyhow::Result<()> {
    let work = file.with_extension("image");
    let (root, image) = (work.join("root"), work.join("image"));
    let bin = root.join("bin");
    fs::create_dir_all(&bin)?;
    fs::create_dir_all(&image)?;
    // A container without its own /tmp needs one that every user may write to.
    fs::create_dir_all(root.join("tmp"))?;
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    for program in programs {
        copy(program, &bin.join(file_name(program)?))?;
        for library in libraries(program)? {
            let inside = library.strip_prefix("/").unwrap_or(&library);
            copy(&library, &root.join(inside))?;
        }
    }
    let layer = image.join("layer.tar");
    pack(&root, &layer)?;
    let digest = run("sha256sum", [&layer])?;
    let digest = digest.split(' ').next().unwrap_or_default();
    ensure!(digest.len() == 64, "sha256sum printed {digest:?}");
    let first = programs.first().context("an image needs a program")?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": [Path::new("/bin").join(file_name(first)?)],
            "Env": ["PATH=/bin"],
            "User": USER,
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    fs::write(image.join("config.json"), config.to_string())?;
    fs::write(image.join("manifest.json"), manifest.to_string())?;
    pack(&image, file)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn file_name(path: &Path) -> anyhow::Result<&OsStr> {
    let name = path.file_name();
    name.with_context(|| format!("{} is not a program", path.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns the libraries that a program loads, with the loader itself. A static program has none.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(program.is_file(), "{} does not exist", program.display());
    // ldd fails for a static program.
    let text = run("ldd", [program]).unwrap_or_default();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

fn pack(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let fixed = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0"];
    let mut args: Vec<_> = fixed.iter().map(OsStr::new).collect();
    args.extend([
        "--numeric-owner".as_ref(),
        "-C".as_ref(),
        folder.as_os_str(),
        "-cf".as_ref(),
        file.as_os_str(),
        ".".as_ref(),
    ]);
    run("tar", args).map(drop)
}
