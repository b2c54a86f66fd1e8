//! The memory that a review needs.

/// Maximum memory for the errors and warnings of one answer, in bytes: a hundred errors, twice.
pub const ANSWER_BYTES: usize = 256 << 10;

/// Returns the maximum memory to decode and to check one review, in bytes, without the body itself and without
/// [`ANSWER_BYTES`]. `fuzz/tests/memory.rs` measures it.
///
/// A list element of two bytes can need two hundred bytes of memory. But the number of values in a Workload is limited,
/// and so is the size of the requester.
pub fn peak_bytes(body: &[u8]) -> usize {
    /// Memory for each list element, in bytes.
    const OF_ELEMENT: usize = 200;
    /// Maximum memory for all list elements, in bytes.
    const OF_ALL_ELEMENTS: usize = 12 << 20;
    /// Memory for each byte of any body, in bytes.
    const PER_BYTE: usize = 12;
    // Every element follows one of these characters.
    let elements = body.iter().filter(|c| matches!(c, b',' | b'[')).count();
    let of_elements = elements.saturating_mul(OF_ELEMENT).min(OF_ALL_ELEMENTS);
    body.len()
        .saturating_mul(PER_BYTE)
        .saturating_add(of_elements)
}
