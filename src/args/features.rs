//! Feature gates of the Go manager.

use super::values::{FlagError, boolean};

/// The feature gate of the networks of Instances.
pub(crate) const NETWORKING_INTEGRATION: &str = "NetworkingIntegration";

/// The value of `--feature-gates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// Whether Instances wait for networks. `None` if the gate was not given.
    pub(crate) networking_integration: Option<bool>,
}

/// Parses feature gates, such as `A=true,B=false`. The last value of a gate counts, as in the Go manager. Only
/// [`NETWORKING_INTEGRATION`] may be on, because no other feature exists here.
pub(super) fn feature_gates(text: &str) -> Result<FeatureGates, FlagError> {
    let mut gates = FeatureGates::default();
    for gate in text.split(',').filter(|gate| !gate.trim().is_empty()) {
        let (name, value) = gate
            .split_once('=')
            .ok_or_else(|| FlagError::Gate(gate.to_owned()))?;
        match (name.trim(), boolean(value.trim())?) {
            (NETWORKING_INTEGRATION, is_on) => gates.networking_integration = Some(is_on),
            (_, false) => {}
            (name, true) => return Err(FlagError::FeatureOn(name.to_owned())),
        }
    }
    Ok(gates)
}
