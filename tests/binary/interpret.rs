//! Tests of `compute-federation interpret` with files.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::{WITHIN, command, write};

/// Runs the command. Returns its exit code, its output and its errors.
async fn interpret(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command();
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    let output = command.arg("interpret").args(args).output();
    let output = timeout(WITHIN, output).await.expect("the process goes on");
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Returns the output of a command that succeeds.
async fn printed(args: &[&str]) -> String {
    let (code, output, errors) = interpret(args).await;
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{args:?}");
    output
}

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "ns-1", "generation": 1},
        "spec": {
            "cityCode": "DFW", "placementName": "us", "workloadRef": {"name": "web", "uid": "u"},
            "scaleSettings": {"minReplicas": replicas},
            "template": {"spec": {"networkInterfaces": [], "runtime": {"resources": {
                "instanceType": "datumcloud/d1-standard-2",
            }}}},
        },
    })
}

#[tokio::test]
async fn a_value_is_printed_as_yaml_or_json() {
    let directory = TempDir::new().unwrap();
    let file = write(&directory, "web.json", &deployment(3).to_string());
    let text = printed(&["InterpretReplica", "-f", &file]).await;
    assert!(text.ends_with("replicas: 3\n"), "{text}");
    let text = printed(&["interpretreplica", "--desired-file", &file, "-ojson"]).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["operation"], "InterpretReplica");
    assert_eq!(answer["replicas"], 3);
}

#[tokio::test]
async fn a_patch_is_printed_as_differences() {
    let directory = TempDir::new().unwrap();
    let file = write(&directory, "web.json", &deployment(3).to_string());
    let revise = ["ReviseReplica", "-f", &file, "--replicas", "1"];
    let text = printed(&revise).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.contains(&"-    minReplicas: 3"), "{text}");
    assert!(lines.contains(&"+    minReplicas: 1"), "{text}");
    let coloured = printed(&[&revise[..], &["--color", "always"]].concat()).await;
    assert!(
        coloured.contains("\u{1b}[31m-    minReplicas: 3"),
        "{coloured}"
    );
    let json = printed(&[&revise[..], &["-o", "json"]].concat()).await;
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["object"]["spec"]["scaleSettings"]["minReplicas"], 1);
    assert_ne!(answer["patch"], json!([]));
    // A binding without assigned replicas.
    let same = printed(&["ReviseReplica", "-f", &file, "--replicas", "0"]).await;
    assert_eq!(same, "ReviseReplica changes nothing\n");
}

#[tokio::test]
async fn a_customization_answers_instead_of_the_native_interpreter() {
    let directory = TempDir::new().unwrap();
    let file = write(&directory, "web.json", &deployment(3).to_string());
    let customization = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "deployments"},
        "spec": {
            "target": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment"},
            "customizations": {
                "replicaResource": {"luaScript": "function GetReplicas(obj) return obj.spec.scaleSettings.minReplicas + 4 end"},
                // Errors are slow, so the time ends before the instructions.
                "retention": {"luaScript": "function Retain() while true do pcall(string.rep) end end"},
                "healthInterpretation": {"luaScript": "function InterpretHealth(obj)\n return obj.status.cells.a end"},
            },
        },
    });
    let customization = write(&directory, "customization.json", &customization.to_string());
    let with = ["-f", &file, "--customization", &customization];
    let text = printed(&[&["InterpretReplica"], &with[..]].concat()).await;
    assert_eq!(text, "replicas: 7\n");
    let wrong = write(&directory, "wrong.json", "kind: Pod");
    let health = "healthInterpretation.luaScript: line 2: attempt to index field 'status'";
    for (args, expected, problem) in [
        ([&["InterpretHealth"], &with[..]].concat(), 1, health),
        (
            [&["Retain", "--observed", &file], &with[..]].concat(),
            1,
            "retention.luaScript: exceeds the time limit of the call",
        ),
        (
            [&["InterpretStatus"], &with[..]].concat(),
            1,
            "has no script for InterpretStatus",
        ),
        (
            vec!["InterpretReplica", "-f", &file, "--customization", &wrong],
            2,
            "kind is Pod",
        ),
    ] {
        let (code, output, errors) = interpret(&args).await;
        assert_eq!((code, output.as_str()), (Some(expected), ""), "{errors}");
        assert!(errors.contains(problem), "{args:?}: {errors}");
    }
}

