//! The way between a client and an API server, which can be cut in one direction.

use std::sync::Arc;

use tokio::sync::watch;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests do not reach the API server; the events of watches come through.
    Requests,
    /// Requests reach the API server, but no answer and no event of a watch comes back.
    Answers,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    cut: Option<Direction>,
    /// How much was lost in this cut.
    lost: usize,
}

/// Whether requests and answers come through.
#[derive(Debug, Default)]
pub(super) struct Link(watch::Sender<State>);

impl Link {
    /// Goes on at once if this direction is whole. If it is cut, gives nothing once it is whole again.
    pub(super) async fn pass(&self, direction: Direction) -> Option<()> {
        let is_cut = |state: &State| state.cut == Some(direction);
        let lost = self.0.send_if_modified(|state| {
            let lost = is_cut(state);
            state.lost += usize::from(lost);
            lost
        });
        if !lost {
            return Some(());
        }
        // An error means that no one is left who could be answered.
        let _ = self
            .0
            .subscribe()
            .wait_for(|state| state.cut.is_none())
            .await;
        None
    }

    pub(super) fn cut(self: &Arc<Self>, direction: Direction) -> Cut {
        self.0.send_replace(State {
            cut: Some(direction),
            lost: 0,
        });
        Cut(Arc::clone(self))
    }
}

/// A cut that lasts until this is dropped.
#[derive(Debug)]
pub struct Cut(Arc<Link>);

impl Cut {
    /// Waits until so many requests, or answers, have been lost.
    pub async fn lost(&self, count: usize) {
        // The sender lives as long as this.
        let _ = self
            .0
            .0
            .subscribe()
            .wait_for(|state| state.lost >= count)
            .await;
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.0.send_replace(State::default());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn what_a_cut_loses_never_comes() {
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
