use serde_json::{Value, json};

use super::{check, lines, machine, set};

const ANNOTATION: &str = "/template/metadata/annotations/compute.datumapis.com~1ssh-keys";
/// Keys from `ssh-keygen`, and other entries of `authorized_keys`. The rule accepts entries with `ok`, and refuses
/// entries with `no`.
const ENTRIES: &str = include_str!("authorized_keys");

#[test]
fn ssh_keys() {
    check(
        machine,
        &[
            (
                ANNOTATION,
                Value::Null,
                &[
                    "spec.template.annotations[compute.datumapis.com/ssh-keys]: Required value: a virtual machine needs SSH keys, one user:key per line",
                ],
            ),
            (
                ANNOTATION,
                json!("\n nonsense\n:ssh-ed25519 x\nme:\n"),
                &[
                    "spec.template.annotations[compute.datumapis.com/ssh-keys][0]: Invalid value: \"nonsense\": must be \
                     user:key",
                    "spec.template.annotations[compute.datumapis.com/ssh-keys][1]: Required value: the user before the \
                     colon",
                    "spec.template.annotations[compute.datumapis.com/ssh-keys][1]: Invalid value: \"ssh-ed25519 x\": must \
                     be a public key of OpenSSH: type, key, comment",
                    "spec.template.annotations[compute.datumapis.com/ssh-keys][2]: Invalid value: \"\": must be a public \
                     key of OpenSSH: type, key, comment",
                ],
            ),
        ],
    );
}

#[test]
fn the_number_of_ssh_keys_is_limited() {
    let key = ENTRIES.lines().next().and_then(|line| line.get(3..));
    let keys =
        |count: usize| json!(vec![format!("me:{}", key.unwrap_or_default()); count].join("\n"));
    let mut workload = machine();
    set(&mut workload, ANNOTATION, keys(1000));
    assert!(lines(&workload).is_empty());
    set(&mut workload, ANNOTATION, keys(1001));
    let expected = "spec.template.annotations[compute.datumapis.com/ssh-keys]: Too many: must have at most 1000 lines";
    assert_eq!(lines(&workload), [expected]);
}

#[test]
fn every_key_of_openssh_is_accepted_and_nothing_else() {
    for (number, line) in ENTRIES.lines().enumerate() {
        let (expected, entry) = line.split_at(3);
        let mut workload = machine();
        set(&mut workload, ANNOTATION, json!(format!("me:{entry}")));
        let errors = lines(&workload);
        assert_eq!(
            errors.is_empty(),
            expected == "ok ",
            "line {}: {errors:?}",
            number + 1
        );
    }
}
