//! What a server reads of the native protocol: taken requests make sense, and written again mean the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_wire::fuzz::native_requests(data));
