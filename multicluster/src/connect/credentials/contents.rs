//! Decodes and checks the contents of a kubeconfig file.

use std::path::{MAIN_SEPARATOR, Path};

use http::HeaderValue;
use kube::config::{Kubeconfig, KubeconfigError};
use serde_json::Value;
use thiserror::Error;

/// The reason why the contents of a kubeconfig file cannot be used. No message contains credentials.
#[derive(Debug, Error)]
pub(crate) enum ContentsError {
    /// The text cannot be decoded.
    #[error("it is not a kubeconfig: {0}")]
    Undecodable(String),
    /// A field is missing, or names something that is not there.
    #[error("{field} {problem}")]
    Field {
        /// The path of the field.
        field: &'static str,
        /// The fault, and how to correct it.
        problem: String,
    },
    /// The library did not load the kubeconfig at once.
    #[error("it was not loaded at once")]
    Waits,
}

impl ContentsError {
    fn field(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Field {
            field,
            problem: problem.into(),
        }
    }
}

impl From<KubeconfigError> for ContentsError {
    fn from(error: KubeconfigError) -> Self {
        match error {
            // The message with a snippet would contain lines of the file.
            KubeconfigError::Parse(error) => Self::Undecodable(error.without_snippet().to_string()),
            KubeconfigError::MissingClusterUrl => {
                Self::field("clusters[].cluster.server", "is missing")
            }
            KubeconfigError::ParseClusterUrl(error) => Self::field(
                "clusters[].cluster.server",
                format!("is not a URL: {error}"),
            ),
            KubeconfigError::ParseProxyUrl(error) => Self::field(
                "clusters[].cluster.proxy-url",
                format!("is not a URL: {error}"),
            ),
            KubeconfigError::LoadCertificateAuthority(error) => {
                let field = "clusters[].cluster.certificate-authority, or -data,";
                Self::field(field, format!("cannot be read: {error}"))
            }
            KubeconfigError::ParseCertificates(error) => {
                let field = "clusters[].cluster.certificate-authority, or -data,";
                Self::field(field, format!("is not in PEM: {error}"))
            }
            other => Self::Undecodable(other.to_string()),
        }
    }
}

