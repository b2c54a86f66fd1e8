//! Fuzz target for quantities. Run with `cargo fuzz run --features libfuzzer quantity`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::quantity(data));
