//! Datagrams of a few clients through the server: rounds, cookies, ids, the engine, replies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_server::testing::fuzz::native(data));
