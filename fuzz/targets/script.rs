//! Fuzz target for Lua scripts. Run with `cargo fuzz run --features libfuzzer script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::script(data));
