//! Deletes copies on the hub that this cell no longer needs. The cell does not watch the hub, so no watch reports these
//! copies.

use super::copy_name::PartialInstance;
use super::plan::leftovers::{is_of, next};
use crate::cell::CellCaches;
use crate::names;
use crate::runtime::hub_proof::require_hub_of_cell;
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// How many ordinals without a copy the search goes past after it has found one. An Instance without a copy is rare: it
/// was just being replaced when the snapshot was made, or the hub refused its copy.
const GAP: usize = 3;

/// Deletes copies on the hub whose Instances the cell no longer has.
pub(super) struct LeftoverCopies<'a> {
    pub(super) cell: &'a CellCaches,
    pub(super) writer: &'a Writer,
}

impl LeftoverCopies<'_> {
    /// Deletes the copies of an Instance that the cell does not have, and then the copies of the following ordinals.
    /// Ends at an Instance of the cell, and at a gap. A copy has one of two names (`copy_name.rs`).
    /// Before each deletion, the cell's API server must confirm that the Instance is gone. The hub must be the hub of
    /// the cell's Namespace. Metadata are sufficient, so copies that cannot be decoded are deleted too.
    pub(super) async fn delete(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        let copies = Collection::<PartialInstance>::new(&self.cell.hub, &key.namespace, None);
        let instances = Collection::<PartialInstance>::new(&self.cell.client, &key.namespace, None);
        let mut name = key.name.clone();
        let mut rest_of_gap = 0_usize;
        loop {
            let derived = names::copy_name(&name, self.cell.name.as_str());
            let (copy, with_hash) = tokio::try_join!(copies.read(&name), copies.read(&derived))?;
            let own: Vec<_> = [copy, with_hash]
                .into_iter()
                .flatten()
                .filter(|copy| is_of(&self.cell.name, copy))
                .collect();
            if own.is_empty() {
                match rest_of_gap.checked_sub(1) {
                    Some(rest) => rest_of_gap = rest,
                    None => return Ok(()),
                }
            } else {
                if instances.read(&name).await?.is_some() {
                    return Ok(());
                }
                require_hub_of_cell(self.cell, &key.namespace).await?;
                for copy in own {
                    self.writer
                        .delete_unchanged(context, &copies, &copy)
                        .await?;
                }
                rest_of_gap = GAP;
            }
            match next(&name) {
                Some(next) => name = next,
                None => return Ok(()),
            }
        }
    }
}
