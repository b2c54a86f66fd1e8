//! Reads the kubeconfigs of a directory. The name of a file gives the name of its project.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::ProjectName;

use crate::mounted;

/// The ending of the files that are read. Other files in the directory can be those that a kubeconfig names, such as
/// certificates.
const ENDING: &str = "kubeconfig";
/// Largest file: 1 MiB, which is also the largest Secret. A kubeconfig with certificates has some KiB.
const KUBECONFIG_MAX: u64 = 1 << 20;

/// Longest name of a project: 55 characters. With `cluster-` before it, it is the value of a label, which has at most
/// 63 ([`ProjectName::to_label`]).
const PROJECT_NAME_MAX: usize = 55;

/// The contents of a file, or the reason why it cannot be read.
pub(super) type Contents = Result<Arc<str>, String>;

/// A file of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProjectFile {
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
}

/// The files of a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub(super) projects: BTreeMap<ProjectName, ProjectFile>,
    /// The files whose names name no project, with the reasons.
    pub(super) misnamed: BTreeMap<PathBuf, String>,
}

impl Files {
    /// Reads the files of a directory.
    ///
    /// # Errors
    ///
    /// If the directory cannot be listed.
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        let mut files = Self::default();
        for (path, text) in mounted::read(directory, &[ENDING], KUBECONFIG_MAX)? {
            match project(&path) {
                Ok(name) => {
                    let contents = text.map(Arc::from).map_err(|error| error.to_string());
                    let file = ProjectFile { path, contents };
                    files.projects.insert(name, file);
                }
                Err(problem) => {
                    files.misnamed.insert(path, problem);
                }
            }
        }
        Ok(files)
    }

    /// Returns the files that are the same in two readings.
    pub(super) fn same_as(&self, former: &Self) -> Self {
        let mut same = self.clone();
        same.projects
            .retain(|name, file| former.projects.get(name) == Some(file));
        let misnamed = &former.misnamed;
        same.misnamed.retain(|path, _| misnamed.contains_key(path));
        same
    }
}

/// Returns the project of a file: the name of the file without its ending.
fn project(path: &Path) -> Result<ProjectName, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let length = name.len();
    if length > PROJECT_NAME_MAX {
        return Err(format!(
            "the name of a project must have at most {PROJECT_NAME_MAX} characters, because it is in the labels of hub \
             namespaces; the name of the file, without .{ENDING}, has {length}"
        ));
    }
    ProjectName::new(name).map_err(|error| {
        format!("the file must have the name of its project, and the ending .{ENDING}: {error}")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_name_of_a_project_fits_in_a_label() {
        let of = |length| {
            let name = "a".repeat(length);
            project(Path::new(&format!("/d/{name}.kubeconfig")))
        };
        let longest = of(PROJECT_NAME_MAX).unwrap();
        assert_eq!(longest.to_label().len(), 63);
        let problem = of(PROJECT_NAME_MAX + 1).unwrap_err();
        assert!(problem.contains("at most 55 characters"), "{problem}");
        assert!(problem.contains("has 56"), "{problem}");
    }

    #[test]
    fn a_mounted_secret_has_a_file_for_each_project() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        // A volume has links to the files of its present version.
        fs::create_dir(path("..2026_01")).unwrap();
        symlink("..2026_01", path("..data")).unwrap();
        for name in [
            "p-1.kubeconfig",
            "single.kubeconfig",
            "ca.crt",
            "P_2.kubeconfig",
            "a.b.kubeconfig",
        ] {
            fs::write(path("..data").join(name), name).unwrap();
            symlink(format!("..data/{name}"), path(name)).unwrap();
        }
        fs::write(path(".kubeconfig"), "").unwrap();
        fs::create_dir(path("folder.kubeconfig")).unwrap();
        let files = Files::read(directory.path()).unwrap();
        let projects = files.projects.iter().map(|(name, file)| {
            let contents = file.contents.as_ref().map(ToString::to_string);
            (name.to_string(), contents.map_err(Clone::clone))
        });
        let no_file = format!("{} is not a file", path("folder.kubeconfig").display());
        assert_eq!(
            projects.collect::<Vec<_>>(),
            [
                ("folder".to_owned(), Err(no_file)),
                ("p-1".to_owned(), Ok("p-1.kubeconfig".to_owned())),
                ("single".to_owned(), Ok("single.kubeconfig".to_owned())),
            ]
        );
        let misnamed: Vec<_> = files.misnamed.iter().collect();
        assert_eq!(misnamed.len(), 2, "{misnamed:?}");
        for (path, problem) in misnamed {
            assert!(
                problem.contains(".kubeconfig: project name \""),
                "{path:?}: {problem}"
            );
        }
    }
}
