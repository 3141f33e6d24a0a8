//! A client that does not know the password, in both protocols, cut at any place.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_server::testing::fuzz::unauthenticated(data));
