//! The Lua scripts that a command runs.

use std::time::Duration;

use anyhow::anyhow;
use api::karmada::ResourceInterpreterCustomization;
use interpreters::lua::{CustomizationError, Limits, LuaInterpreter};

/// Time in which a script that is stopped must end. Lua cannot stop inside its own functions.
pub(crate) const SCRIPT_END: Duration = Duration::from_secs(5);

/// Compiles the scripts of these customizations.
///
/// # Errors
///
/// Every script that does not compile.
pub(crate) fn compile(
    customizations: &[ResourceInterpreterCustomization],
    limits: Limits,
) -> anyhow::Result<LuaInterpreter> {
    LuaInterpreter::new(customizations, limits).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(CustomizationError::to_string).collect();
        anyhow!(errors.join("\n"))
    })
}
