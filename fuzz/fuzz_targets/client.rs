//! The native client against a server that answers with anything: each request that was taken ends once.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_client::fuzz::client(data));
