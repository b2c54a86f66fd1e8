//! Concurrency limits of a work queue.

/// How many reconciliations of one controller may run at a time, and how much they may write.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of concurrent reconciliations of all tenants together. A reconciliation that has run for a second
    /// no longer counts.
    pub concurrency: usize,
    /// Maximum number of reconciliations that have run for a second and do not count towards `concurrency`.
    pub stalled: usize,
    /// Maximum number of concurrent reconciliations of one tenant.
    pub per_tenant: usize,
    /// Maximum number of concurrent reconciliations of all tenants whose API servers are unreachable. A reconciliation
    /// that has run for a second no longer counts.
    pub probing: usize,
    /// Number of reconciliations of one tenant that may write per second, on average.
    pub writing_per_second: u32,
    /// Number of reconciliations of one tenant that may write in a burst, after a time without writes.
    pub writing_at_once: u32,
}

impl Limits {
    /// The limits of most controllers.
    ///
    /// A reconciliation mostly waits for answers, so 64 reconciliations are a small load for this process. Four at a
    /// time are a small load for one API server. If an API server hangs, at most four reconciliations wait for it. They
    /// occupy four of the 64 for one second only, so 128 API servers can begin to hang together without delaying the
    /// others for longer. A reconciliation that waits holds some 10 KiB, so 512 of them hold a few MiB. As soon as the
    /// queue has detected an outage, one reconciliation at a time waits for this API server, and at most 8 of these
    /// reconciliations begin per second.
    ///
    /// Reconciliations that write cost the most processor time, both in this process and in the API server. The write
    /// limits ensure that a tenant with thousands of writes does not delay all others.
    pub const DEFAULT: Self = Self {
        concurrency: 64,
        stalled: 512,
        per_tenant: 4,
        probing: 8,
        writing_per_second: 200,
        writing_at_once: 500,
    };
}
