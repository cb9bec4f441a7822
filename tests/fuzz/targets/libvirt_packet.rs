//! libvirt's packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::libvirt_packet(data));
