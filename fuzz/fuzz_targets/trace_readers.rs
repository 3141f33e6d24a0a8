//! The readers of traces: the same requests in whatever pieces a file comes, in the order of time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_workload::trace::fuzz::trace_readers(data));
