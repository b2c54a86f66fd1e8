//! `config.md`: the fields of the config file.

use super::page::{Page, Section, code};

/// A field of the config file.
struct Field {
    path: &'static str,
    default: &'static str,
    meaning: &'static str,
}

const fn field(path: &'static str, default: &'static str, meaning: &'static str) -> Field {
    Field {
        path,
        default,
        meaning,
    }
}

/// The fields. A path with a dot is a field of a section.
const FIELDS: [Field; 32] = [
    field(
        "apiVersion",
        "required",
        "`apiserver.config.datumapis.com/v1alpha1`.",
    ),
    field("kind", "required", "`WorkloadOperator`."),
    field("metricsServer", "`{}`", "The server of `/metrics`."),
    field(
        "metricsServer.bindAddress",
        "`\"0\"`",
        "Address of the metrics server: `host:port`, `:port` for all addresses, `\"0\"` for off.",
    ),
    field(
        "metricsServer.secureServing",
        "`true`",
        "Serve metrics over TLS, and only to users who may get `/metrics` in the own cluster.",
    ),
    field(
        "metricsServer.tls",
        "`{}`",
        "The certificate of the metrics server.",
    ),
    field(
        "metricsServer.tls.certDir",
        "`<tmp>/k8s-metrics-server/serving-certs`",
        "Directory of the certificate. While the files are missing, a self-signed certificate is served.",
    ),
    field(
        "metricsServer.tls.certName",
        "`tls.crt`",
        "File name of the certificate chain.",
    ),
    field(
        "metricsServer.tls.keyName",
        "`tls.key`",
        "File name of the private key.",
    ),
    field(
        "webhookServer",
        "absent",
        "The webhook server. Absent: none. `{}`: on, with the defaults.",
    ),
    field(
        "webhookServer.host",
        "all addresses",
        "Host name or IP address to listen at.",
    ),
    field(
        "interpreterCustomizations",
        "`{}`",
        "Lua scripts for other kinds. Needs `webhookServer`. See [Serve Lua customizations](../operate/serve-lua-customizations.md).",
    ),
    field(
        "interpreterCustomizations.directory",
        "unset",
        "Directory with files of ResourceInterpreterCustomizations.",
    ),
    field("webhookServer.port", "`9443`", "Port to listen at."),
    field(
        "webhookServer.interpreterPort",
        "the same port",
        "Port of the interpreter, if it is not `port`. `port` then serves admission alone. Host and certificate are the same.",
    ),
    field(
        "webhookServer.clientCAName",
        "unset",
        "The CA of API servers: the name of a file in `tls.certDir`, or an absolute path. If set, admission needs a client certificate of this CA. The interpreter needs none.",
    ),
    field(
        "webhookServer.clientSubjectNames",
        "every name",
        "Common names or DNS names of the accepted client certificates. Needs `clientCAName`.",
    ),
    field(
        "webhookServer.tls",
        "`{}`",
        "The certificate of the webhook server. The file `ca.crt` in the same directory has the authorities.",
    ),
    field(
        "webhookServer.tls.certDir",
        "`<tmp>/k8s-webhook-server/serving-certs`",
        "Directory of the certificate. While the files are missing, `/readyz` fails and names the directory.",
    ),
    field(
        "webhookServer.tls.certName",
        "`tls.crt`",
        "File name of the certificate chain.",
    ),
    field(
        "webhookServer.tls.keyName",
        "`tls.key`",
        "File name of the private key.",
    ),
    field(
        "discovery",
        "`{}`",
        "The projects to serve, and the name of a cell.",
    ),
    field(
        "discovery.mode",
        "`single`",
        "`single`: the own cluster is the only project. Its name is `single`, so only one management installation with this mode can use a hub. `milo`: every project of Milo that is ready. `kubeconfigs`: every project that has a kubeconfig in a directory.",
    ),
    field(
        "discovery.clusterName",
        "unset",
        "Name of this cell: the name of its Cluster on the hub. The cell role needs it.",
    ),
    field(
        "discovery.formerClusterNames",
        "`[]`",
        "Names that this cell had before. Its claims of [quota](../concepts/flow.md#quota) are found and taken over by them. No other cell may have or have had one of them.",
    ),
    field(
        "discovery.quotaKubeconfigPath",
        "with `mode: milo`: `discovery.projectKubeconfigPath`",
        "Kubeconfig with which a cell claims [quota](../concepts/flow.md#quota). With `mode: milo`, the path of the server's URL is replaced by the path of each project's API server. With `mode: single`, it is the API server of the only project. This mode has no default: a cell of a federation has it too, and its own cluster need not have a quota system. If neither field is set, the cell does not enforce quota. A file that is missing stops the process.",
    ),
    field(
        "referencedData",
        "`{}`",
        "Who may change the annotations about [referenced data](../concepts/referenced-data.md#admission).",
    ),
    field(
        "referencedData.resolverUsernames",
        "the ServiceAccount of the process",
        "Names that the management controllers have as users of the projects. Only they and the group `system:masters` may change the annotations. The default is `system:serviceaccount:$POD_NAMESPACE:$SERVICE_ACCOUNT_NAME`; without these variables, it is nobody.",
    ),
    field("featureFlags", "`{}`", "What a cell does in addition."),
    field(
        "featureFlags.enableReferencedDataGate",
        "`false`",
        "New Instances of a cell wait for the [ConfigMaps and Secrets](../concepts/referenced-data.md) of their template.",
    ),
    field(
        "networking",
        "`{}`",
        "The [networks](../concepts/flow.md#networks) of the Instances of a cell.",
    ),
    field(
        "networking.strategy",
        "`InterfaceClaims` with `--feature-gates=NetworkingIntegration=true`, else `Disabled`",
        "`InterfaceClaims`: a NetworkInterfaceClaim per interface of an Instance. `Bindings`: a NetworkBinding per interface of a WorkloadDeployment, for network operators up to version 0.21. `Disabled`: Instances do not wait for networks. A strategy that contradicts the flag stops the process.",
    ),
];

