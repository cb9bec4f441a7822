//! What is said of unknown values: a byte that chooses the type, then the extension's body.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::refinements(data));
