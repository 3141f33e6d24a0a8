//! Messages that only fabrics have: hellos, hello replies, pushes and histories.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_wire::fuzz::native_fabric(data));
