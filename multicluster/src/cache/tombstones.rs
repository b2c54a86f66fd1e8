//! Objects that were deleted recently.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Time for which a deletion is remembered. It must be longer than the 30 s for which a write waits for its answer.
const MEMORY: Duration = Duration::from_mins(2);

/// UIDs of objects that were deleted recently. The answer to a write may arrive after the watch reported the deletion
/// of the object. In this case the answer must not add the object to the cache again.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    uids: HashSet<Arc<str>>,
    oldest_first: VecDeque<(Instant, Arc<str>)>,
}

impl Tombstones {
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    pub(super) fn add(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if self.uids.insert(Arc::clone(&uid)) {
            self.oldest_first.push_back((Instant::now(), uid));
        }
        self.forget_oldest();
    }

    /// Removes a UID, because the object exists after all.
    pub(super) fn take_back(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.oldest_first.retain(|(_, gone)| **gone != *uid);
        }
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        let now = Instant::now();
        while let Some((since, uid)) = self.oldest_first.front()
            && now.duration_since(*since) > MEMORY
        {
            self.uids.remove(uid);
            self.oldest_first.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_remembered_until_no_answer_can_arrive_any_more() {
        let mut gone = Tombstones::default();
        for n in 0..10_000 {
            gone.add(&n.to_string());
        }
        gone.take_back("3");
        assert!(gone.contains("0") && gone.contains("9999") && !gone.contains("3"));
        tokio::time::advance(MEMORY).await;
        gone.add("3");
        assert!(gone.contains("0"));
        tokio::time::advance(Duration::from_millis(1)).await;
        gone.take_back("another");
        assert_eq!((gone.uids.len(), gone.oldest_first.len()), (1, 1));
        assert!(gone.contains("3"));
    }
}
