//! The native client against a server that answers with anything: each accepted request ends exactly once.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_client::fuzz::client(data));
