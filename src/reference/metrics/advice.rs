//! The values of each metric's labels, and the alert condition of each metric that needs an alarm.

/// The information for operators about a metric, in addition to its help text.
pub(super) struct Advice {
    /// Name of the metric's samples.
    pub(super) metric: &'static str,
    /// The labels in order. Each label has its values if there are only a few.
    pub(super) labels: &'static [(&'static str, &'static str)],
    /// The alert condition and its meaning. The text is empty if there is no alert.
    pub(super) alarm: &'static str,
}

const fn advice(
    metric: &'static str,
    labels: &'static [(&'static str, &'static str)],
    alarm: &'static str,
) -> Advice {
    Advice {
        metric,
        labels,
        alarm,
    }
}

const REFUSED: &[(&str, &str)] = &[(
    "reason",
    "`overloaded`, `too_many_reviews`, `too_large`, `too_slow`, `broken`, `malformed`",
)];
const CONTROLLER: &[(&str, &str)] = &[("controller", "")];
const WRITE: &[(&str, &str)] = &[("controller", ""), ("verb", ""), ("kind", "")];

/// One entry per metric.
pub(super) const ADVICE: &[Advice] = &[
    advice(
        "compute_federation_interpreter_requests_total",
        &[
            ("operation", ""),
            ("kind", ""),
            ("outcome", "`success`, `failure`"),
        ],
        "Rate of `outcome=\"failure\"` above 0: an object cannot be interpreted. The log names it.",
    ),
    advice(
        "compute_federation_interpreter_request_seconds",
        &[("operation", ""), ("kind", "")],
        "p99 above 0.1. Microseconds are usual.",
    ),
    advice(
        "compute_federation_interpreter_requests_refused_total",
        REFUSED,
        "`overloaded` or `too_large` above 0: Karmada does not get the answers that it needs.",
    ),
    advice("compute_federation_interpreter_requests_in_flight", &[], ""),
    advice("compute_federation_interpreter_customizations", &[], ""),
    advice(
        "compute_federation_interpreter_customizations_refused",
        &[],
        "1: a file in the directory of the customizations is wrong, and former scripts are served. The log names the file. See [Serve Lua customizations](../operate/serve-lua-customizations.md#errors).",
    ),
    advice(
        "compute_federation_admission_requests_total",
        &[
            ("webhook", "`mutate`, `validate`, `validate_deployment`"),
            ("outcome", "`allowed`, `denied`, `error`"),
        ],
        "Rate of `outcome=\"error\"` above 0: users are blocked by something that they cannot correct. The log names it.",
    ),
    advice(
        "compute_federation_admission_request_seconds",
        &[("webhook", "`mutate`, `validate`, `validate_deployment`")],
        "p99 above 1: access reviews are slow.",
    ),
    advice(
        "compute_federation_admission_requests_refused_total",
        REFUSED,
        "`overloaded` or `too_large` above 0. `too_many_reviews`: one user or one project sends more than its share.",
    ),
    advice("compute_federation_admission_requests_in_flight", &[], ""),
    advice(
        "compute_federation_projects_not_ready",
        &[],
        "Above 0 for a long time: these projects are not used until they are ready.",
    ),
    advice(
        "compute_federation_projects_suspended",
        &[],
        "No alarm. Writes that a suspended project refuses wait until its suspension ends.",
    ),
    advice(
        "compute_federation_project_kubeconfigs_refused",
        &[],
        "Above 0 for some minutes: a [kubeconfig of a project](../operate/project-kubeconfigs.md) cannot be used. The former one stays in use until the next restart, if there was one. Then the project is not served. If it leads to the API server of another project, both are not served after a restart. The log names the file.",
    ),
    advice("compute_federation_projects_engaged", &[], ""),
    advice(
        "compute_federation_projects_failing",
        &[],
        "Above 0 for some minutes: a kind cannot be listed there. `compute_federation_projects_failing_kinds` names the kind, and the log names the project.",
    ),
    advice(
        "compute_federation_projects_failing_kinds",
        &[("kind", "the kind")],
        "Above 0 for some minutes: work that needs this kind waits in these projects. Other work continues.",
    ),
    advice(
        "compute_federation_events_total",
        &[("outcome", "`published`, `failed`, `dropped`")],
        "`failed` or `dropped` rises: events on Workloads and WorkloadDeployments are lost. The conditions contain the same information. An event is dropped when 1024 events wait in its project, or 16384 in all.",
    ),
    advice(
        "compute_federation_unidentified_namespaces",
        &[],
        "Above 0: a hub namespace contains a WorkloadDeployment or a policy of compute-federation, or has one of the labels `meta.datumapis.com/upstream-*`, but its labels do not identify a project. The log names the namespace.",
    ),
    advice(
        "compute_federation_hub_contradictions",
        &[],
        "Above 0: WorkloadDeployments may have been written to another hub than the one in use, or the process of a lower hub has another upper or lower hub than before. For them, nothing is written or deleted on the hub. See [The hub is another one](../operate/troubleshoot.md#the-hub-is-another-one).",
    ),
    advice(
        "compute_federation_quarantined_objects",
        &[(
            "reason",
            "see [Quarantine reasons](conditions.md#quarantine-reasons)",
        )],
        "Above 0: an Instance of the hub is not projected. The log names the Instance.",
    ),
    advice(
        "compute_federation_shadowing_customizations",
        &[],
        "Above 0: Karmada runs a Lua customization for these kinds and does not call the webhook. The log names the customization. The metric is also 0 if the process may not list customizations.",
    ),
    advice(
        "compute_federation_silent_lower_hubs",
        &[],
        "Above 0: cells below lower hubs that die are not shown. `kubectl get lowerhubs` on the hub names the lower hubs; for the process of a lower hub, this is the lower hub.",
    ),
    advice("compute_federation_webhooks_connections", &[], ""),
    advice(
        "compute_federation_webhooks_connections_shed_total",
        &[("reason", "`idle`, `refused`")],
        "`refused` above 0: a limit is reached, no connection under this limit is idle, and calls fail. `idle` above 0 for minutes: clients need more connections than a limit allows. See [Connections](limits.md#connections).",
    ),
    advice(
        "compute_federation_webhooks_tls_errors_total",
        &[(
            "reason",
            "`certificate_not_trusted`, `certificate_expired`, `no_certificate`, `incompatible`, `not_tls`, `protocol`, `alert`, `timeout`, `displaced`, `closed`",
        )],
        "`certificate_not_trusted` or `certificate_expired` above 0: each error is a failed call. Port probes also cause `closed` and `not_tls`.",
    ),
    advice(
        "compute_federation_admission_clients_refused_total",
        &[("reason", "`no_certificate`, `wrong_name`")],
        "Above 0: something that is not an API server calls admission, or an API server presents no certificate.",
    ),
    advice(
        "compute_federation_certificate_not_after_seconds",
        &[],
        "Less than 7 days and less than 15 % of its validity period in the future: nothing has renewed the certificate or its authority.",
    ),
    advice("compute_federation_certificate_not_before_seconds", &[], ""),
    advice(
        "compute_federation_certificate_valid",
        &[],
        "0 for some minutes: the files are missing or broken, or nothing has replaced an expired certificate.",
    ),
    advice(
        "compute_federation_certificate_waits_for_trust",
        &[],
        "1 for some minutes longer than `--ca-bundle-delay`: the process may not patch a registration, or there is no leader.",
    ),
    advice("compute_federation_certificate_reloads_total", &[], ""),
    advice("compute_federation_certificate_reloaded_seconds", &[], ""),
    advice("compute_federation_certificate_failures_total", &[], ""),
    advice(
        "compute_federation_certificate_problem",
        &[
            ("server", "`webhooks`, `metrics`"),
            (
                "reason",
                "`missing`, `unreadable`, `broken`, `mismatch`, `expired`, `not_yet_valid`, `untrusted`, `wrong_names`",
            ),
        ],
        "1 for some minutes: the server still uses its former certificate, or has none. The log names the file.",
    ),
    advice(
        "compute_federation_log_lines_dropped_total",
        &[],
        "Above 0: the log has gaps. The container runtime does not read stderr fast enough.",
    ),
    advice(
        "compute_federation_queue_keys",
        CONTROLLER,
        "Growing while the number of objects stays: keys of deleted objects are kept.",
    ),
    advice(
        "compute_federation_queue_depth",
        CONTROLLER,
        "On the leader, above 0 for minutes while `queue_groups_in_trouble` is 0: keys wait for a worker. A standby keeps no keys.",
    ),
    advice(
        "compute_federation_queue_groups_in_trouble",
        &[
            ("controller", ""),
            ("trouble", "`unreachable`, `suspended`, `busy`"),
        ],
        "`unreachable` above 0 for some minutes: the API servers of this many projects do not answer. If no project's API server answers, the hub is more likely the cause. See [Trouble of a queue](#trouble-of-a-queue).",
    ),
    advice(
        "compute_federation_reconciles_total",
        &[
            ("controller", ""),
            ("result", "`settled`, `again`, `gone`, `error`"),
        ],
        "Most are `error` for minutes. The log gives the reason from the second failure of a key. Single errors are usual: another program has written at the same time.",
    ),
    advice("compute_federation_reconcile_seconds", CONTROLLER, ""),
    advice(
        "compute_federation_propagation_seconds",
        WRITE,
        "p99 above 1.",
    ),
    advice(
        "compute_federation_leader",
        &[],
        "1 on more than one replica. Or 0 on all replicas for longer than the duration of the lease, 15 s.",
    ),
    advice(
        "compute_federation_controllers_waiting",
        &[],
        "1 for some minutes: the leader writes nothing, because it cannot list or watch a kind of the hub or of the cell. The log names the kind.",
    ),
    advice(
        "compute_federation_cached_objects",
        &[("plane", ""), ("kind", "")],
        "",
    ),
    advice(
        "compute_federation_undecodable_objects",
        &[("plane", ""), ("kind", "")],
        "Above 0: an object cannot be decoded and is skipped. Objects that depend on it wait. The log names the object.",
    ),
    advice(
        "compute_federation_writes_total",
        WRITE,
        "The rate of a controller rises while nothing changes: another program writes the same fields. For `ca-bundle`: more than two writes to one registration for each new authority.",
    ),
    advice("process_resident_memory_bytes", &[], ""),
    advice("process_cpu_seconds_total", &[], ""),
    advice("process_open_fds", &[], ""),
    advice("process_tasks", &[], ""),
    advice("compute_quota_enforcement_enabled", &[], ""),
    advice("compute_quota_claims_waiting_seconds", &[], ""),
    advice("compute_networks_waiting_seconds", &[], ""),
];
