//! Errors of connections to API servers.

use std::error::Error;
use std::path::PathBuf;

use api::ProjectName;
use http::header::InvalidHeaderValue;
use kube::client::AuthError;
use thiserror::Error;
use tower::BoxError;

/// The reason why an API server cannot be reached. Each message contains the configuration that was tried.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig file is missing or invalid.
    #[error("{}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// The files in `KUBECONFIG` are missing or invalid.
    #[error("KUBECONFIG: {0}")]
    Environment(String),
    /// There is no kubeconfig, and the process does not run in a pod.
    #[error(
        "no kubeconfig: --kubeconfig is not given, KUBECONFIG is not set, and this is not a pod ({0})"
    )]
    NotInCluster(String),
    /// No client can be made from the configuration.
    #[error("no client for {url}: {problem}")]
    Client {
        /// The API server.
        url: String,
        /// The error in the configuration.
        problem: ClientError,
    },
}

/// The reason why no client can be made from a configuration.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The configuration requires a proxy that is no HTTP proxy.
    #[error(
        "proxy-url, or the environment variable HTTPS_PROXY, has the scheme {0:?}: only http is supported, a proxy that \
         tunnels connections with CONNECT"
    )]
    Proxy(String),
    /// The user agent is not a valid header value.
    #[error(transparent)]
    UserAgent(#[from] InvalidHeaderValue),
    /// Certificates or credentials are invalid.
    #[error("{}", auth_problem(.0).unwrap_or_else(|| .0.to_string()))]
    Credentials(#[from] kube::Error),
    /// `tls-server-name` is not a valid server name.
    #[error("tls-server-name: {0}")]
    ServerName(BoxError),
    /// The address of a project's API server is not a valid URL.
    #[error("project {project} has no address: {source}")]
    Address {
        /// The project.
        project: ProjectName,
        /// The error in the address.
        source: http::Error,
    },
}

/// Returns the problem of a request or a client whose credentials are the problem. Leaves out what the command of a
/// kubeconfig (`exec`) has printed, because that can be a token.
pub(crate) fn auth_problem(error: &(dyn Error + 'static)) -> Option<String> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return Some(without_output(error));
        }
        source = error.source();
    }
    None
}

fn without_output(error: &AuthError) -> String {
    match error {
        // The command has its arguments and variables, which can be secret too.
        AuthError::AuthExecRun { out, .. } => {
            format!("the command of users[].user.exec failed: {}", out.status)
        }
        AuthError::AuthExecParse(_) => {
            "the command of users[].user.exec printed no ExecCredential".to_owned()
        }
        AuthError::AuthExecStart(error) => {
            format!("the command of users[].user.exec cannot be started: {error}")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::connect::{ClusterConfig, Connector};
    use crate::lease::Leadership;

    /// Returns the problem of a kubeconfig whose command is this script of a shell.
    fn problem(command: &str, script: &str) -> String {
        let kubeconfig = format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, \
             cluster: {{server: 'https://a:6443'}}}}], users: [{{name: u, user: {{exec: {{command: {command}, args: \
             [-c, '{script}'], interactiveMode: Never, apiVersion: client.authentication.k8s.io/v1}}}}}}]}}"
        );
        let contents = Arc::from(kubeconfig);
        let config = ClusterConfig::of_contents(Path::new("/d/a.kubeconfig"), &contents).unwrap();
        let made = Connector::new(config, "test", Leadership::without_election());
        made.err().unwrap().to_string()
    }

    #[test]
    fn the_output_of_a_command_is_not_in_its_problem() {
        for (command, script, expected) in [
            (
                "sh",
                "echo s3cret; echo s3cret >&2; exit 3",
                "exec failed: exit status: 3",
            ),
            ("sh", "echo s3cret", "printed no ExecCredential"),
            ("/no/such/plugin", "", "cannot be started: No such file"),
        ] {
            let problem = problem(command, script);
            assert!(problem.contains(expected), "{problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }
}
