//! Types in their JSON form.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::type_json(data));
