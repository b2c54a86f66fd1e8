//! Where in an object a problem is.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// A place in an object, as a chain of steps on the stack: it costs nothing until it is printed. Printed as Kubernetes
/// prints the field of an error. It is hashed by the names of list elements, not by their positions, so that an element
/// has the same place before and after an update.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    /// An element of a list, and the hash of what names it there.
    Element {
        index: usize,
        name: u64,
    },
    /// A value of a map.
    Key(&'a str),
}

/// What a place is hashed as, were it in another element.
pub(crate) struct Beside<'a> {
    path: &'a Path<'a>,
    element: u64,
}

/// The hash of a name. It is computed once for each element, however many errors there are in it: a tenant can give it a
/// name of a megabyte.
fn hash_of(name: &str) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(name)
}

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub(crate) fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Field(name),
        }
    }

    /// A field of what stands here.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    /// An element of the list that stands here. `name` is what names it there: a name, or the element itself.
    pub(crate) fn element(&'a self, index: usize, name: &'a str) -> Self {
        let name = hash_of(name);
        self.then(Step::Element { index, name })
    }

    /// A value of the map that stands here.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        self.then(Step::Key(key))
    }

    /// The same place in another element of the innermost list, which `name` names.
    pub(crate) fn beside(&'a self, name: &'a str) -> Beside<'a> {
        Beside {
            path: self,
            element: hash_of(name),
        }
    }

    fn then(&'a self, step: Step<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Element { index, .. } => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl Path<'_> {
    /// `element` takes the place of the innermost list element's name.
    fn hash_with<H: Hasher>(&self, element: Option<u64>, state: &mut H) {
        let is_element = matches!(self.step, Step::Element { .. });
        if let Some(parent) = self.parent {
            parent.hash_with(element.filter(|_| !is_element), state);
        }
        match self.step {
            Step::Field(name) => (0_u8, name).hash(state),
            Step::Element { name, .. } => (1_u8, element.unwrap_or(name)).hash(state),
            Step::Key(key) => (2_u8, key).hash(state),
        }
    }
}

impl Hash for Path<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_with(None, state);
    }
}

impl Hash for Beside<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash_with(Some(self.element), state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn a_place_is_printed_as_kubernetes_does() {
        let spec = Path::root("spec");
        let volumes = spec.field("volumes");
        let volume = volumes.element(3, "data");
        let requests = volume.field("requests");
        assert_eq!(
            requests.key("storage").to_string(),
            "spec.volumes[3].requests[storage]"
        );
    }

    #[test]
    fn an_element_that_moves_keeps_its_place() {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let list = Path::root("list");
        let hash = |index, name| hasher.hash_one(list.element(index, name).field("x"));
        assert_eq!(hash(1, "a"), hash(2, "a"));
        assert_ne!(hash(1, "a"), hash(1, "b"));
    }

    #[test]
    fn a_place_beside_is_that_of_the_other_element_of_the_innermost_list() {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let list = Path::root("list");
        let (a, b) = (list.element(0, "a"), list.element(1, "b"));
        let (a, b) = (a.field("x"), b.field("x"));
        assert_eq!(hasher.hash_one(a.beside("b")), hasher.hash_one(b));
        let (in_a, in_b) = (a.element(0, "c"), b.element(0, "c"));
        assert_ne!(hasher.hash_one(in_a.beside("b")), hasher.hash_one(in_b));
    }
}
