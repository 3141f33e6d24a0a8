//! The same requests come out however the packets were cut, repeated and swapped.

use proptest::prelude::*;

use super::capture::{Capture, Connection, Form, read};

/// An exchange of a client, and how it is read back.
#[derive(Clone, Debug)]
struct Exchange {
    request: Vec<u8>,
    reply: Vec<u8>,
    words: Vec<String>,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let key = "[a-z:]{1,20}";
    let get = prop::collection::vec((key, prop::option::of(0usize..3000)), 1..6).prop_map(|keys| {
        let names: Vec<_> = keys.iter().map(|(key, _)| key.as_str()).collect();
        let mut reply = Vec::new();
        let mut words = Vec::new();
        for (key, found) in &keys {
            match found {
                Some(bytes) => {
                    reply.extend(format!("VALUE {key} 0 {bytes}\r\n").into_bytes());
                    reply.extend(vec![b'\n'; *bytes]);
                    reply.extend(b"\r\n");
                    words.push(format!("get {key} {bytes} - Hit"));
                }
                None => words.push(format!("get {key} - - Miss")),
            }
        }
        reply.extend(b"END\r\n");
        let request = format!("get {}\r\n", names.join(" ")).into_bytes();
        Exchange { request, reply, words }
    });
    let set = (key, 0usize..5000, 0u32..1000, any::<bool>()).prop_map(|(key, bytes, expiry_s, noreply)| {
        let silence = if noreply { " noreply" } else { "" };
        let mut request = format!("set {key} 1 {expiry_s} {bytes}{silence}\r\n").into_bytes();
        request.extend(b"get x\r\n".iter().cycle().take(bytes));
        request.extend(b"\r\n");
        let (reply, outcome) = if noreply { (&b""[..], "Unknown") } else { (&b"STORED\r\n"[..], "Hit") };
        Exchange {
            request,
            reply: reply.to_vec(),
            words: vec![format!("set {key} {bytes} {expiry_s} {outcome}")],
        }
    });
    // The reader takes the first of several equal keys of a get as found, so no key comes twice.
    let get = get.prop_filter("a key twice", |exchange| {
        let mut names: Vec<_> = exchange.request.split(|byte| byte.is_ascii_whitespace()).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.windows(2).all(|pair| pair[0] != pair[1])
    });
    prop_oneof![get, set]
}

/// Segments that one may be late by; the reader gives up after 256.
const CARRIED_MAX: usize = 200;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_may_be_cut_repeated_and_swapped(
        exchanges in prop::collection::vec(exchange(), 1..12),
        pipelined in 1usize..5,
        cuts in prop::collection::vec(1usize..1400, 1..8),
        swaps in prop::collection::vec(any::<u8>(), 1..40),
        is_v6 in any::<bool>(),
    ) {
        let mut capture = Capture::new(Form { is_v6, ..Form::PLAIN });
        let mut connection = Connection::open(&mut capture, 1);
        let (mut cuts, mut swaps) = (cuts.into_iter().cycle(), swaps.into_iter().cycle());
        for batch in exchanges.chunks(pipelined) {
            for is_from_client in [true, false] {
                let side = |exchange: &Exchange| match is_from_client {
                    true => exchange.request.clone(),
                    false => exchange.reply.clone(),
                };
                let bytes: Vec<u8> = batch.iter().flat_map(side).collect();
                let mut rest = &bytes[..];
                let mut segments = Vec::new();
                while !rest.is_empty() {
                    let (part, behind) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                    segments.push((connection.next(is_from_client, part), part.to_vec()));
                    rest = behind;
                }
                // Swaps in a row carry one segment backwards.
                let mut carried = 0;
                for place in 1..segments.len() {
                    let swap = swaps.next().unwrap();
                    carried = if swap < 64 { carried + 1 } else { 0 };
                    match swap {
                        0..64 if carried % CARRIED_MAX != 0 => segments.swap(place - 1, place),
                        64..96 => segments.push(segments[place].clone()),
                        _ => {}
                    }
                }
                for (tcp, part) in segments {
                    capture.tcp(1, is_from_client, tcp, &part);
                }
            }
            capture.time_us += 100;
        }
        let (requests, remarks) = read(capture.bytes);
        let expected: Vec<String> = exchanges.iter().flat_map(|exchange| exchange.words.clone()).collect();
        prop_assert_eq!(requests, expected);
        prop_assert!(remarks.is_empty(), "{:?}", remarks);
    }
}
