//! Counts the steps of work on this thread, so that tests can compare the work for inputs of different sizes.

use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts one step.
pub(crate) fn count() {
    COUNT.set(COUNT.get() + 1);
}

/// Returns the number of steps during a call.
pub(crate) fn during(call: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    call();
    COUNT.get() - before
}
