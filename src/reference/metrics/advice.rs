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
    "`overloaded`, `too_large`, `too_slow`, `broken`, `malformed`",
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
    advice(
        "compute_federation_admission_requests_total",
        &[
            ("webhook", "`mutate`, `validate`"),
            ("outcome", "`allowed`, `denied`, `error`"),
        ],
        "Rate of `outcome=\"error\"` above 0: users are blocked by something that they cannot correct. The log names it.",
    ),
    advice(
        "compute_federation_admission_request_seconds",
        &[("webhook", "`mutate`, `validate`")],
        "p99 above 1: access reviews are slow.",
    ),
    advice(
        "compute_federation_admission_requests_refused_total",
        REFUSED,
        "`overloaded` or `too_large` above 0.",
    ),
    advice("compute_federation_admission_requests_in_flight", &[], ""),
    advice(
        "compute_federation_projects_not_ready",
        &[],
        "Above 0 for long: these projects are not used until their Project says `Ready`.",
    ),
    advice(
        "compute_federation_projects_suspended",
        &[],
        "No alarm. Writes that a suspended project refuses wait until it is reinstated.",
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
        "`failed` or `dropped` rising: events on Workloads and WorkloadDeployments are lost; the conditions say the same. An event is dropped when 1024 wait in its project or 16384 in all.",
    ),
    advice(
        "compute_federation_unidentified_namespaces",
        &[],
        "Above 0: a hub namespace holds a WorkloadDeployment or policy of this project, or one label `meta.datumapis.com/upstream-*`, and both labels together do not identify a project. The log names it.",
    ),
    advice(
        "compute_federation_quarantined_objects",
        &[(
            "reason",
            "see [Quarantine reasons](conditions.md#quarantine-reasons)",
        )],
        "Above 0: an Instance of the hub is not projected. The log names it.",
    ),
    advice(
        "compute_federation_shadowing_customizations",
        &[],
        "Above 0: Karmada runs a Lua customization for these kinds and does not call the webhook. The log names it. It is also 0 where customizations may not be listed.",
    ),
    advice(
        "compute_federation_webhooks_connections",
        &[],
        "Near `--max-connections`.",
    ),
    advice(
        "compute_federation_webhooks_tls_errors_total",
        &[(
            "reason",
            "`certificate_not_trusted`, `certificate_expired`, `no_certificate`, `incompatible`, `not_tls`, `protocol`, `alert`, `timeout`, `closed`",
        )],
        "`certificate_not_trusted` or `certificate_expired` above 0: each is a call that failed. Probes of the port also cause `closed` and `not_tls`.",
    ),
    advice(
        "compute_federation_certificate_not_after_seconds",
        &[],
        "Closer than the time a renewal takes: `< time() + 7 * 86400`.",
    ),
    advice(
        "compute_federation_certificate_valid",
        &[],
        "0 for some minutes: the files are broken, or nothing has replaced an expired certificate.",
    ),
    advice(
        "compute_federation_certificate_waits_for_trust",
        &[],
        "1 for longer than `--ca-bundle-delay` and some minutes: the right on the hub, or the leader, is missing.",
    ),
    advice("compute_federation_certificate_reloads_total", &[], ""),
    advice("compute_federation_certificate_reloaded_seconds", &[], ""),
    advice("compute_federation_certificate_failures_total", &[], ""),
    advice(
        "compute_federation_queue_keys",
        CONTROLLER,
        "Growing while the number of objects stays: keys of deleted objects are kept.",
    ),
    advice(
        "compute_federation_queue_depth",
        CONTROLLER,
        "Above 0 for minutes while `queue_groups_in_trouble` is 0: keys wait for a worker.",
    ),
    advice(
        "compute_federation_queue_groups_in_trouble",
        &[
            ("controller", ""),
            ("trouble", "`unreachable`, `suspended`, `busy`"),
        ],
        "`unreachable` above 0 for some minutes: so many projects' API servers do not answer; if it is all of them, the hub does not. See [Trouble of a queue](#trouble-of-a-queue).",
    ),
    advice(
        "compute_federation_reconciles_total",
        &[
            ("controller", ""),
            ("result", "`settled`, `again`, `gone`, `error`"),
        ],
        "Most are `error` for minutes; the log gives the reason from the second time on. Single errors are usual: another program has written at the same time.",
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
        "1 on more than one replica, or on none for longer than the lease lasts.",
    ),
    advice(
        "compute_federation_undecodable_objects",
        &[("plane", ""), ("kind", "")],
        "Above 0: such an object is skipped, and everything that depends on it waits. The log names it.",
    ),
    advice(
        "compute_federation_writes_total",
        WRITE,
        "A controller's rate rises while nothing changes: another program writes the same fields. For `ca-bundle`: more than two for each new authority.",
    ),
    advice("process_resident_memory_bytes", &[], ""),
    advice("process_cpu_seconds_total", &[], ""),
    advice("process_open_fds", &[], ""),
    advice("process_tasks", &[], ""),
];
