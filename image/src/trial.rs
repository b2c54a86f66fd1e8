//! Runs the binary of an image with nothing but the files of the image.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::Error;
use crate::rootfs::{BINARY, USER};

/// Commands that run a program with another root directory. The first one also changes the user, so it shows whether
/// the user of the image may read the files. The second one needs no rights, but user namespaces.
const COMMANDS: [&[&str]; 2] = [
    &["chroot", "--userspec", USER],
    &["unshare", "--user", "--map-root-user", "--root"],
];

/// Runs the binary in a directory that contains the files of an image. The directory is the root of the file system, so
/// a library outside it cannot be found. Returns `None` if this machine allows no other root directory.
///
/// # Errors
/// Fails if the binary cannot be started. If the binary ends with an error, the output says so.
pub fn run(root: &Path, args: &[&str]) -> Result<Option<Output>, Error> {
    let Some(words) = COMMANDS.into_iter().find(|words| is_allowed(words)) else {
        return Ok(None);
    };
    let mut command = command(words, root);
    let output = command.arg(BINARY).args(args).output();
    output.map(Some).map_err(Error::file(root))
}

/// Returns whether the command works with the present root directory.
fn is_allowed(words: &[&str]) -> bool {
    let mut command = command(words, Path::new("/"));
    command
        .arg("/bin/true")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn command(words: &[&str], root: &Path) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().unwrap_or(&"chroot"));
    command.args(words).arg(root);
    command.stdin(Stdio::null());
    command
}
