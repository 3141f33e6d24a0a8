//! Requests are processed without touching the allocator.

mod counting;

use std::path::Path;
use std::sync::Arc;

use micanite_control::RecordOptions;
use micanite_engine::Cache;
use micanite_server::configuration::{Options, Settings};
use micanite_server::limits::OUTPUT_BYTES;
use micanite_server::output::Output;
use micanite_server::session::{Context, Session, Status};
use micanite_server::shared::Server;
use micanite_server::shared::clock::Clock;
use micanite_server::telemetry::record::Recorder;
use micanite_workload::recording::End;

/// Processes an input that is complete, and returns the length of the replies.
fn process(session: &mut Session, input: &[u8], output: &mut [u8], context: &mut Context<'_>) -> usize {
    let (mut at, mut bytes, mut requests) = (0, 0, u32::MAX);
    loop {
        let mut output = Output::new(output, 0);
        let progress = session.process(&input[at..], false, &mut requests, &mut output, context);
        at += progress.consumed;
        bytes += output.filled();
        match progress.status {
            Status::NeedInput => {
                assert_eq!(at, input.len());
                return bytes;
            }
            Status::NeedOutput { bytes } => assert!(bytes <= OUTPUT_BYTES),
            other => panic!("{other:?}"),
        }
    }
}

/// Requests of the binary protocol: of one step and of several, loud and quiet.
fn binary_requests(keys: &[String], value: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut add = |opcode: u8, extras: &[u8], key: &str, value: &[u8], cas: u8| {
        let body_bytes = (extras.len() + key.len() + value.len()) as u32;
        all.extend([0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0]);
        all.extend(body_bytes.to_be_bytes());
        all.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, cas]);
        all.extend([extras, key.as_bytes(), value].concat());
    };
    for key in keys {
        add(0x01, &[0; 8], key, value, 0);
        add(0x0d, &[], key, &[], 0);
        add(0x11, &[0; 8], key, value, 0);
    }
    for cas in [0, 1] {
        for opcode in [0x0e, 0x0f, 0x19] {
            add(opcode, &[], "key1", value, cas);
        }
        add(0x04, &[], "key1", &[], cas);
        add(0x14, &[], "key1", &[], cas);
        add(0x05, &[0; 20], "binary", &[], cas);
    }
    add(0x1c, &[0; 4], "key2", &[], 0);
    add(0x24, &[0; 4], "none", &[], 0);
    add(0x77, &[], "", b"unknown", 0);
    add(0x0a, &[], "", &[], 0);
    all
}

#[test]
fn a_session_allocates_nothing() {
    allocates_nothing(None);
}

#[test]
fn a_session_that_is_recorded_allocates_nothing() {
    let file = std::env::temp_dir().join(format!("micanite-{}.rec", std::process::id()));
    allocates_nothing(Some(&file));
    std::fs::remove_file(file).unwrap();
}

/// With all requests recorded in a file, if there is one.
fn allocates_nothing(file: Option<&Path>) {
    let settings = Settings::of(&Options::default(), 1).unwrap();
    let cache = Arc::new(Cache::new(&settings.engine(1)).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let server = Arc::new(Server::new(settings, cache, None, 1000).unwrap());
    let mut context = Context::new(&mut worker, &server, 1000);
    let mut output = vec![0; OUTPUT_BYTES];
    let mut session = Session::default();

    let keys: Vec<String> = (0..200).map(|n| format!("key{n}")).collect();
    let value = "v".repeat(1000);
    let sets: String = keys.iter().map(|key| format!("set {key} 5 100 1000\r\n{value}\r\n")).collect();
    let multi_get = format!("get {}\r\n", keys.join(" "));
    let others = "incr n 1\r\ndelete key1\r\ntouch key2 5\r\ngat 5 key3\r\nappend key4 0 0 1\r\nx\r\n\
                  bogus\r\nmn\r\ngets none key5\r\nset key6 0 0 9999999 noreply\r\n";
    let binary = binary_requests(&keys, value.as_bytes());
    if let Some(file) = file {
        let options = RecordOptions { fraction: Some("1".parse().unwrap()), ..RecordOptions::default() };
        Recorder::start(&server, Clock::start(), file, &options).unwrap();
    }
    let before = counting::calls();
    let mut replies = 0;
    replies += process(&mut session, sets.as_bytes(), &mut output, &mut context);
    replies += process(&mut session, multi_get.as_bytes(), &mut output, &mut context);
    replies += process(&mut session, others.as_bytes(), &mut output, &mut context);
    replies += process(&mut Session::default(), &binary, &mut output, &mut context);
    let calls = counting::calls() - before;
    assert_eq!(calls, 0, "calls of the allocator");
    assert!(replies > 2 * 200 * 1000);
    if file.is_some() {
        let told = server.shared.recorder.stop(End::Stopped).unwrap();
        let numbers = server.shared.recorder.numbers();
        assert!(numbers.records > 900 && numbers.dropped == 0, "{told}");
    }
}
