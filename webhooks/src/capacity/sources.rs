//! The bytes that the requests of each source address hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::pool::Pool;

/// The bytes that the requests of one source address hold, and its places in the queues.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) small: Pool,
    pub(super) large: Pool,
    /// One permit: the place of the source address among the requests that wait for the part `decoding`.
    pub(super) decoding: Semaphore,
    /// One permit: the place of the source address among the requests that wait for a CPU.
    pub(super) worker: Semaphore,
}

/// The source addresses with requests in flight.
#[derive(Debug)]
pub(super) struct Sources {
    /// Bytes of the part `small`, and of the part `large`.
    part: usize,
    by_address: Mutex<HashMap<IpAddr, Arc<Source>>>,
}

impl Sources {
    pub(super) fn new(part: usize) -> Self {
        Self {
            part,
            by_address: Mutex::default(),
        }
    }

    pub(super) fn get(&self, address: IpAddr) -> Arc<Source> {
        let mut sources = self.lock();
        let new = || {
            Arc::new(Source {
                small: Pool::new(self.part),
                large: Pool::new(self.part),
                decoding: Semaphore::new(1),
                worker: Semaphore::new(1),
            })
        };
        Arc::clone(sources.entry(address).or_insert_with(new))
    }

    /// Forgets a source address after its last request.
    pub(super) fn release(&self, address: IpAddr, source: Arc<Source>) {
        let mut sources = self.lock();
        // References are made and dropped only under the lock, so exactly one release sees the last one.
        drop(source);
        if let Entry::Occupied(entry) = sources.entry(address)
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Arc<Source>>> {
        self.by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}
