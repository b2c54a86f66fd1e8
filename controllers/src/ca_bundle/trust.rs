//! Computes which authorities all callers trust, for every registration.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::plan::Authorities;

/// The authorities that the callers of each registration trust, and their intersection.
pub(super) struct Trust {
    /// `None` for a registration that was not observed yet.
    by: Mutex<Vec<Option<Authorities>>>,
    all: watch::Sender<Authorities>,
}

impl Trust {
    pub(super) fn new(registrations: usize, all: watch::Sender<Authorities>) -> Self {
        Self {
            by: Mutex::new(vec![None; registrations]),
            all,
        }
    }

    /// Sets the authorities that the callers of one registration trust.
    pub(super) fn tell(&self, registration: usize, trusted: Authorities) {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by.get_mut(registration) {
            *known = Some(trusted);
        }
        let all = common(&by);
        self.all.send_if_modified(|known| {
            let changed = *known != all;
            *known = all;
            changed
        });
    }
}

/// Returns the authorities that are in all sets.
fn common(by: &[Option<Authorities>]) -> Authorities {
    let mut sets = by.iter();
    let Some(Some(first)) = sets.next() else {
        return Authorities::new();
    };
    let mut common = first.clone();
    for set in sets {
        common.retain(|authority| set.as_ref().is_some_and(|set| set.contains(authority)));
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_all_trust_is_trusted() {
        let (tell, all) = watch::channel(Authorities::new());
        let trust = Trust::new(2, tell);
        let set = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        trust.tell(0, set(&["a", "b"]));
        assert_eq!(*all.borrow(), set(&[]), "one has not been looked at");
        trust.tell(1, set(&["b", "c"]));
        assert_eq!(*all.borrow(), set(&["b"]));
        trust.tell(0, set(&["b", "c"]));
        assert_eq!(*all.borrow(), set(&["b", "c"]));
    }
}
