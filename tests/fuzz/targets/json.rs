//! Values as JSON: a byte that chooses the type, then the value.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::json(data));
