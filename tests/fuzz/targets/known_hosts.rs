//! known_hosts files, asked about a host.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::known_hosts(data));
