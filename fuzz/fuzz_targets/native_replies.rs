//! Input of a client of the native protocol: replies and directories.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_wire::fuzz::native_replies(data));
