//! The path of a field in an object.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// The path of a field in an object. The path is a chain of elements on the stack. No memory is allocated until the
/// path is printed.
///
/// `Display` prints the path in the form of Kubernetes. `Hash` uses the names of list elements, not their indices. The
/// hash of a list element therefore stays the same when an update moves the element.
#[derive(Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a Self>,
    element: PathElement<'a>,
}

#[derive(Clone, Copy)]
enum PathElement<'a> {
    Field(&'a str),
    /// An element of a list.
    ListElement {
        index: usize,
        /// Hash of the name of the element. The name identifies the element in the list.
        name: u64,
    },
    /// A value of a map.
    Key(&'a str),
}

/// Has the hash of a [`FieldPath`] with another element of the innermost list.
pub(crate) struct SiblingPath<'a> {
    path: &'a FieldPath<'a>,
    /// Hash of the name of the other element.
    name: u64,
}

/// Returns the hash of the name of a list element. The caller must compute this hash once per element, not once per
/// error. A tenant can send an element with a name of one megabyte and with a hundred thousand errors.
fn hash_of(name: &str) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(name)
}

impl<'a> FieldPath<'a> {
    /// Returns the path of a top-level field.
    pub(crate) fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            element: PathElement::Field(name),
        }
    }

    /// Returns the path of a field below this path.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.then(PathElement::Field(name))
    }

    /// Returns the path of an element of the list at this path. `name` identifies the element in the list. In a list of
    /// strings, `name` is the element itself.
    pub(crate) fn element(&'a self, index: usize, name: &'a str) -> Self {
        let name = hash_of(name);
        self.then(PathElement::ListElement { index, name })
    }

    /// Returns the path of a value of the map at this path.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        self.then(PathElement::Key(key))
    }

    /// Returns the path of the same field in another element of the innermost list. `name` identifies the other
    /// element.
    pub(crate) fn in_sibling(&'a self, name: &'a str) -> SiblingPath<'a> {
        SiblingPath {
            path: self,
            name: hash_of(name),
        }
    }

    fn then(&'a self, element: PathElement<'a>) -> Self {
        Self {
            parent: Some(self),
            element,
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.element {
            PathElement::Field(name) if self.parent.is_none() => f.write_str(name),
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::ListElement { index, .. } => write!(f, "[{index}]"),
            PathElement::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl FieldPath<'_> {
    /// Hashes the path. If `sibling` is set, it replaces the hash of the name of the innermost list element.
    fn hash_with<H: Hasher>(&self, sibling: Option<u64>, state: &mut H) {
        let is_list_element = matches!(self.element, PathElement::ListElement { .. });
        if let Some(parent) = self.parent {
            parent.hash_with(sibling.filter(|_| !is_list_element), state);
        }
        match self.element {
            PathElement::Field(name) => (0_u8, name).hash(state),
            PathElement::ListElement { name, .. } => (1_u8, sibling.unwrap_or(name)).hash(state),
            PathElement::Key(key) => (2_u8, key).hash(state),
        }
    }
}

impl Hash for FieldPath<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_with(None, state);
    }
}

impl Hash for SiblingPath<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash_with(Some(self.name), state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn a_path_is_printed_as_kubernetes_prints_it() {
        let spec = FieldPath::root("spec");
        let volumes = spec.field("volumes");
        let volume = volumes.element(3, "data");
        let requests = volume.field("requests");
        assert_eq!(
            requests.key("storage").to_string(),
            "spec.volumes[3].requests[storage]"
        );
    }

    #[test]
    fn a_list_element_that_moves_keeps_its_hash() {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let list = FieldPath::root("list");
        let hash = |index, name| hasher.hash_one(list.element(index, name).field("x"));
        assert_eq!(hash(1, "a"), hash(2, "a"));
        assert_ne!(hash(1, "a"), hash(1, "b"));
    }

    #[test]
    fn a_sibling_path_replaces_only_the_innermost_list_element() {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let list = FieldPath::root("list");
        let (a, b) = (list.element(0, "a"), list.element(1, "b"));
        let (a, b) = (a.field("x"), b.field("x"));
        assert_eq!(hasher.hash_one(a.in_sibling("b")), hasher.hash_one(b));
        let (in_a, in_b) = (a.element(0, "c"), b.element(0, "c"));
        assert_ne!(hasher.hash_one(in_a.in_sibling("b")), hasher.hash_one(in_b));
    }
}
