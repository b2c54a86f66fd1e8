use serde_json::{Value, json};

use super::{Case, check, machine, sandbox};

#[test]
fn resources_and_the_choice_of_a_runtime() {
    let cases: &[Case] = &[
        (
            "/template/spec/runtime/resources/instanceType",
            json!("big"),
            &[
                "spec.template.spec.runtime.resources: Unsupported value: \"big\": supported values: \
                 \"datumcloud/d1-standard-2\"",
            ],
        ),
        (
            "/template/spec/runtime/resources/requests",
            json!({"cpu": "1"}),
            &[
                "spec.template.spec.runtime.resources.requests: Forbidden: the instance type determines the resources",
            ],
        ),
        ("/template/spec/runtime/resources/requests", json!({}), &[]),
        (
            "/template/spec/runtime/virtualMachine",
            json!({"volumeAttachments": []}),
            &[
                "spec.template.annotations[compute.datumapis.com/ssh-keys]: Required value: a virtual machine needs SSH keys, one user:key per line",
                "spec.template.spec.runtime.virtualMachine: Forbidden: may not specify more than one runtime",
            ],
        ),
        (
            "/template/spec/runtime",
            json!({"resources": {"instanceType": "datumcloud/d1-standard-2"}}),
            &[
                "spec.template.spec.volumes[0].name: Required value: the volume must be attached by a container or the \
                 virtual machine",
                "spec.template.spec.volumes[1].name: Required value: the volume must be attached by a container or the \
                 virtual machine",
                "spec.template.spec.runtime: Required value: one of sandbox, virtualMachine",
            ],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn containers() {
    let cases: &[Case] = &[
        (
            "/template/spec/runtime/sandbox/containers",
            json!([]),
            &[
                "spec.template.spec.volumes[0].name: Required value: the volume must be attached by a container or the \
                 virtual machine",
                "spec.template.spec.volumes[1].name: Required value: the volume must be attached by a container or the \
                 virtual machine",
                "spec.template.spec.runtime.sandbox.containers: Required value: at least one",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/containers/-",
            json!({"name": "", "image": "x"}),
            &["spec.template.spec.runtime.sandbox.containers[1].name: Required value"],
        ),
        (
            "/template/spec/runtime/sandbox/containers/-",
            json!({"name": "a-name-that-is-longer-than-the-63-characters-that-a-label-may-have", "image": "x"}),
            &[
                "spec.template.spec.runtime.sandbox.containers[1].name: Invalid value: \
                 \"a-name-that-is-longer-than-the-63-characters-that-a-label-may-have\": must be no more than 63 characters",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/containers/-",
            json!({"name": "web", "image": ""}),
            &[
                "spec.template.spec.runtime.sandbox.containers[1].name: Duplicate value: \"web\"",
                "spec.template.spec.runtime.sandbox.containers[1].image: Required value",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/containers/0/resources",
            json!({"limits": {"cpu": "1"}}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].resources: Forbidden: the instance type determines the resources",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/imagePullSecrets/-",
            json!({"name": ""}),
            &["spec.template.spec.runtime.sandbox.imagePullSecrets[1].name: Required value"],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn attachments() {
    let path = "/template/spec/runtime/sandbox/containers/0/volumeAttachments/-";
    let cases: &[Case] = &[
        (
            path,
            json!({"name": "other", "mountPath": "/other"}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].volumeAttachments[2].name: Not found: \"other\"",
            ],
        ),
        (
            path,
            json!({"name": "data", "mountPath": "/config"}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].volumeAttachments[2].mountPath: Duplicate value: \"/config\"",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template/spec/populator",
            Value::Null,
            &[
                "spec.template.spec.runtime.sandbox.containers[0].volumeAttachments[1].mountPath: Not found: \"/data\"",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template",
            Value::Null,
            &[
                "spec.template.spec.volumes[1].disk.template: Required value: what the disk is made from",
                "spec.template.spec.runtime.sandbox.containers[0].volumeAttachments[1].mountPath: Internal error: nothing is \
                 known of a disk without a template",
            ],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn ports() {
    let cases: &[Case] = &[
        (
            "/template/spec/runtime/sandbox/containers/0/ports/-",
            json!({"name": "", "port": 0}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Required value",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].port: Invalid value: 0: must be between 1 and \
                 65535, inclusive",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/containers/0/ports/-",
            json!({"name": "http", "port": 65536}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Duplicate value: \"http\"",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].port: Invalid value: 65536: must be between 1 and \
                 65535, inclusive",
            ],
        ),
        (
            "/template/spec/runtime/sandbox/containers/0/ports/-",
            json!({"name": "-0--12345678901_", "port": 1}),
            &[
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Invalid value: \"-0--12345678901_\": must be \
                 no more than 15 characters",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Invalid value: \"-0--12345678901_\": must \
                 contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Invalid value: \"-0--12345678901_\": must \
                 contain at least one letter (a-z)",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Invalid value: \"-0--12345678901_\": must not \
                 contain consecutive hyphens",
                "spec.template.spec.runtime.sandbox.containers[0].ports[1].name: Invalid value: \"-0--12345678901_\": must not \
                 begin or end with a hyphen",
            ],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn virtual_machines() {
    let cases: &[Case] = &[
        (
            "/template/spec/runtime/virtualMachine/volumeAttachments",
            json!([]),
            &[
                "spec.template.spec.volumes[0].name: Required value: the volume must be attached by a container or the \
                 virtual machine",
                "spec.template.spec.runtime.virtualMachine.volumeAttachments: Required value: at least the boot disk",
            ],
        ),
        (
            "/template/spec/runtime/virtualMachine/volumeAttachments/-",
            json!({"name": "other"}),
            &[
                "spec.template.spec.runtime.virtualMachine.volumeAttachments[1].name: Not found: \"other\"",
            ],
        ),
        (
            "/template/spec/volumes/0/disk/template/spec",
            json!({"type": "pd-standard", "resources": {"requests": {"storage": "10Gi"}}}),
            &[
                "spec.template.spec.runtime.virtualMachine.volumeAttachments[0].name: Required value: the machine boots from the first attached volume, which must be a disk that is populated by an image",
            ],
        ),
        (
            "/template/spec/runtime/virtualMachine/ports/0/port",
            json!(-1),
            &[
                "spec.template.spec.runtime.virtualMachine.ports[0].port: Invalid value: -1: must be between 1 and 65535, \
                 inclusive",
            ],
        ),
    ];
    check(machine, cases);
}
