//! Fuzz target for admission. Run with `cargo fuzz run --features libfuzzer admit`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::admit(data));
