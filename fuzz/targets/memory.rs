//! Fuzz target for the memory of one interpretation. Run with `cargo fuzz run --features libfuzzer memory`.

#![no_main]

use interpreters::{interpret, peak_bytes};
use jiff::Timestamp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let counted = allocation_counter::measure(|| {
        let _ = interpret(data, Timestamp::UNIX_EPOCH);
    });
    let bound = peak_bytes(data.len());
    assert!(
        counted.bytes_max <= bound as u64,
        "{} of {bound}",
        counted.bytes_max
    );
});
