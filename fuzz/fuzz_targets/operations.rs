//! The engine against a model of it: requests, changes of modes and owners, flushes, time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_engine::fuzz::operations(data));
