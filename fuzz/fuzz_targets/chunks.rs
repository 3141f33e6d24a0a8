//! Bytes of a one-sided read: constants, entry, record, chunk.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_chunks::fuzz::chunks(data));
