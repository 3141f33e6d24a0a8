//! The text protocol's parser: split input gives the same commands and replies as whole input.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_wire::fuzz::text_parser(data));
