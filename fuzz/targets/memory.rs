//! Fuzz target for the memory of one interpretation. Run with `cargo fuzz run --features libfuzzer memory`.

#![no_main]

use interpreters::{PEAK_BYTES_OF_ANY, PEAK_BYTES_PER_BYTE, interpret};
use jiff::Timestamp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let counted = allocation_counter::measure(|| {
        let _ = interpret(data, Timestamp::UNIX_EPOCH);
    });
    let bound = PEAK_BYTES_PER_BYTE * data.len() + PEAK_BYTES_OF_ANY;
    assert!(
        counted.bytes_max <= bound as u64,
        "{} of {bound}",
        counted.bytes_max
    );
});