#[tokio::test]
async fn an_object_is_read_from_the_standard_input() {
    let mut command = command();
    command.args(["interpret", "InterpretReplica", "-f", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let object = deployment(2).to_string();
    stdin.write_all(object.as_bytes()).await.unwrap();
    drop(stdin);
    let output = timeout(WITHIN, child.wait_with_output()).await;
    let output = output.expect("the process goes on").unwrap().stdout;
    assert!(
        String::from_utf8(output)
            .unwrap()
            .ends_with("replicas: 2\n")
    );
}

#[tokio::test]
async fn the_statuses_of_cells_are_joined() {
    let directory = TempDir::new().unwrap();
    let file = write(&directory, "web.json", &deployment(1).to_string());
    let item = |cell: &str| {
        json!({"clusterName": cell, "applied": true, "status": {
            "replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1,
            "resourceTemplateGeneration": 1, "generation": 1, "observedGeneration": 1,
        }})
    };
    let items = format!("{}\n---\n{}\n", item("dfw1"), item("dfw2"));
    let status = write(&directory, "status.yaml", &items);
    let args = [
        "AggregateStatus",
        "-f",
        &file,
        "--status",
        &status,
        "-o",
        "json",
    ];
    let answer: Value = serde_json::from_str(&printed(&args).await).unwrap();
    assert_eq!(answer["object"]["status"]["replicas"], 2, "{answer}");
}

#[tokio::test]
async fn what_is_kept_comes_from_the_object_of_the_cell() {
    let directory = TempDir::new().unwrap();
    let desired = write(&directory, "desired.json", &deployment(1).to_string());
    let mut in_cell = deployment(1);
    in_cell["spec"]["replicas"] = json!(5);
    let without = write(&directory, "without.json", &in_cell.to_string());
    in_cell["metadata"]["managedFields"] = json!([]);
    let observed = write(&directory, "observed.json", &in_cell.to_string());
    let (code, _, errors) = interpret(&["Retain", "-f", &desired, "--observed", &without]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("--show-managed-fields"), "{errors}");
    in_cell["metadata"]["name"] = json!("other");
    let other = write(&directory, "other.json", &in_cell.to_string());
    let (code, _, errors) = interpret(&["Retain", "-f", &desired, "--observed", &other]).await;
    assert_eq!(code, Some(2));
    assert!(
        errors.contains(r#"metadata.name is "web" in the desired"#),
        "{errors}"
    );
    let text = printed(&["Retain", "-f", &desired, "--observed", &observed]).await;
    assert!(text.lines().any(|line| line == "+  replicas: 5"), "{text}");
}

/// Exit code 1: the interpreter refuses the object. Exit code 2: there is no answer.
#[tokio::test]
async fn the_exit_code_says_who_refuses() {
    let directory = TempDir::new().unwrap();
    let mut wrong = deployment(1);
    wrong["spec"]["scaleSettings"]["minReplicas"] = json!("three");
    let wrong = write(&directory, "wrong.json", &wrong.to_string());
    let of_other_kind =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let of_other_kind = write(&directory, "other.json", &of_other_kind.to_string());
    let not_yaml = write(&directory, "broken.yaml", "a: [");
    for (args, expected, problem) in [
        (vec!["InterpretReplica", "-f", &wrong], 1, "minReplicas"),
        (
            vec!["InterpretReplica", "-f", &of_other_kind],
            1,
            "apps/v1 Deployment is not interpreted here",
        ),
        (vec!["InterpretReplica", "-f", &not_yaml], 2, "broken.yaml"),
        (
            vec!["InterpretReplica", "-f", "absent.yaml"],
            2,
            "absent.yaml",
        ),
        (vec!["ReviseReplica", "-f", &wrong], 2, "--replicas"),
        (
            vec!["ReviseReplica", "-f", &wrong, "--replicas", "-1"],
            2,
            "-1 is not in 0..",
        ),
        (
            vec!["InterpretReplica", "--no-such-flag"],
            2,
            "--no-such-flag",
        ),
        (
            vec![
                "InterpretReplica",
                "workloaddeployment/ns-1/web",
                "--federation-kubeconfig=absent",
            ],
            2,
            "--federation-kubeconfig",
        ),
    ] {
        let (code, output, errors) = interpret(&args).await;
        assert_eq!(
            (code, output.as_str()),
            (Some(expected), ""),
            "{args:?}: {errors}"
        );
        assert!(errors.contains(problem), "{args:?}: {errors}");
        assert!(errors.starts_with("error: "), "{errors}");
    }
}