/// The fields that are valid only with `mode: milo`.
const MILO_FIELDS: [Field; 3] = [
    field(
        "discovery.discoveryKubeconfigPath",
        "own cluster",
        "Kubeconfig of the API server that has the Projects.",
    ),
    field(
        "discovery.projectKubeconfigPath",
        "own cluster",
        "Kubeconfig for the projects' API servers. For each project, the path of the server's URL in this kubeconfig is replaced by the path of the project's API server. Host and credentials stay.",
    ),
    field(
        "discovery.internalServiceDiscovery",
        "`false`",
        "Watch ProjectControlPlanes instead of Projects, and call Services of the cluster. The host of the URL is then replaced too.",
    ),
];

/// The fields that are valid only with `mode: kubeconfigs`.
const KUBECONFIGS_FIELDS: [Field; 1] = [field(
    "discovery.projectKubeconfigDirectory",
    "required",
    "Directory with a file `<project>.kubeconfig` for each project. Other files, and files whose names begin with a dot, are ignored.",
)];

/// The fields of the Go manager that have no meaning here.
const IGNORED_FIELDS: [Field; 6] = [
    field(
        "referencedData.perObjectLimitBytes",
        "ignored",
        "Ignored too: the limit is always 262,144 bytes.",
    ),
    field(
        "referencedData.aggregateLimitBytes",
        "ignored",
        "Ignored too: the limit is always 1,048,576 bytes.",
    ),
    field(
        "locationSource",
        "ignored",
        "Any value is refused: cities come from LocationBindings only.",
    ),
    field(
        "metricsServer.tls.secretRef",
        "ignored",
        "Any value is refused: mount the Secret and set `certDir`.",
    ),
    field(
        "webhookServer.tls.secretRef",
        "ignored",
        "Any value is refused: mount the Secret and set `certDir`.",
    ),
    field(
        "discovery.consumerScopedProjection",
        "ignored",
        "Any value is refused: every project is served.",
    ),
];

