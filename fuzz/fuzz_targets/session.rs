//! A connection through the whole server: parser, engine, replies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_server::testing::fuzz::session(data));
