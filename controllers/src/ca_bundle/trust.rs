//! What callers trust, whichever way they come.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::plan::Authorities;

/// What the callers by each registration trust, and what all of them do.
pub(super) struct Trust {
    /// `None` for a registration that has not been looked at.
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

    /// Takes what the callers by one registration trust.
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

/// What is in all of them.
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
