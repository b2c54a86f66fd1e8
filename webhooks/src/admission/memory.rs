//! The memory that a review needs.

/// Maximum memory for the errors and warnings of one answer, in bytes: a hundred errors, twice.
pub const ANSWER_BYTES: usize = 256 << 10;

/// Maximum memory of an access review in flight, as a multiple of its body. API servers repeat the body in the answer,
/// and the client copies the answer once.
pub const REVIEW_COPIES: usize = 2;

/// Maximum number of concurrent access reviews of one request.
const CONCURRENT_REVIEWS: usize = 32;

/// Returns the number of access reviews that a request may have in flight. Together they need at most 6 times the
/// memory of the request. [`peak_bytes`] has room for this memory, because the other memory is smaller while reviews
/// are in flight.
///
/// `body` is the size of the request, `review` is the size of the largest access review, in bytes.
pub(super) fn concurrent_reviews(body: usize, review: usize) -> usize {
    /// Memory of all access reviews in flight for each byte of the request, in bytes.
    const PER_BYTE: usize = 6;
    let reviews = body.saturating_mul(PER_BYTE) / review.saturating_mul(REVIEW_COPIES).max(1);
    reviews.clamp(1, CONCURRENT_REVIEWS)
}

/// Returns the maximum memory to decode and to check one review, in bytes, with all access reviews, without the body
/// itself and without [`ANSWER_BYTES`]. `fuzz/tests/memory.rs` measures it.
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
