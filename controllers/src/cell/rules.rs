//! Applies the rules of a cell to the template of its Instances (docs/operate/cell-rules.md). Everything in the cell that
//! makes Instances, or compares them with their template, uses the result. The object on the API server keeps the
//! template of the customer: Karmada would undo a change.

use std::sync::Arc;

use api::WorkloadDeployment;

/// Returns the WorkloadDeployment with the rules in its template. Rules that cannot be read change nothing: such a
/// WorkloadDeployment is not [rolled out](WorkloadDeployment::is_rolled_out).
pub(crate) fn with_rules(deployment: Arc<WorkloadDeployment>) -> Arc<WorkloadDeployment> {
    match deployment.cell_rules() {
        Some(Ok(rules)) if !rules.is_empty() => {
            let mut changed = Arc::unwrap_or_clone(deployment);
            rules.apply(&mut changed);
            Arc::new(changed)
        }
        _ => deployment,
    }
}
