//! Maps paths to API servers.

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route<'p> {
    /// The project. `None` means the root API server.
    pub(super) project: Option<&'p str>,
    /// The path on the API server of the destination.
    pub(super) path: &'p str,
}

/// Routes a path as Milo does. The first `/projects/` of the path selects the project, if `<name>/control-plane/`
/// follows.
pub(super) fn route(path: &str) -> Route<'_> {
    let project = || {
        let (_, rest) = path.split_once("/projects/")?;
        let (project, rest) = rest.split_once('/')?;
        let path = rest.strip_prefix("control-plane")?;
        path.starts_with('/').then_some(Route {
            project: Some(project),
            path,
        })
    };
    let root = Route {
        project: None,
        path,
    };
    project().unwrap_or(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let prefix = "/apis/resourcemanager.miloapis.com/v1alpha1/projects";
        for (path, project, rest) in [
            (
                format!("{prefix}/p1/control-plane/api/v1"),
                Some("p1"),
                "/api/v1",
            ),
            (format!("{prefix}/p1/control-plane/"), Some("p1"), "/"),
            (
                "/projects/p1/control-plane/apis".to_owned(),
                Some("p1"),
                "/apis",
            ),
            (
                format!("/projects/p1/control-plane{prefix}/p2/control-plane/api"),
                Some("p1"),
                &format!("{prefix}/p2/control-plane/api"),
            ),
        ] {
            let expected = Route {
                project,
                path: rest,
            };
            assert_eq!(route(&path), expected, "{path}");
        }
        for path in [
            format!("{prefix}/p1/control-plane"),
            format!("{prefix}/p1/control-planes/api"),
            format!("{prefix}/p1/status"),
            format!("{prefix}/p1"),
            prefix.to_owned(),
            "/projects/p1/other/projects/p2/control-plane/api".to_owned(),
            "/api/v1/namespaces".to_owned(),
        ] {
            let expected = Route {
                project: None,
                path: &path,
            };
            assert_eq!(route(&path), expected, "{path}");
        }
    }
}
