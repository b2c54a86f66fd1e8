//! Files of Debian packages that a node needs and that many machines lack: iptables, and the static library that runc
//! links. The packages are not installed. Their files are extracted next to the programs of the node.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::system::{output, run};

/// iptables and the libraries that a minimal Debian lacks.
const IPTABLES: [&str; 8] = [
    "iptables",
    "libip4tc2",
    "libip6tc2",
    "libmnl0",
    "libnetfilter-conntrack3",
    "libnfnetlink0",
    "libnftnl11",
    "libxtables12",
];
const LIBSECCOMP: &str = "libseccomp-dev";
/// The commands that kube-proxy and the CNI plugins call.
const COMMANDS: [&str; 6] = [
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
];

/// Returns whether a program is in `PATH`.
pub(crate) fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns whether this machine can fetch packages.
pub(crate) fn can_fetch() -> bool {
    in_path("apt-get") && in_path("dpkg-deb")
}

/// Puts iptables into `directory` if this machine lacks it.
pub(crate) fn install_iptables(
    directory: &Path,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    if in_path("iptables") {
        return Ok(());
    }
    let root = fetch(directory, "iptables", &IPTABLES, progress)?;
    let libraries = libraries(&root)?;
    let program = root.join("usr/sbin/xtables-nft-multi");
    for command in COMMANDS {
        let script = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH='{0}' XTABLES_LIBDIR='{0}/xtables'\nexec '{1}' {command} \"$@\"\n",
            libraries.display(),
            program.display()
        );
        let path = directory.join(command);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Returns the environment variables with which a build finds the static libseccomp.
pub(crate) fn libseccomp(
    directory: &Path,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    if run("pkg-config", ["--exists", "libseccomp"]).is_ok() {
        return Ok(Vec::new());
    }
    let root = fetch(directory, "libseccomp", &[LIBSECCOMP], progress)?;
    let libraries = libraries(&root)?;
    Ok(vec![
        ("PKG_CONFIG_LIBDIR", libraries.join("pkgconfig").into()),
        ("PKG_CONFIG_SYSROOT_DIR", root.into()),
    ])
}

/// Downloads packages and extracts their files. Returns the root of the extracted files.
fn fetch(
    directory: &Path,
    name: &str,
    packages: &[&str],
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<PathBuf> {
    let root = directory.join("debian").join(name);
    ensure!(
        can_fetch(),
        "this machine lacks {}; install it",
        packages.first().unwrap_or(&name)
    );
    progress(&format!("fetching the Debian packages of {name}"));
    let downloads = root.join("downloads");
    fs::create_dir_all(&downloads)?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.arg("download").args(packages);
        output(command.current_dir(&downloads))
    };
    // A new machine has no list of packages yet.
    if download().is_err() {
        run("apt-get", ["update"])?;
        download()?;
    }
    for entry in fs::read_dir(&downloads)? {
        let file = entry?.path();
        run(
            "dpkg-deb",
            ["--extract".as_ref(), file.as_os_str(), root.as_os_str()],
        )?;
    }
    fs::remove_dir_all(&downloads)?;
    Ok(root)
}

/// Returns the folder of the libraries. Its name contains the architecture.
fn libraries(root: &Path) -> anyhow::Result<PathBuf> {
    let parent = root.join("usr/lib");
    fs::read_dir(&parent)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|folder| folder.to_string_lossy().ends_with("-linux-gnu"))
        .with_context(|| format!("{} has no folder of an architecture", parent.display()))
}
