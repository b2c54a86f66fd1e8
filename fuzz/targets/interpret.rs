//! Fuzz target for interpretation. Run with `cargo fuzz run --features libfuzzer interpret`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::interpret(data));
