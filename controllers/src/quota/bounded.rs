//! Bounds the messages of other systems.

/// Longest message of another system that a condition contains, in characters. A reader needs only the beginning.
const MESSAGE_MAX: usize = 1024;

/// Cuts off a message of another system.
pub(super) fn bounded(message: &str) -> String {
    message.chars().take(MESSAGE_MAX).collect()
}
