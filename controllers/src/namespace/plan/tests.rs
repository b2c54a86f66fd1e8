use super::*;

fn hub() -> HubNamespace {
    HubNamespace::new("ns-1").unwrap()
}

#[test]
fn only_an_empty_namespace_whose_project_namespace_is_proved_gone_is_deleted() {
    use UpstreamNamespace::{Absent, There, Unknown};
    let something = || Left::Something("ConfigMap mine".to_owned());
    let not_empty = || Plan::Keep(KeepReason::NotEmpty("ConfigMap mine".to_owned()));
    let in_use = || Plan::Keep(KeepReason::InUse);
    for (upstream, left, expected) in [
        (There, Left::Unknown, in_use()),
        (There, something(), in_use()),
        (There, Left::Nothing, in_use()),
        (Unknown, Left::Unknown, Plan::Prove),
        (Unknown, something(), Plan::Prove),
        (Unknown, Left::Nothing, Plan::Prove),
        (Absent(Proof::NotFound), Left::Unknown, Plan::Prove),
        (Absent(Proof::NotFound), something(), not_empty()),
        (
            Absent(Proof::NotFound),
            Left::Nothing,
            Plan::Delete(Proof::NotFound),
        ),
        (Absent(Proof::NoProject), Left::Unknown, Plan::Prove),
        (Absent(Proof::NoProject), something(), not_empty()),
        (
            Absent(Proof::NoProject),
            Left::Nothing,
            Plan::Delete(Proof::NoProject),
        ),
        (
            Absent(Proof::OtherUid("2".into())),
            Left::Nothing,
            Plan::Delete(Proof::OtherUid("2".into())),
        ),
    ] {
        let observed = Observed {
            namespace: &hub(),
            upstream,
            recorded: false,
            left,
            terminating: false,
        };
        assert_eq!(plan(&observed), expected, "{observed:?}");
    }
}

#[test]
fn needed_terminating_or_foreign_namespaces_stay() {
    let (ours, other) = (hub(), HubNamespace::new("tenant").unwrap());
    let gone = Observed {
        namespace: &ours,
        upstream: UpstreamNamespace::Absent(Proof::NotFound),
        recorded: false,
        left: Left::Nothing,
        terminating: false,
    };
    assert_eq!(plan(&gone), Plan::Delete(Proof::NotFound));
    for (observed, reason) in [
        (
            Observed {
                recorded: true,
                ..gone.clone()
            },
            KeepReason::InUse,
        ),
        (
            Observed {
                terminating: true,
                ..gone.clone()
            },
            KeepReason::Terminating,
        ),
        (
            Observed {
                namespace: &other,
                ..gone.clone()
            },
            KeepReason::NotOurs,
        ),
    ] {
        assert_eq!(plan(&observed), Plan::Keep(reason));
    }
}

#[test]
fn a_proof_is_needed_exactly_if_the_plan_cannot_decide_without_one() {
    let upstreams = [
        UpstreamNamespace::There,
        UpstreamNamespace::Unknown,
        UpstreamNamespace::Absent(Proof::NotFound),
        UpstreamNamespace::Absent(Proof::NoProject),
        UpstreamNamespace::Absent(Proof::OtherUid("2".into())),
    ];
    let lefts = [
        Left::Unknown,
        Left::Something("ConfigMap mine".to_owned()),
        Left::Nothing,
    ];
    let names = [hub(), HubNamespace::new("tenant").unwrap()];
    let flags = [false, true];
    let mut needed = 0;
    for (namespace, upstream) in names
        .iter()
        .flat_map(|it| upstreams.iter().map(move |u| (it, u)))
    {
        for (left, recorded) in lefts
            .iter()
            .flat_map(|it| flags.map(|recorded| (it, recorded)))
        {
            for terminating in flags {
                let observed = Observed {
                    namespace,
                    upstream: upstream.clone(),
                    recorded,
                    left: left.clone(),
                    terminating,
                };
                let is_needed = needs_proof(&observed);
                assert_eq!(is_needed, plan(&observed) == Plan::Prove, "{observed:?}");
                needed += usize::from(is_needed);
            }
        }
    }
    // Three cases have the upstream `Unknown`, with each value of `left`. Three cases have a proof, while `left` is
    // unknown.
    assert_eq!(needed, 3 + 3);
}
