//! Lines of memcached's protocol: replies, reasons to pass a line on, and side effects.

use micanite_engine::{Config, Expiry, Operation, Semantics};
use micanite_wire::hash::KeyHash;

use super::fixture::{CLIENT, Fixture, PASS, SENT, SERVER, can_load, datagram, now_s};

fn fixture(config: Config) -> Option<Fixture> {
    can_load().then(|| Fixture::new(Config { memory_bytes: 16 << 20, ..config }))
}

fn set(fixture: &mut Fixture, key: &str, value: &str) {
    fixture.set(key, value.as_bytes(), 0, Expiry::NEVER);
}

#[test]
fn a_line_of_many_keys_has_one_reply() {
    let Some(mut fixture) = fixture(Config::default()) else {
        return;
    };
    set(&mut fixture, "a", "1");
    set(&mut fixture, "bb", "22");
    let reply = "VALUE a 0 1\r\n1\r\nVALUE bb 0 2\r\n22\r\nVALUE a 0 1\r\n1\r\nEND\r\n";
    for line in ["get a none bb a\r\n", "get  a  bb a \r\n", "get a bb a\n"] {
        assert_eq!(fixture.ask(line).as_deref(), Some(reply), "{line}");
    }
    let counters = fixture.counters();
    assert_eq!((counters.hits, counters.misses, counters.answered), (9, 1, 3));
}

#[test]
fn passed_lines_are_counted_by_reason() {
    let Some(mut fixture) = fixture(Config::default()) else {
        return;
    };
    let (longest, longer) = ("v".repeat(1369), "v".repeat(1370));
    set(&mut fixture, "k", &longest);
    assert_eq!(fixture.ask("get k\r\n").unwrap().len(), 1392);
    set(&mut fixture, "k", &longer);
    let many = format!("get{}\r\n", " a".repeat(65));
    let lines = [
        "get k\r\n",
        &many,
        &format!("get none {}\r\n", "k".repeat(251)),
        "set a 0 0 1\r\nx\r\n",
        "get a\tb\r\n",
        "get \r\n",
        "get none\r\nget none\r\n",
        "get none",
    ];
    let before = fixture.counters();
    for line in lines {
        assert_eq!(fixture.ask(line), None, "{line}");
    }
    fixture.program.set_paused(true);
    assert_eq!(fixture.ask("get none\r\n"), None);
    fixture.program.set_paused(false);
    assert_eq!(fixture.ask("get none\r\n").as_deref(), Some("END\r\n"));
    let counters = fixture.counters();
    let reasons = [
        counters.passed_long_reply,
        counters.passed_many_keys,
        counters.passed_key,
        counters.passed_verb,
        counters.passed_paused,
    ];
    assert_eq!(reasons, [1, 1, 1, 5, 1]);
    assert_eq!((counters.hits, counters.misses), (before.hits, 1));
}

#[test]
fn packets_from_own_addresses_are_passed_on() {
    let Some(fixture) = fixture(Config::default()) else {
        return;
    };
    let get = b"\x12\x34\0\0\0\x01\0\0get none\r\n";
    let (v4, v6) = (Fixture::OWN_V4, Fixture::OWN_V6);
    let (server_v6, own_v4, own_v6) =
        (format!("[{v6}]:11211"), format!("{v4}:40000"), format!("[{v6}]:40000"));
    for (from, to, expected) in [
        (CLIENT, SERVER, SENT),
        ("[fd00::9]:40000", &server_v6, SENT),
        (&own_v4, SERVER, PASS),
        (&own_v6, &server_v6, PASS),
    ] {
        let frame = datagram(from, to, get);
        let (verdict, out) = fixture.run(&frame);
        assert_eq!(verdict, expected, "{from}");
        assert!(verdict == SENT || out == frame, "{from}: as it came");
    }
    assert_eq!(fixture.counters().answered, 2);
}

#[test]
fn cas_values_are_returned_once_assigned() {
    let Some(mut fixture) = fixture(Config::default()) else {
        return;
    };
    set(&mut fixture, "k", "v");
    assert_eq!(fixture.ask("gets k\r\n"), None);
    assert_eq!(fixture.ask("gets none\r\n").as_deref(), Some("END\r\n"));
    let (meta, _) = fixture.execute(b"k", Operation::Get { cas: true }).unwrap();
    let reply = format!("VALUE k 0 1 {}\r\nv\r\nEND\r\n", meta.cas);
    assert_eq!(fixture.ask("gets k\r\n"), Some(reply));
    set(&mut fixture, "k", "w");
    assert_eq!(fixture.ask("gets k\r\n"), None);
    assert_eq!(fixture.counters().passed_cas, 2);
}

#[test]
fn flushes_apply_at_once_and_namespaces_go_to_the_server() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let config = Config { semantics, namespace_delimiter: Some(b':'), ..Config::default() };
        let Some(mut fixture) = fixture(config) else {
            return;
        };
        set(&mut fixture, "name:k", "v");
        set(&mut fixture, "plain", "v");
        fixture.worker.invalidate_namespace(b"name", now_s()).unwrap();
        assert_eq!(fixture.ask("get name:k\r\n"), None);
        assert_eq!(fixture.ask("get plain :\r\n"), None);
        let reply = "VALUE plain 0 1\r\nv\r\nEND\r\n";
        assert_eq!(fixture.ask("get plain\r\n").as_deref(), Some(reply));
        assert_eq!(fixture.counters().passed_namespace, 2);
        fixture.worker.flush_all(0, now_s());
        assert_eq!(fixture.ask("get plain\r\n").as_deref(), Some("END\r\n"));
        set(&mut fixture, "plain", "v");
        assert_eq!(fixture.ask("get plain\r\n").as_deref(), Some(reply));
    }
}

#[test]
fn accesses_are_sampled_until_the_count_is_full() {
    let Some(mut fixture) = fixture(Config::default()) else {
        return;
    };
    set(&mut fixture, "k", "v");
    assert_eq!(fixture.ask("get none\r\n").as_deref(), Some("END\r\n"));
    let (mut notes, hash) = (0, fixture.cache.hash(b"k").0);
    for _ in 0..10 {
        assert!(fixture.ask("get k\r\n").is_some());
        fixture.program.take_samples(|sample| {
            assert_eq!(sample, hash);
            notes += 1;
            fixture.cache.note_request(KeyHash(sample));
        });
        fixture.worker.maintain(now_s());
    }
    assert!((1..10).contains(&notes), "{notes}");
}

#[test]
fn growing_and_full_caches_are_answered_correctly() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let Some(mut fixture) = fixture(Config { semantics, ..Config::default() }) else {
            return;
        };
        for round in 0..6 {
            for number in round * 50_000..(round + 1) * 50_000 {
                set(&mut fixture, &format!("key-{number}"), &format!("{number:050}"));
            }
            fixture.worker.maintain(now_s());
            for number in (0..(round + 1) * 50_000).step_by(97) {
                let key = format!("key-{number}");
                let Some(reply) = fixture.ask(&format!("get {key}\r\n")) else {
                    continue;
                };
                let found = fixture.execute(key.as_bytes(), Operation::Get { cas: false });
                let expected = found.map_or(String::new(), |(_, value)| {
                    let value = String::from_utf8(value).unwrap();
                    format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
                });
                assert_eq!(reply, expected + "END\r\n");
            }
        }
        let counters = fixture.counters();
        let passed = counters.passed_chain + counters.passed_contended;
        assert!(counters.hits > 1000 && counters.misses > 100, "{counters:?}");
        assert!(passed * 100 < counters.hits, "{counters:?}");
    }
}
