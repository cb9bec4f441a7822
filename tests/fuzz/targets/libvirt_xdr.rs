//! What libvirt's packets carry: a byte that chooses the message, then its bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egress_fuzz::libvirt_xdr(data));
