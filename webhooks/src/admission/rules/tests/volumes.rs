use serde_json::{Value, json};

use super::{Case, check, lines, machine, sandbox, set};

#[test]
fn names_and_devices() {
    let cases: &[Case] = &[
        (
            "/template/spec/volumes/-",
            json!({"name": "", "configMap": {"name": "x"}}),
            &["spec.template.spec.volumes[2].name: Required value"],
        ),
        (
            "/template/spec/volumes/-",
            json!({"name": "config", "configMap": {"name": "x"}}),
            &["spec.template.spec.volumes[2].name: Duplicate value: \"config\""],
        ),
        (
            "/template/spec/volumes/-",
            json!({"name": "a.b", "configMap": {"name": "x"}}),
            &[
                "spec.template.spec.volumes[2].name: Invalid value: \"a.b\": a lowercase RFC 1123 label must consist of lower \
                 case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                 or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.template.spec.volumes[2].name: Required value: the volume must be attached by a container or the virtual \
                 machine",
            ],
        ),
        (
            // Volume 0 has this device name by default, although volume 0 is not a disk.
            "/template/spec/volumes/1/disk/deviceName",
            json!("persistent-disk-0"),
            &[
                "spec.template.spec.volumes[1].disk.deviceName: Duplicate value: \"persistent-disk-0\"",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/deviceName",
            json!("persistent-disk-1"),
            &[],
        ),
        (
            "/template/spec/volumes/1/disk/deviceName",
            json!("persistent-disk-00"),
            &[],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn a_device_belongs_to_one_volume() {
    let disk = |name: &str, device: Option<&str>| {
        json!({"name": name, "disk": {"deviceName": device, "template": {"spec": {
            "populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}},
        }}}})
    };
    let volumes = json!([
        disk("config", Some("persistent-disk-1")),
        disk("data", None),
        disk("c", Some("x")),
        disk("d", Some("x")),
        disk("e", Some("persistent-disk-2")),
        disk("f", Some("persistent-disk-1")),
    ]);
    let mut workload = sandbox();
    set(&mut workload, "/template/spec/volumes", volumes);
    let attachments = ["config", "data", "c", "d", "e", "f"].map(|name| json!({"name": name}));
    let path = "/template/spec/runtime/sandbox/containers/0/volumeAttachments";
    set(&mut workload, path, attachments.to_vec().into());
    assert_eq!(
        lines(&workload),
        [
            "spec.template.spec.volumes[1].disk.deviceName: Duplicate value: \"persistent-disk-1\"",
            "spec.template.spec.volumes[3].disk.deviceName: Duplicate value: \"x\"",
            "spec.template.spec.volumes[5].disk.deviceName: Duplicate value: \"persistent-disk-1\"",
        ]
    );
}

#[test]
fn sources() {
    let cases: &[Case] = &[
        (
            "/template/spec/volumes/0/configMap",
            Value::Null,
            &["spec.template.spec.volumes[0]: Required value: must specify a volume source"],
        ),
        (
            "/template/spec/volumes/1/configMap",
            json!({"name": ""}),
            &[
                "spec.template.spec.volumes[1].configMap: Forbidden: may not specify more than one volume source",
            ],
        ),
        (
            "/template/spec/volumes/0/secret",
            json!({"secretName": ""}),
            &[
                "spec.template.spec.volumes[0].secret: Forbidden: may not specify more than one volume source",
            ],
        ),
        (
            "/template/spec/volumes/0/configMap",
            json!({"name": "", "defaultMode": 0o1000, "items": [{"key": "a", "path": "b"}]}),
            &[
                "spec.template.spec.volumes[0].configMap.name: Required value",
                "spec.template.spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be between 0 and 0777 (octal), \
                 inclusive",
                "spec.template.spec.volumes[0].configMap.items: Forbidden: every key becomes a file, under its own name",
            ],
        ),
        (
            "/template/spec/volumes/0",
            json!({"name": "config", "secret": {"defaultMode": -1, "items": [{"key": "a", "path": "b"}]}}),
            &[
                "spec.template.spec.volumes[0].secret.secretName: Required value",
                "spec.template.spec.volumes[0].secret.defaultMode: Invalid value: -1: must be between 0 and 0777 (octal), \
                 inclusive",
                "spec.template.spec.volumes[0].secret.items: Forbidden: every key becomes a file, under its own name",
            ],
        ),
        (
            "/template/spec/volumes/0",
            json!({"name": "config", "secret": {"secretName": "s", "defaultMode": 0o777, "items": []}}),
            &[],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn disks() {
    let spec = "/template/spec/volumes/1/disk/template/spec";
    let cases: &[Case] = &[
        (
            "/template/spec/volumes/1/disk/template/spec/type",
            json!("pd-fast"),
            &[
                "spec.template.spec.volumes[1].disk.template.spec.type: Unsupported value: \"pd-fast\": supported values: \
                 \"pd-standard\"",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template/spec/populator/filesystem/type",
            json!("xfs"),
            &[
                "spec.template.spec.volumes[1].disk.template.populator.filesystem.type: Unsupported value: \"xfs\": supported \
                 values: \"ext4\"",
            ],
        ),
        (
            spec,
            json!({
                "populator": {"image": {"name": "windows"}, "filesystem": {"type": "ext4"}},
            }),
            &[
                "spec.template.spec.volumes[1].disk.template.populator.image.name: Unsupported value: \"windows\": supported \
                 values: \"datumcloud/ubuntu-2204-lts\"",
                "spec.template.spec.volumes[1].disk.template.populator.filesystem: Forbidden: may not specify more than one \
                 populator",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template/spec/resources",
            Value::Null,
            &[
                "spec.template.spec.volumes[1].disk.template.spec.resources: Required value: a disk that is not populated by an \
                 image needs a size",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template/spec/resources",
            json!({}),
            &[
                "spec.template.spec.volumes[1].disk.template.spec.resources.requests: Required value",
            ],
        ),
        (
            "/template/spec/volumes/1/disk/template/spec/resources",
            json!({"requests": {"other": "1"}}),
            &[
                "spec.template.spec.volumes[1].disk.template.spec.resources.requests[storage]: Required value",
            ],
        ),
    ];
    check(sandbox, cases);
}

#[test]
fn sizes() {
    let invalid = |rule: &str| {
        let line = "spec.template.spec.volumes[1].disk.template.spec.resources.requests[storage]: Invalid value: ";
        &*Box::leak(format!("{line}{rule}").into_boxed_str())
    };
    let size = "/template/spec/volumes/1/disk/template/spec/resources/requests/storage";
    for (value, rules) in [
        (json!("0"), vec!["\"0\": must be greater than 0"]),
        (json!("-1Gi"), vec!["\"-1Gi\": must be greater than 0"]),
        (
            json!("1G"),
            vec![
                "\"1G\": must be greater than or equal to 10Gi",
                "\"1G\": must be a multiple of 1Gi",
            ],
        ),
        (
            json!("9Gi"),
            vec!["\"9Gi\": must be greater than or equal to 10Gi"],
        ),
        (
            json!("101Gi"),
            vec!["\"101Gi\": must be less than or equal to 100Gi"],
        ),
        (
            json!("10.5Gi"),
            vec!["\"10.5Gi\": must be a multiple of 1Gi"],
        ),
        (
            json!("many"),
            vec!["\"many\": must be a quantity, such as 10Gi"],
        ),
        (json!("100Gi"), vec![]),
        (json!(10_737_418_240_u64), vec![]),
    ] {
        let lines: Vec<&'static str> = rules.into_iter().map(invalid).collect();
        check(
            sandbox,
            &[(size, value, &*Box::leak(lines.into_boxed_slice()))],
        );
    }
}

#[test]
fn a_disk_is_large_enough_for_its_image() {
    let size = "/template/spec/volumes/0/disk/template/spec/resources";
    let request = |size: &str| json!({"requests": {"storage": size}});
    let cases: &[Case] = &[
        (
            size,
            request("24Gi"),
            &[
                "spec.template.spec.volumes[0].disk.template.spec.resources.requests[storage]: Invalid value: \"24Gi\": must be \
                 greater than or equal to 25Gi, the size of the image",
            ],
        ),
        (
            size,
            request("9Gi"),
            &[
                "spec.template.spec.volumes[0].disk.template.spec.resources.requests[storage]: Invalid value: \"9Gi\": must be \
                 greater than or equal to 10Gi",
            ],
        ),
        (size, request("25Gi"), &[]),
    ];
    check(machine, cases);
}
