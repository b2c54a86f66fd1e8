//! A queue that serves projects in turn. Each project has its own line of items.

use std::collections::{BTreeMap, VecDeque};

use api::ProjectName;

/// The longest line of one project.
const LINE: usize = 1024;
/// Maximum number of items in all lines together.
const ALL: usize = 16 * LINE;

/// The lines of all projects that have a waiting item or an item under way. Only one item of a project is under way at
/// a time. So a busy project keeps capacity of its API server for other requests, and a project that hangs does not
/// block others.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    of: BTreeMap<ProjectName, VecDeque<T>>,
    /// The projects without an item under way, in the order in which they are served.
    turns: VecDeque<ProjectName>,
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

    /// Appends an item to the line of its project. Returns the item if there is no room.
    pub(super) fn add(&mut self, project: &ProjectName, item: T) -> Result<(), T> {
        if self.waiting >= ALL {
            return Err(item);
        }
        let Some(line) = self.of.get_mut(project) else {
            self.of.insert(project.clone(), VecDeque::from([item]));
            self.turns.push_back(project.clone());
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

    /// Returns the next item. Does not return another item of the same project before [`Self::done`].
    pub(super) fn take(&mut self) -> Option<(ProjectName, T)> {
        let project = self.turns.pop_front()?;
        let item = self.of.get_mut(&project)?.pop_front()?;
        self.waiting -= 1;
        Some((project, item))
    }

    /// Ends the item of this project that is under way.
    pub(super) fn done(&mut self, project: ProjectName) {
        match self.of.get(&project) {
            Some(line) if !line.is_empty() => self.turns.push_back(project),
            _ => {
                self.of.remove(&project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_take_turns_with_one_item_each() {
        let [a, b] = ["a", "b"].map(|name| ProjectName::new(name).unwrap());
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
            let name = ProjectName::new(format!("p{project}")).unwrap();
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
