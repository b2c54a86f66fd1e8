//! How a label, annotation or finalizer is described in `docs/reference/labels.md`.

/// The key of a label or annotation, or a finalizer.
#[derive(Clone, Copy, Debug)]
pub struct MetadataKey {
    /// The key itself.
    pub key: &'static str,
    /// Kinds of the objects that have the key, and the planes of these objects.
    pub objects: &'static str,
    /// The controllers, programs or people that write the key.
    pub writer: &'static str,
    /// The meaning of the value, or the condition that the finalizer waits for.
    pub meaning: &'static str,
}

/// Returns a [`MetadataKey`] with these fields.
pub(crate) const fn metadata_key(
    key: &'static str,
    objects: &'static str,
    writer: &'static str,
    meaning: &'static str,
) -> MetadataKey {
    MetadataKey {
        key,
        objects,
        writer,
        meaning,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::MetadataKey;
    use crate::{annotations, finalizers, labels};

    fn assert_complete(source: &str, all: &[MetadataKey]) {
        let constants = source.lines().filter_map(|line| {
            let constant = line.strip_prefix("pub const ")?;
            constant.split('"').nth(1)
        });
        let constants: BTreeSet<_> = constants.collect();
        let listed: BTreeSet<_> = all.iter().map(|it| it.key).collect();
        assert_eq!(listed, constants);
        assert_eq!(listed.len(), all.len(), "a key is listed twice");
    }

    #[test]
    fn every_key_is_documented() {
        assert_complete(include_str!("labels.rs"), labels::ALL);
        assert_complete(include_str!("annotations.rs"), annotations::ALL);
        assert_complete(include_str!("finalizers.rs"), finalizers::ALL);
    }
}
