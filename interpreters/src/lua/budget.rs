//! The bounds of one call of a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time limit of a script, as in Karmada. The caller keeps it with a [`StopFlag`].
pub const SCRIPT_TIME: Duration = Duration::from_secs(1);
/// Instructions of a call.
const INSTRUCTIONS_MAX: u64 = 20_000_000;
/// Memory of a call, in bytes.
const SCRIPT_MEMORY_MAX: usize = 64 << 20;
/// Memory of the result of a call, in bytes.
const RESULT_MAX: usize = 32 << 20;

/// The bounds of one call of a script.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of Lua, and steps of pattern matching.
    pub instructions: u64,
    /// Memory of the script, in bytes. The objects of the request count.
    pub memory: usize,
    /// Memory of the result, and of the patch that it makes, in bytes.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            instructions: INSTRUCTIONS_MAX,
            memory: SCRIPT_MEMORY_MAX,
            output: RESULT_MAX,
        }
    }
}

/// Stops scripts that run. The caller keeps one copy, and sets it when the time of the call is over.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(pub(super) Arc<AtomicBool>);

impl StopFlag {
    /// Stops the calls that have this flag.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bound that a script has exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Exceeded {
    Instructions,
    Time,
}

/// The rest of the instructions of one call.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU64,
    stop: StopFlag,
}

impl Budget {
    pub(super) fn new(instructions: u64, stop: StopFlag) -> Self {
        Self {
            left: AtomicU64::new(instructions),
            stop,
        }
    }

    /// Takes instructions. After the first error, each call is an error.
    pub(super) fn spend(&self, instructions: u64) -> Result<(), Exceeded> {
        // One call runs in one thread.
        let left = self.left.load(Ordering::Relaxed);
        self.left
            .store(left.saturating_sub(instructions), Ordering::Relaxed);
        self.exceeded().map_or(Ok(()), Err)
    }

    /// Returns the bound that the call has exceeded.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Some(Exceeded::Instructions);
        }
        self.stop.is_set().then_some(Exceeded::Time)
    }
}
