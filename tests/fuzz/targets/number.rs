//! Numbers as text: two, each on a line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::number(data));
