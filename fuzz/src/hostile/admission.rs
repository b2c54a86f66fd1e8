//! Hostile requests of an API server.

use super::generator::Generator;

/// A character of one byte in JSON, and of six bytes in Rust's quoted form of a string.
const DELETE: &str = "\u{7f}";

fn review(request: &str) -> String {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{{"group":"compute.datumapis.com","version":"v1alpha","kind":"Workload"}},{request}"#
    )
}

pub(super) fn generators() -> Vec<Generator> {
    [requests(), reviewed(), lists(), updates(), ssh_keys()]
        .into_iter()
        .flatten()
        .collect()
}

/// Requests with long or many parts outside the object.
fn requests() -> Vec<Generator> {
    let make = |name, request: &str, piece, after: &str| {
        Generator::new(name, review(request), piece, after)
    };
    let object = r#""operation":"CREATE","object":{"spec":{}}}}"#;
    vec![
        Generator::new("review", "\"", DELETE, "\""),
        make("uid", r#""uid":""#, DELETE, &format!("\",{object}")),
        make("name", r#""name":""#, DELETE, &format!("\",{object}")),
        make(
            "name-with-escapes",
            r#""name":""#,
            "\\u0001",
            &format!("\",{object}"),
        ),
        make(
            "namespace",
            r#""namespace":""#,
            DELETE,
            &format!("\",{object}"),
        ),
        make("operation", r#""operation":""#, DELETE, "\"}}"),
        make(
            "groups",
            r#""userInfo":{"groups":["#,
            r#""","#,
            &format!("]}},{object}"),
        ),
        make(
            "named-groups",
            r#""userInfo":{"groups":["#,
            r#""@","#,
            &format!("]}},{object}"),
        ),
        make(
            "claims",
            r#""userInfo":{"extra":{"#,
            r#""@":[],"#,
            &format!("}}}},{object}"),
        ),
        make(
            "claims-without-values",
            r#""userInfo":{"extra":{"#,
            r#""@":null,"#,
            &format!("}}}},{object}"),
        ),
        make(
            "values-of-a-claim",
            r#""userInfo":{"extra":{"a":["#,
            r#""","#,
            &format!("]}}}},{object}"),
        ),
        make(
            "user",
            r#""userInfo":{"username":""#,
            DELETE,
            &format!("\"}},{object}"),
        ),
        make(
            "text-as-groups",
            r#""userInfo":{"groups":""#,
            DELETE,
            &format!("\"}},{object}"),
        ),
        make(
            "text-as-object",
            r#""operation":"CREATE","object":""#,
            DELETE,
            "\"}}",
        ),
        make(
            "text-as-number",
            r#""operation":"CREATE","object":{"spec":{"placements":[{"scaleSettings":{"minReplicas":""#,
            DELETE,
            "\"}}]}}}}",
        ),
        make(
            "long-key",
            r#""operation":"CREATE","object":{"metadata":0,""#,
            DELETE,
            "\":0}}}",
        ),
    ]
}

/// Requests of long requesters for Workloads with many networks. Each network causes an access review.
fn reviewed() -> Vec<Generator> {
    let interfaces = (0..40).map(|index| format!(r#"{{"network":{{"name":"n{index}"}}}}"#));
    let interfaces = interfaces.collect::<Vec<_>>().join(",");
    let object = format!(
        r#""operation":"CREATE","object":{{"spec":{{"template":{{"spec":{{"networkInterfaces":[{interfaces}]}}}}}}}}}}}}"#
    );
    let make = |name, user: &str, piece, after: &str| {
        let before = review(&format!(r#""userInfo":{{{user}"#));
        Generator::new(name, before, piece, format!("{after}}},{object}"))
    };
    vec![
        make("user-with-networks", r#""username":""#, DELETE, "\""),
        make("groups-with-networks", r#""groups":["#, r#""","#, "]"),
        make("claims-with-networks", r#""extra":{"#, r#""@":[],"#, "}"),
    ]
}

/// The path of each list of a Workload, and the text around its elements.
const LISTS: [(&str, &str); 14] = [
    (r#""placements":["#, "]"),
    (r#""placements":[{"cityCodes":["#, "]}]"),
    (r#""placements":[{"scaleSettings":{"metrics":["#, "]}}]"),
    (r#""template":{"spec":{"volumes":["#, "]}}"),
    (
        r#""template":{"spec":{"volumes":[{"configMap":{"items":["#,
        "]}}]}}",
    ),
    (r#""template":{"spec":{"networkInterfaces":["#, "]}}"),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"containers":["#,
        "]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"imagePullSecrets":["#,
        "]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"containers":[{"ports":["#,
        "]}]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"containers":[{"volumeAttachments":["#,
        "]}]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"containers":[{"env":["#,
        "]}]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"sandbox":{"containers":[{"envFrom":["#,
        "]}]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"virtualMachine":{"ports":["#,
        "]}}}}",
    ),
    (
        r#""template":{"spec":{"runtime":{"virtualMachine":{"volumeAttachments":["#,
        "]}}}}",
    ),
];

fn elements(index: usize) -> [(&'static str, &'static str); 2] {
    match index {
        0 => [
            ("empty-placements", "{},"),
            ("placements", r#"{"name":"@"},"#),
        ],
        1 => [("empty-cities", r#""","#), ("cities", r#""@","#)],
        2 => [("empty-metrics", "{},"), ("metrics", r#"{"resource":{}},"#)],
        3 => [
            ("empty-volumes", "{},"),
            ("volumes", r#"{"name":"@","disk":{}},"#),
        ],
        4 => [("empty-items", "{},"), ("items", r#"{"key":"@"},"#)],
        5 => [
            ("empty-interfaces", "{},"),
            ("interfaces", r#"{"network":{"name":"@"}},"#),
        ],
        6 => [
            ("empty-containers", "{},"),
            ("containers", r#"{"name":"@"},"#),
        ],
        7 => [
            ("empty-pull-secrets", "{},"),
            ("pull-secrets", r#"{"name":"@"},"#),
        ],
        8 => [("empty-ports", "{},"), ("ports", r#"{"name":"@"},"#)],
        9 => [
            ("empty-attachments", "{},"),
            ("attachments", r#"{"name":"@","mountPath":"@"},"#),
        ],
        10 => [
            ("empty-variables", "{},"),
            (
                "variables",
                r#"{"valueFrom":{"secretKeyRef":{"name":"@"}}},"#,
            ),
        ],
        11 => [
            ("empty-sets-of-variables", "{},"),
            ("sets-of-variables", r#"{"secretRef":{"name":"@"}},"#),
        ],
        12 => [
            ("empty-machine-ports", "{},"),
            ("machine-ports", r#"{"name":"@"},"#),
        ],
        _ => [
            ("empty-machine-attachments", "{},"),
            ("machine-attachments", r#"{"name":"@","mountPath":"@"},"#),
        ],
    }
}

/// New Workloads with many small elements in one list.
fn lists() -> Vec<Generator> {
    let lists = LISTS.into_iter().enumerate();
    lists
        .flat_map(|(index, (before, after))| {
            elements(index).map(|(name, piece)| {
                let before = format!(r#""operation":"CREATE","object":{{"spec":{{{before}"#);
                Generator::new(name, review(&before), piece, format!("{after}}}}}}}}}"))
            })
        })
        .collect()
}

/// Updates of a Workload that had many errors.
fn updates() -> Vec<Generator> {
    let names = [
        "former-placements",
        "former-cities",
        "former-metrics",
        "former-volumes",
        "former-items",
        "former-interfaces",
        "former-containers",
        "former-pull-secrets",
        "former-ports",
        "former-attachments",
        "former-machine-ports",
        "former-machine-attachments",
    ];
    let lists = LISTS.into_iter().zip(names).enumerate();
    lists
        .map(|(index, ((before, after), name))| {
            let [_, (_, piece)] = elements(index);
            let before = format!(
                r#""operation":"UPDATE","object":{{"spec":{{"x":0}}}},"oldObject":{{"spec":{{{before}"#
            );
            Generator::new(name, review(&before), piece, format!("{after}}}}}}}}}"))
        })
        .collect()
}

/// New Workloads, and updates of Workloads, with many lines of SSH keys that are not valid.
fn ssh_keys() -> Vec<Generator> {
    let machine = r#"{"spec":{"template":{"spec":{"runtime":{"virtualMachine":{}}},"metadata":{"annotations":{"compute.datumapis.com/ssh-keys":""#;
    let make = |name, before: &str| {
        let before = review(&format!("{before}{machine}"));
        Generator::new(name, before, ":@\\n", "\"}}}}}}}")
    };
    vec![
        make("ssh-keys", r#""operation":"CREATE","object":"#),
        make(
            "former-ssh-keys",
            r#""operation":"UPDATE","object":{"spec":{"x":0}},"oldObject":"#,
        ),
    ]
}
