//! Finds the names of the users that may change the annotations about referenced data.

use tracing::warn;

/// Returns the configured names. If there are none, returns the name of the ServiceAccount that the environment names.
/// If the environment names none either, only administrators may change the annotations.
pub(crate) fn resolver_usernames(
    configured: Vec<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    if !configured.is_empty() {
        return configured;
    }
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let own = given("POD_NAMESPACE").zip(given("SERVICE_ACCOUNT_NAME"));
    if own.is_none() {
        warn!(
            "only administrators may change the annotations about referenced data, so no Workload gets its ConfigMaps and \
             Secrets: set referencedData.resolverUsernames in the file of --server-config to the name that the management \
             controllers have in the projects, or set POD_NAMESPACE and SERVICE_ACCOUNT_NAME"
        );
    }
    let names =
        own.map(|(namespace, account)| format!("system:serviceaccount:{namespace}:{account}"));
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_service_account_of_the_environment() {
        let of = |configured: &[&str], namespace: Option<&str>, account: Option<&str>| {
            let configured = configured.iter().map(|&name| name.to_owned()).collect();
            let variable = |name: &str| match name {
                "POD_NAMESPACE" => namespace.map(str::to_owned),
                "SERVICE_ACCOUNT_NAME" => account.map(str::to_owned),
                _ => None,
            };
            resolver_usernames(configured, variable)
        };
        let (namespace, account) = (Some("compute-system"), Some("compute-manager"));
        let own = api::rights::MANAGER_USER;
        assert_eq!(of(&[], namespace, account), [own]);
        assert_eq!(of(&["a", "b"], namespace, account), ["a", "b"]);
        for (namespace, account) in [(None, account), (namespace, None), (namespace, Some(""))] {
            assert_eq!(of(&[], namespace, account), [""; 0]);
        }
    }
}
