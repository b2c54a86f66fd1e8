//! A queue with several lines of items that are served in turn. Each project has its own line, and in a cell each
//! namespace.

use std::collections::{BTreeMap, VecDeque};

/// The longest line.
const LINE: usize = 1024;
/// Maximum number of items in all lines together.
const ALL: usize = 16 * LINE;

/// The lines that have a waiting item or an item under way. Only one item of a line is under way at a time. So a busy
/// project keeps capacity of its API server for other requests, and a project that hangs does not block others.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    of: BTreeMap<String, VecDeque<T>>,
    /// The names of the lines without an item under way, in the order in which they are served.
    turns: VecDeque<String>,
    /// The number of items in all lines.
    waiting: usize,
}

impl<T> FairQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            of: BTreeMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Appends an item to the line of this name. Returns the item if there is no room.
    pub(super) fn add(&mut self, name: &str, item: T) -> Result<(), T> {
        if self.waiting >= ALL {
            return Err(item);
        }
        let Some(line) = self.of.get_mut(name) else {
            self.of.insert(name.to_owned(), VecDeque::from([item]));
            self.turns.push_back(name.to_owned());
            self.waiting += 1;
            return Ok(());
        };
        if line.len() >= LINE {
            return Err(item);
        }
        line.push_back(item);
        self.waiting += 1;
        Ok(())
    }

    /// Returns the next item. Does not return another item of the same line before [`Self::done`].
    pub(super) fn take(&mut self) -> Option<(String, T)> {
        let name = self.turns.pop_front()?;
        let item = self.of.get_mut(&name)?.pop_front()?;
        self.waiting -= 1;
        Some((name, item))
    }

    /// Ends the item of this line that is under way.
    pub(super) fn done(&mut self, name: String) {
        match self.of.get(&name) {
            Some(line) if !line.is_empty() => self.turns.push_back(name),
            _ => {
                self.of.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_take_turns_with_one_item_each() {
        let [a, b] = ["a", "b"].map(str::to_owned);
        let mut lines = FairQueue::new();
        for item in 1..=3 {
            lines.add(&a, item).unwrap();
        }
        lines.add(&b, 4).unwrap();
        assert_eq!(lines.take(), Some((a.clone(), 1)));
        assert_eq!(lines.take(), Some((b.clone(), 4)));
        assert_eq!(lines.take(), None);
        lines.add(&b, 5).unwrap();
        assert_eq!(lines.take(), None);
        lines.done(b.clone());
        lines.done(a.clone());
        assert_eq!(lines.take(), Some((b.clone(), 5)));
        assert_eq!(lines.take(), Some((a.clone(), 2)));
        lines.done(a.clone());
        assert_eq!(lines.take(), Some((a.clone(), 3)));
        lines.done(a);
        lines.done(b);
        assert_eq!((lines.take(), lines.of.len(), lines.waiting), (None, 0, 0));
    }

    #[test]
    fn each_line_and_their_sum_are_bounded() {
        let mut lines = FairQueue::new();
        let mut fill = |project: usize| {
            let name = format!("p{project}");
            let added = (0..2 * LINE).filter(|item| lines.add(&name, *item).is_ok());
            added.count()
        };
        let added: Vec<_> = (0..18).map(&mut fill).collect();
        assert_eq!(added[..16], [LINE; 16]);
        assert_eq!(added[16..], [0, 0]);
        while let Some((project, _)) = lines.take() {
            lines.done(project);
        }
        assert_eq!(lines.waiting, 0);
    }
}
