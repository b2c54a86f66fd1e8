//! Finds the copy of an Instance on the hub, and the name that a new copy gets.
//!
//! A copy has the name of its Instance. If another cell of the same city has a copy of this name on the hub, or if the
//! name is not a DNS label, the copy has a name with a hash of the cell. A copy keeps its name: a copy with a hash in
//! its name stays in use even if the readable name becomes free. The Instance has a record of such a name, so another
//! hub gets the same names, in whichever order the cells write to it. A cell that is alone in its city has no records.

use api::{CellName, Instance, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt};

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
    /// Reads the copy of an Instance of this cell. `instance` is the metadata of the Instance. The hub is asked for the
    /// second name only if the copy of the first name does not name this cell.
    pub(super) async fn read(
        copies: &Collection<'_, K>,
        cell: &CellName,
        instance: &ObjectMeta,
    ) -> Result<Self, ReconcileError> {
        let is_recorded = has_record(cell, instance);
        let instance = instance.name.as_deref().unwrap_or_default();
        let derived = names::copy_name(instance, cell.as_str());
        if is_recorded {
            return Self::read_recorded(copies, cell, instance, derived).await;
        }
        let copy = copies.read(instance).await?;
        let readable = |copy| Self {
            name: instance.to_owned(),
            copy,
        };
        let of_another_cell = copy.as_ref().is_some_and(|copy| is_of_another(cell, copy));
        if copy.as_ref().is_some_and(|copy| names_cell(cell, copy)) {
            return Ok(readable(copy));
        }
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

    /// Reads the copy with the recorded name. A former version, which does not know the record, may have written the
    /// copy with the readable name.
    async fn read_recorded(
        copies: &Collection<'_, K>,
        cell: &CellName,
        instance: &str,
        recorded: String,
    ) -> Result<Self, ReconcileError> {
        let copy = copies.read(&recorded).await?;
        if copy.is_none() {
            let readable = copies.read(instance).await?;
            if let Some(readable) = readable.filter(|copy| names_cell(cell, copy)) {
                return Ok(Self {
                    name: instance.to_owned(),
                    copy: Some(readable),
                });
            }
        }
        Ok(Self {
            name: recorded,
            copy,
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
        instance: &ObjectMeta,
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

/// Returns whether the Instance has a record of the only name with a hash that its copy can have. A customer can write
/// another value into the template.
fn has_record(cell: &CellName, instance: &ObjectMeta) -> bool {
    let annotations = instance.annotations.as_ref();
    let recorded = annotations.and_then(|it| it.get(annotations::COPY_NAME));
    let name = instance.name.as_deref().unwrap_or_default();
    recorded.is_some_and(|recorded| *recorded == names::copy_name(name, cell.as_str()))
}

/// Returns whether the Instance must record the name of its copy before the copy is written. A name that is no DNS
/// label leads to the same name on every hub.
pub(super) fn needs_record(cell: &CellName, instance: &Instance, copy_name: &str) -> bool {
    let name = instance.name_any();
    copy_name != name && names::is_dns_label(&name) && !has_record(cell, instance.meta())
}

/// Returns whether the copy says that this cell wrote it.
fn names_cell(cell: &CellName, copy: &impl ResourceExt) -> bool {
    label(copy, labels::SOURCE_CLUSTER) == Some(cell.as_str())
}

/// Returns whether another cell wrote the copy. A copy of the Go manager does not name its cell.
pub(super) fn is_of_another(cell: &CellName, copy: &impl ResourceExt) -> bool {
    label(copy, labels::SOURCE_CLUSTER).is_some_and(|other| other != cell.as_str())
}
