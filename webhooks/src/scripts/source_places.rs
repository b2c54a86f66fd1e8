//! The places of each source address on the threads of scripts. Only requests that run a script use them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A source address, and a kind. Without a kind, the scripts of all kinds count.
type Key = (IpAddr, Option<Kind>);
type Kind = (String, String);

/// The places of the source addresses whose scripts run or wait. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SourcePlaces(Arc<Mutex<HashMap<Key, Arc<Semaphore>>>>);

/// A place that a script holds.
pub(super) struct SourcePlace {
    /// Dropped before the reference, which forgets the place after its last use.
    _permit: OwnedSemaphorePermit,
    _reference: Reference,
}

/// Keeps a place known while a script uses it or waits for it.
struct Reference {
    places: SourcePlaces,
    key: Key,
    place: Option<Arc<Semaphore>>,
}

impl SourcePlaces {
    /// Waits for a place. `max` is the number of scripts of the source address and the kind that run at the same time.
    pub(super) async fn take(
        &self,
        source: IpAddr,
        kind: Option<&Kind>,
        max: usize,
    ) -> Result<SourcePlace, AcquireError> {
        let key = (source, kind.cloned());
        let place = {
            let mut places = self.lock();
            let place = places.entry(key.clone());
            Arc::clone(place.or_insert_with(|| Arc::new(Semaphore::new(max))))
        };
        let reference = Reference {
            places: self.clone(),
            key,
            place: Some(Arc::clone(&place)),
        };
        Ok(SourcePlace {
            _permit: place.acquire_owned().await?,
            _reference: reference,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        // The permit and the wait of this use have ended, so the last one sees no other reference.
        self.place = None;
        if let Entry::Occupied(entry) = places.entry(self.key.clone())
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }
}
