//! Finds the copy of an Instance on the hub, and the name that a new copy gets.
//!
//! A copy has the name of its Instance. If another cell of the same city has a copy of this name on the hub, or if the
//! name is not a DNS label, the copy has a name with a hash of the cell. A copy keeps its name: a copy with a hash in
//! its name stays in use even if the readable name becomes free.

use api::{CellName, Instance, labels};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};

use crate::names;
use crate::objects::label;
use crate::runtime::ReconcileError;
use crate::runtime::write::{Collection, Object};

/// An Instance with only its metadata.
pub(super) type PartialInstance = PartialObjectMeta<Instance>;

/// The copy of an Instance, and its name. `K` is an Instance, or only its metadata.
pub(super) struct NamedCopy<K> {
    /// The name of the copy, or the name of the copy to create.
    pub(super) name: String,
    pub(super) copy: Option<K>,
}

impl<K: Object> NamedCopy<K> {
    /// Reads the copy of an Instance of this cell. The hub is asked for the second name only if the copy of the first
    /// name does not name this cell.
    pub(super) async fn read(
        copies: &Collection<'_, K>,
        cell: &CellName,
        instance: &str,
    ) -> Result<Self, ReconcileError> {
        let copy = copies.read(instance).await?;
        let readable = |copy| Self {
            name: instance.to_owned(),
            copy,
        };
        let of_another_cell = copy.as_ref().is_some_and(|copy| is_of_another(cell, copy));
        if copy.as_ref().is_some_and(|copy| names_cell(cell, copy)) {
            return Ok(readable(copy));
        }
        let derived = names::copy_name(instance, cell.as_str());
        let own = copies.read(&derived).await?;
        Ok(match copy {
            // A copy of the Go manager, which does not name its cell.
            Some(_) if own.is_none() && !of_another_cell => readable(copy),
            None if own.is_none() && names::is_dns_label(instance) => readable(None),
            _ => Self {
                name: derived,
                copy: own,
            },
        })
    }
}

impl NamedCopy<Instance> {
    /// Reads the copy of an Instance of this cell. A copy of another cell that cannot be decoded does not block the copy
    /// of this cell.
    pub(super) async fn of_instance(
        hub: &Client,
        namespace: &str,
        cell: &CellName,
        instance: &str,
    ) -> Result<Self, ReconcileError> {
        let copies = Collection::<Instance>::new(hub, namespace, None);
        match Self::read(&copies, cell, instance).await {
            Err(error) if error.is_undecodable() => {
                let partial = Collection::<PartialInstance>::new(hub, namespace, None);
                let partial = NamedCopy::read(&partial, cell, instance).await?;
                let name = partial.name;
                let copy = match partial.copy {
                    Some(_) => copies.read(&name).await?,
                    None => None,
                };
                Ok(Self { name, copy })
            }
            read => read,
        }
    }
}

/// Returns whether the copy says that this cell wrote it.
fn names_cell(cell: &CellName, copy: &impl ResourceExt) -> bool {
    label(copy, labels::SOURCE_CLUSTER) == Some(cell.as_str())
}

/// Returns whether another cell wrote the copy. A copy of the Go manager does not name its cell.
pub(super) fn is_of_another(cell: &CellName, copy: &impl ResourceExt) -> bool {
    label(copy, labels::SOURCE_CLUSTER).is_some_and(|other| other != cell.as_str())
}
