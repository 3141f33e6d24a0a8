//! Input of a server of the native protocol: accepted requests are valid, and parse the same when written
//! again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_wire::fuzz::native_requests(data));
