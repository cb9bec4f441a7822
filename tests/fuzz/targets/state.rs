//! Stored states: a byte that chooses the schema, then the state.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::state(data));
