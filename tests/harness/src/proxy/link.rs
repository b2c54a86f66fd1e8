//! The connection between clients and an API server. A test can cut one direction of the connection, or both.

use std::sync::Arc;

use tokio::sync::watch;

/// The direction that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests do not reach the API server. Events of watches still arrive.
    Requests,
    /// Requests reach the API server. No answer and no watch event comes back.
    Answers,
    /// Neither requests nor answers arrive.
    Both,
}

#[derive(Clone, Copy, Debug, Default)]
struct LinkState {
    cut: Option<Direction>,
    /// Number of requests or answers that were lost in this cut.
    lost: usize,
}

/// Lets requests and answers pass, or drops them.
#[derive(Debug, Default)]
pub(super) struct Link(watch::Sender<LinkState>);

impl Link {
    /// Returns `Some` immediately if this direction is not cut. Otherwise waits until the cut has ended, and returns
    /// `None`.
    pub(super) async fn pass(&self, direction: Direction) -> Option<()> {
        let is_cut = |state: &LinkState| {
            state
                .cut
                .is_some_and(|cut| [direction, Direction::Both].contains(&cut))
        };
        let lost = self.0.send_if_modified(|state| {
            let lost = is_cut(state);
            state.lost += usize::from(lost);
            lost
        });
        if !lost {
            return Some(());
        }
        // An error means that the proxy has ended and cannot answer.
        let _ = self
            .0
            .subscribe()
            .wait_for(|state| state.cut.is_none())
            .await;
        None
    }

    pub(super) fn cut(self: &Arc<Self>, direction: Direction) -> LinkCut {
        self.0.send_replace(LinkState {
            cut: Some(direction),
            lost: 0,
        });
        LinkCut(Arc::clone(self))
    }
}

/// A cut of the connection. The cut ends when this value is dropped.
#[derive(Debug)]
pub struct LinkCut(Arc<Link>);

impl LinkCut {
    /// Waits until this number of requests or answers has been lost.
    pub async fn lost(&self, count: usize) {
        // The sender cannot end before this value is dropped.
        let _ = self
            .0
            .0
            .subscribe()
            .wait_for(|state| state.lost >= count)
            .await;
    }
}

impl Drop for LinkCut {
    fn drop(&mut self) {
        self.0.0.send_replace(LinkState::default());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_cut_of_both_directions_loses_requests_and_answers() {
        let link = Arc::new(Link::default());
        let cut = link.cut(Direction::Both);
        for direction in [Direction::Requests, Direction::Answers] {
            assert!(poll!(pin!(link.pass(direction))).is_pending());
        }
        cut.lost(2).await;
    }

    #[tokio::test]
    async fn requests_and_answers_lost_in_a_cut_never_arrive() {
        let link = Arc::new(Link::default());
        assert_eq!(link.pass(Direction::Answers).await, Some(()));
        let cut = link.cut(Direction::Answers);
        assert_eq!(link.pass(Direction::Requests).await, Some(()));
        let mut lost = pin!(link.pass(Direction::Answers));
        assert!(poll!(&mut lost).is_pending());
        cut.lost(1).await;
        drop(cut);
        assert_eq!(lost.await, None);
        assert_eq!(link.pass(Direction::Answers).await, Some(()));
    }
}
