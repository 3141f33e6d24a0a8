//! The readers of traces: files in any pieces give the same requests, in the order of time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_workload::trace::fuzz::trace_readers(data));
