//! libvirt's documents: what a host is, and what guests on it can be.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::libvirt_document(data));
