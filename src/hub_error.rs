//! Errors of the commands that read the hub.

use kube::Error;

/// Returns the message of an error: what the API server at this URL answers, or why there is no answer.
pub(crate) fn hub_error(url: &str, error: &Error) -> anyhow::Error {
    let text = match error {
        Error::Api(status) if status.code == 404 && status.details.is_none() => format!(
            "{url} does not serve this resource: --federation-kubeconfig must be that of a Karmada hub with the CRDs of \
             compute-federation"
        ),
        Error::Api(status) => format!("{url} answers {}: {}", status.code, status.message),
        Error::SerdeError(error) => format!("{url} answers something else: {error}"),
        error => {
            let mut cause: &dyn std::error::Error = error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            format!("{url} cannot be reached: {cause}")
        }
    };
    anyhow::Error::msg(text)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_names_the_api_server_and_its_answer_once() {
        let status = |code, message: &str| Status::failure(message, "Reason").with_code(code);
        let mut absent = status(404, "instances \"a\" not found");
        absent.details = serde_json::from_value(json!({})).unwrap();
        let unreached = Error::Service(std::io::Error::other("connection refused").into());
        for (error, expected) in [
            (
                Error::Api(status(403, "no right").boxed()),
                "https://hub answers 403: no right",
            ),
            (
                Error::Api(absent.boxed()),
                "https://hub answers 404: instances \"a\" not found",
            ),
            (
                Error::Api(status(404, "404 page not found").boxed()),
                "https://hub does not serve this resource: --federation-kubeconfig must be that of a Karmada hub with the \
                 CRDs of compute-federation",
            ),
            (
                unreached,
                "https://hub cannot be reached: connection refused",
            ),
        ] {
            assert_eq!(hub_error("https://hub", &error).to_string(), expected);
        }
    }
}