/// Decodes a kubeconfig. Relative paths in it are relative to the directory of the file, as when kube reads the file.
pub(super) fn parse(file: &Path, contents: &str) -> Result<Kubeconfig, KubeconfigError> {
    // Some editors begin a file with this mark.
    let mut kubeconfig = Kubeconfig::from_yaml(contents.trim_start_matches('\u{feff}'))?;
    let directory = file.parent().unwrap_or_else(|| Path::new(""));
    let resolve = |path: &mut Option<String>| {
        let relative = path.as_ref().filter(|path| Path::new(path).is_relative());
        let absolute = relative.and_then(|path| directory.join(path).to_str().map(str::to_owned));
        if absolute.is_some() {
            *path = absolute;
        }
    };
    for named in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut named.cluster {
            resolve(&mut cluster.certificate_authority);
        }
    }
    for named in &mut kubeconfig.auth_infos {
        let Some(user) = &mut named.auth_info else {
            continue;
        };
        for path in [
            &mut user.client_certificate,
            &mut user.client_key,
            &mut user.token_file,
        ] {
            resolve(path);
        }
        // A command without a separator is searched in PATH.
        if let Some(exec) = &mut user.exec
            && exec
                .command
                .as_ref()
                .is_some_and(|command| command.contains(MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
    Ok(kubeconfig)
}

/// Checks that the current context names a cluster with a server, and a user. kube tolerates a user that is missing. In a
/// file that is half written, the users can be missing.
pub(super) fn check(kubeconfig: &Kubeconfig) -> Result<(), ContentsError> {
    let name = kubeconfig.current_context.as_deref().unwrap_or_default();
    if name.is_empty() {
        let problem = "is missing: it names the context to use";
        return Err(ContentsError::field("current-context", problem));
    }
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == name);
    let Some(context) = context.and_then(|named| named.context.as_ref()) else {
        return Err(ContentsError::field("contexts", format!("has no {name:?}")));
    };
    let mut clusters = kubeconfig.clusters.iter();
    if !clusters.any(|named| named.name == context.cluster && named.cluster.is_some()) {
        let problem = format!("has no {:?}, which the context names", context.cluster);
        return Err(ContentsError::field("clusters", problem));
    }
    let user = context.user.as_deref().filter(|user| !user.is_empty());
    let Some(user) = user else {
        return Ok(());
    };
    let mut users = kubeconfig.auth_infos.iter();
    let found = users.find(|named| named.name == user);
    let Some(auth) = found.and_then(|named| named.auth_info.as_ref()) else {
        let problem = format!("has no {user:?}, which the context names");
        return Err(ContentsError::field("users", problem));
    };
    // The library sends the token in a header, and panics if it cannot.
    let auth = serde_json::to_value(auth).unwrap_or_default();
    let token = auth
        .get("token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if HeaderValue::from_str(token).is_err() {
        let problem = "has a line break or another character that no header may have";
        return Err(ContentsError::field("users[].user.token", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::connect::ClusterConfig;

    const WHOLE: &str = "\
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://a:6443'}}]
users: [{name: u, user: {token: s3cret}}]
";

    fn error(contents: &str) -> String {
        let contents = Arc::from(contents);
        let config = ClusterConfig::of_contents(Path::new("/d/a.kubeconfig"), &contents);
        config.unwrap_err().to_string()
    }

    #[test]
    fn the_wrong_field_is_named_and_no_credential_is_shown() {
        for (from, to, expected) in [
            ("current-context: x\n", "", "current-context is missing"),
            ("{name: x,", "{name: y,", "contexts has no \"x\""),
            (
                "{name: c,",
                "{name: d,",
                "clusters has no \"c\", which the context names",
            ),
            (
                "{name: u,",
                "{name: v,",
                "users has no \"u\", which the context names",
            ),
            (
                "server: ",
                "sever: ",
                "clusters[].cluster.server is missing",
            ),
            (
                "'https://a:6443'",
                "'https://a b'",
                "clusters[].cluster.server is not a URL",
            ),
            (
                "server: ",
                "certificate-authority: absent, server: ",
                "certificate-authority, or -data, cannot be read",
            ),
            (
                "token: s3cret",
                "token: \"s3cret\\n\"",
                "users[].user.token has a line break",
            ),
            ("users: [", "users: [[", "it is not a kubeconfig: "),
            (
                "token: s3cret",
                "token: [s3cret]",
                "it is not a kubeconfig: ",
            ),
        ] {
            let contents = WHOLE.replace(from, to);
            assert_ne!(contents, WHOLE);
            let error = error(&contents);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(error("garbage").contains("it is not a kubeconfig: "));
        assert!(error("").contains("current-context"));
    }

    #[test]
    fn a_half_written_file_is_refused_wherever_it_ends() {
        let last = WHOLE.trim_end().len();
        for end in 0..last {
            let error = error(&WHOLE[..end]);
            assert!(!error.is_empty(), "{end}");
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let user = "{client-certificate: c.crt, client-key: /k, tokenFile: sub/token, exec: {command: ./plugin}}";
        let contents = WHOLE.replace("{token: s3cret}", user);
        let contents = contents.replace("server:", "certificate-authority: ca.crt, server:");
        let parsed = parse(Path::new("/d/a.kubeconfig"), &contents).unwrap();
        let cluster = parsed.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.certificate_authority.as_deref(), Some("/d/ca.crt"));
        let user = parsed.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.client_certificate.as_deref(), Some("/d/c.crt"));
        assert_eq!(user.client_key.as_deref(), Some("/k"));
        assert_eq!(user.token_file.as_deref(), Some("/d/sub/token"));
        let command = |user: &str| {
            let contents = WHOLE.replace("{token: s3cret}", user);
            let parsed = parse(Path::new("/d/a.kubeconfig"), &contents).unwrap();
            let user = parsed.auth_infos[0].auth_info.clone().unwrap();
            user.exec.unwrap().command.unwrap()
        };
        assert_eq!(command("{exec: {command: ./plugin}}"), "/d/./plugin");
        assert_eq!(command("{exec: {command: aws}}"), "aws");
    }
}
