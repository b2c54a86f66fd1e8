//! The kernel's limit of inotify instances. Many of the started programs watch files. Several federations and nodes use
//! up the limit of many machines, which is 128. The programs then end with `too many open files`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::process::getuid;

const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
/// The limit that root sets. It is enough for more federations and nodes than the memory of a machine.
const RAISED: usize = 1024;
/// Number of instances that must be free before a start. A federation with two cells uses about 20, and a node without
/// Pods uses 20 (counted in `/proc/<pid>/fd`).
const NEEDED: usize = 48;

/// Makes sure that the processes of a federation or of a node can watch files. Raises the limit if it is low and this
/// process may raise it.
///
/// # Errors
///
/// When too few instances are free. The error contains the remedy.
pub(crate) fn ensure_instances() -> anyhow::Result<()> {
    ensure_at(Path::new(LIMIT))
}

fn ensure_at(file: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let limit: usize = text
        .trim()
        .parse()
        .with_context(|| file.display().to_string())?;
    if limit >= RAISED || fs::write(file, RAISED.to_string()).is_ok() {
        return Ok(());
    }
    check_free(limit, used())
}

fn check_free(limit: usize, used: usize) -> anyhow::Result<()> {
    ensure!(
        limit.saturating_sub(used) >= NEEDED,
        "the kernel allows {limit} inotify instances per user, {used} are in use, and {NEEDED} more are needed; \
         run as root: sysctl -w fs.inotify.max_user_instances={RAISED}"
    );
    Ok(())
}

/// Returns the number of instances in the processes of this user. Processes that this user may not read are not
/// counted.
fn used() -> usize {
    let user = getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|process| process.metadata().is_ok_and(|data| data.uid() == user));
    own.map(|process| count(&process.path().join("fd"))).sum()
}

/// Returns the number of instances among the open files of a process.
fn count(files: &Path) -> usize {
    let files = fs::read_dir(files).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter(|target| target.as_os_str() == "anon_inode:inotify")
        .count()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::process::Command;

    use super::*;
    use crate::wait;

    fn limit(value: usize) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, format!("{value}\n")).unwrap();
        file
    }

    #[test]
    fn a_low_limit_is_raised() {
        let file = limit(128);
        ensure_at(file.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1024");
    }

    #[test]
    fn a_high_limit_is_kept() {
        let file = limit(8192);
        ensure_at(file.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "8192\n");
    }

    #[test]
    fn a_shortage_is_an_error_with_the_remedy() {
        check_free(128, 128 - NEEDED).unwrap();
        let error = check_free(128, 129 - NEEDED).unwrap_err().to_string();
        assert!(
            error.contains("sysctl -w fs.inotify.max_user_instances=1024"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn instances_are_counted() {
        let file = limit(0);
        let mut tail = Command::new("tail");
        let tail = tail.arg("--follow").arg(file.path()).stdout(Stdio::null());
        let tail = tail.kill_on_drop(true).spawn().unwrap();
        let files = format!("/proc/{}/fd", tail.id().unwrap());
        let counted = wait::eventually("tail watches the file", Duration::from_mins(1), || async {
            anyhow::ensure!(count(Path::new(&files)) == 1 && used() > 0, "none");
            Ok(())
        });
        counted.await.unwrap();
    }
}