const EXAMPLE: &str = r#"```yaml
apiVersion: apiserver.config.datumapis.com/v1alpha1
kind: WorkloadOperator
metricsServer:
  bindAddress: ":8443"
webhookServer:
  tls:
    certDir: /etc/compute-federation/webhook-certs
discovery:
  mode: milo
  discoveryKubeconfigPath: /etc/milo/root.kubeconfig
  projectKubeconfigPath: /etc/milo/project.kubeconfig
```"#;

pub(super) fn page() -> Page {
    let columns = ["field", "default", "meaning"];
    let rows = |fields: &'static [Field]| {
        let rows = fields
            .iter()
            .map(|it| vec![code(it.path), it.default.to_owned(), it.meaning.to_owned()]);
        rows.collect::<Vec<_>>()
    };
    Page {
        file: "config.md",
        title: "Config file",
        sections: vec![
            Section::text([
                "`--server-config` names the config file. Without a config file, every field has its default.",
                "The file is decoded strictly. An unknown field is an error that names the line and the field. A field that has no effect \
                 in the given mode is an error too. An empty text means unset. `<tmp>` is the directory for temporary files: `TMPDIR`, \
                 or `/tmp` if it is unset.",
                EXAMPLE,
                "Certificate files are read every second (the files of the webhook server: every `--certificate-poll`), so a renewed \
                 certificate is served without a restart. If the new files cannot be served, the former certificate stays in service.",
            ]),
            Section::named("Fields", [""; 0]).table(columns, rows(&FIELDS)),
            Section::named(
                "Fields of `mode: milo`",
                ["With `mode: milo` the management controllers and admission serve every project of Milo that is ready."],
            )
            .table(columns, rows(&MILO_FIELDS)),
            Section::named(
                "Fields of `mode: kubeconfigs`",
                ["With `mode: kubeconfigs` the management controllers serve each project that has a kubeconfig in a directory. The \
                  directory is read every second. See [Projects from kubeconfigs](../operate/project-kubeconfigs.md). \
                  `discovery.quotaKubeconfigPath` is an error in this mode."],
            )
            .table(columns, rows(&KUBECONFIGS_FIELDS)),
            Section::named(
                "Fields of the Go manager without effect",
                ["If one of these is given without a value, the process logs one warning."],
            )
            .table(["field", "without value", "with a value"], rows(&IGNORED_FIELDS)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    /// Returns the fields of a section, as listed in the decoder's error for an unknown field.
    fn fields(section: &str) -> BTreeSet<String> {
        let mut text = String::new();
        let mut indent = String::new();
        for name in section.split('.').filter(|name| !name.is_empty()) {
            text.push_str(&[&indent, name, ":\n"].concat());
            indent += "  ";
        }
        let text = format!("{text}{indent}noSuchField: 1\n");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", Config::load(Some(&file)).unwrap_err());
        let (_, known) = error
            .split_once("known are ")
            .unwrap_or_else(|| panic!("{section}: {error}"));
        let known = known.split(", ").map(|name| match section {
            "" => name.to_owned(),
            section => format!("{section}.{name}"),
        });
        known.collect()
    }

    #[test]
    fn every_field_of_the_file_is_listed() {
        let sections = [
            "",
            "metricsServer",
            "metricsServer.tls",
            "webhookServer",
            "webhookServer.tls",
            "discovery",
            "networking",
            "featureFlags",
            "referencedData",
            "interpreterCustomizations",
        ];
        let known: BTreeSet<_> = sections.into_iter().flat_map(fields).collect();
        let listed = FIELDS
            .iter()
            .chain(&MILO_FIELDS)
            .chain(&KUBECONFIGS_FIELDS)
            .chain(&IGNORED_FIELDS)
            .map(|it| it.path.to_owned());
        assert_eq!(listed.collect::<BTreeSet<_>>(), known);
    }
}
