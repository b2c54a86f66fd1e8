//! Concurrency limits of a work queue.

/// How many reconciliations of one controller may run at a time, and how much they may write.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Reconciliations of all tenants together.
    pub concurrency: usize,
    /// Reconciliations of one tenant.
    pub per_tenant: usize,
    /// Reconciliations of all tenants whose API servers are unreachable.
    pub probing: usize,
    /// Reconciliations of one tenant that may write in a second, in the long run.
    pub writing_per_second: u32,
    /// Reconciliations of one tenant that may write in a burst, after a time without writes.
    pub writing_at_once: u32,
}

impl Limits {
    /// The limits of most controllers.
    ///
    /// A reconciliation mostly waits for answers, so 64 of them are a small load for this process. Four at a time are a small
    /// load for one API server. If that API server hangs, they hold a small part of the 64. All unreachable API servers
    /// together hold an eighth of the 64 once the queue knows of the outage.
    ///
    /// Reconciliations that write cost the most processor time, here and in the API server. The write limits keep a tenant
    /// with thousands of writes from delaying all others.
    pub const DEFAULT: Self = Self {
        concurrency: 64,
        per_tenant: 4,
        probing: 8,
        writing_per_second: 200,
        writing_at_once: 500,
    };
}
