//! Conversations: input and replies.

use micanite_control::size;
use micanite_wire::memcache::text::reply;

use crate::shared::Ending;
use crate::testing::{Bench, NOW_S};

/// The replies of a fresh server.
fn replies(input: &str) -> String {
    said(&mut Bench::new(""), input)
}

fn said(bench: &mut Bench, input: &str) -> String {
    String::from_utf8(bench.replies(input.as_bytes())).unwrap()
}

fn stat(bench: &mut Bench, name: &str) -> u64 {
    let stats = said(bench, "stats\r\n");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {stats}")).parse().unwrap()
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let all = replies(
        "set a 1 0 3\r\nabc\r\nget a\r\nversion\r\nincr a 1\r\nset n 0 0 1\r\n5\r\nincr n 3\r\n\
         mn\r\ngets none\r\n\
         bogus\r\ndelete a\r\nget a n\r\n",
    );
    let version = crate::VERSION;
    assert_eq!(
        all,
        format!(
            "STORED\r\nVALUE a 1 3\r\nabc\r\nEND\r\nVERSION {version}\r\n\
             CLIENT_ERROR cannot increment or decrement non-numeric value\r\nSTORED\r\n8\r\nMN\r\nEND\r\n\
             ERROR\r\nDELETED\r\nVALUE n 0 1\r\n8\r\nEND\r\n"
        )
    );
}

#[test]
fn a_deep_pipeline_is_answered_completely() {
    let count = 5000;
    let input: String =
        (0..count).map(|n| format!("set key{n} {n} 0 4\r\n{n:04}\r\nget key{n}\r\n")).collect();
    let expected: String =
        (0..count).map(|n| format!("STORED\r\nVALUE key{n} {n} 4\r\n{n:04}\r\nEND\r\n")).collect();
    assert_eq!(replies(&input), expected);
}

#[test]
fn a_multi_get_of_any_length_streams() {
    let mut bench = Bench::new("");
    let keys = 300;
    let value = "v".repeat(1000);
    for n in 0..keys {
        assert_eq!(said(&mut bench, &format!("set k{n} 7 0 1000\r\n{value}\r\n")), "STORED\r\n");
    }
    // Every third key is none; the line is far longer than a block of input.
    let names: Vec<String> =
        (0..9000).map(|n| if n % 3 == 0 { "none".into() } else { format!("k{}", n % keys) }).collect();
    let line = format!("get {}\r\nmn\r\n", names.join("  "));
    assert!(line.len() > 3 * crate::limits::INPUT_BYTES);
    let expected: String = names
        .iter()
        .filter(|name| *name != "none")
        .map(|name| format!("VALUE {name} 7 1000\r\n{value}\r\n"))
        .collect();
    assert!(said(&mut bench, &line) == expected + "END\r\nMN\r\n");
}

#[test]
fn a_value_leaves_room_for_the_meta_commands_behind_it() {
    let mut bench = Bench::new("");
    let keys: Vec<String> = (0..50).map(|n| format!("{n:0250}")).collect();
    for key in &keys {
        assert_eq!(said(&mut bench, &format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n");
    }
    let asked: String = keys.iter().map(|key| format!("mg {key} k s f\r\n")).collect();
    let found: String = keys.iter().map(|key| format!("HD k{key} s1 f0\r\n")).collect();
    for value_bytes in (30_000..80_000).step_by(1000) {
        let value = "v".repeat(value_bytes);
        assert_eq!(said(&mut bench, &format!("set v 0 0 {value_bytes}\r\n{value}\r\n")), "STORED\r\n");
        let expected = format!("VALUE v 0 {value_bytes}\r\n{value}\r\nEND\r\n{found}");
        assert!(said(&mut bench, &format!("get v\r\n{asked}")) == expected, "{value_bytes}");
    }
}

#[test]
fn me_takes_no_token() {
    let mut bench = Bench::new("");
    said(&mut bench, "set a 0 0 1\r\nx\r\nmd a I\r\n");
    for _ in 0..2 {
        assert!(said(&mut bench, "me a\r\n").starts_with("ME a exp=-1 "));
    }
    assert_eq!(said(&mut bench, "mg a\r\nmg a\r\n"), "HD X W\r\nHD Z X\r\n");
}

#[test]
fn a_value_that_is_too_long_takes_the_old_one_away_under_a_base64_key_too() {
    let mut bench = Bench::new("");
    for (key, flags) in [("foo", ""), ("Zm9v", "b")] {
        assert_eq!(said(&mut bench, "set foo 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(
            said(&mut bench, &format!("ms {key} 9999999 {flags}\r\n")),
            "SERVER_ERROR object too large for cache\r\n"
        );
        assert_eq!(said(&mut bench, "get foo\r\n"), "END\r\n");
    }
}

#[test]
fn keys_cannot_break_lines_of_reports() {
    let mut bench = Bench::new("");
    assert_eq!(said(&mut bench, "stats detail on\r\n"), "OK\r\n");
    // "a\r\nEN\r\n:x y"
    assert_eq!(said(&mut bench, "ms YQ0KRU4NCjp4IHk= 1 b\r\nx\r\n"), "HD\r\n");
    assert_eq!(said(&mut bench, "lru_crawler mgdump all\r\n"), "OK\r\nmg YQ0KRU4NCjp4IHk= b\r\nEN\r\n");
    assert_eq!(
        said(&mut bench, "lru_crawler metadump all\r\n"),
        "OK\r\nkey=a%0D%0AEN%0D%0A%3Ax%20y exp=-1 cas=0 fetch=no cls=1 size=24 flags=0 \nEND\r\n"
    );
    assert_eq!(said(&mut bench, "stats detail dump\r\n"), "PREFIX  get 0 hit 0 set 1 del 0\r\nEND\r\n");
}

#[test]
fn ma_compares_before_it_looks_for_a_number() {
    let value = "x".repeat(100);
    let all = replies(&format!("set a 0 0 100\r\n{value}\r\nma a C77\r\n"));
    assert_eq!(all, "STORED\r\nEX\r\n");
}

#[test]
fn noreply_silences_every_outcome() {
    let all = replies(
        "set a 0 0 1 noreply\r\nx\r\nadd a 0 0 1 noreply\r\ny\r\ncas a 0 0 1 5 noreply\r\nz\r\n\
         incr a 1 noreply\r\n\
         incr a x noreply\r\ndelete b noreply\r\ntouch b 5 noreply\r\nset b 0 0 3 noreply\r\nabcd\r\n\
         set c 0 0 9999999 noreply\r\n",
    );
    // Behind the bad chunk, its rest is an empty line.
    assert_eq!(all, "CLIENT_ERROR bad command line format\r\n");
    assert_eq!(replies("flush_all noreply\r\nverbosity 0 noreply\r\nmn\r\n"), "MN\r\n");
}

#[test]
fn a_client_of_redis_is_told_where_it_is() {
    let refused = "-ERR this is Micanite, which speaks memcached's protocols and not Redis's\r\n";
    assert_eq!(replies("*1\r\n$4\r\nPING\r\n"), refused);
    // Only at the beginning; and nothing that memcached has begins like this.
    assert_eq!(replies("mn\r\n*1\r\nmn\r\n"), "MN\r\nERROR\r\nMN\r\n");
    assert_eq!(replies("*x\r\nmn\r\n"), "ERROR\r\nMN\r\n");
}

#[test]
fn a_bad_chunk_is_read_to_its_length() {
    let all = replies("set a 0 0 2\r\nabc\r\nget a\r\n");
    let bad = "CLIENT_ERROR bad data chunk\r\n";
    assert_eq!(all, format!("{bad}CLIENT_ERROR bad command line format\r\nEND\r\n"));
    let long = "x".repeat(30_000);
    let all = replies(&format!("set a 0 0 30000\r\n{long}xxmn\r\nget a\r\n"));
    assert_eq!(all, format!("{bad}MN\r\nEND\r\n"));
}

#[test]
fn a_value_that_is_too_large_is_swallowed_and_a_set_unlinks_the_old_one() {
    let mut bench = Bench::new("max-item-size = '2k'");
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let long = "get b\r\n".repeat(500);
    let bytes = long.len();
    for (command, left) in [("set", "END\r\n"), ("replace", "VALUE a 0 1\r\nx\r\nEND\r\n")] {
        let all =
            said(&mut bench, &format!("set a 0 0 1\r\nx\r\n{command} a 0 0 {bytes}\r\n{long}\r\nget a\r\n"));
        assert_eq!(all, format!("STORED\r\n{too_large}{left}"));
    }
    assert_eq!(stat(&mut bench, "store_too_large"), 2);
    let most = "y".repeat(2048);
    assert_eq!(
        said(&mut bench, &format!("set m 0 0 2048\r\n{most}\r\nappend m 0 0 1\r\nz\r\n")),
        format!("STORED\r\n{too_large}")
    );
}

#[test]
fn expiry_follows_the_given_clock() {
    let mut bench = Bench::new("");
    let later = NOW_S + 50;
    let stored = format!("set r 0 10 1\r\nx\r\nset a 0 {later} 1\r\ny\r\nset p 0 -1 1\r\nz\r\nget r a p\r\n");
    assert_eq!(
        said(&mut bench, &stored),
        "STORED\r\nSTORED\r\nSTORED\r\nVALUE r 0 1\r\nx\r\nVALUE a 0 1\r\ny\r\nEND\r\n"
    );
    bench.now_s += 10;
    assert_eq!(said(&mut bench, "get r a\r\n"), "VALUE a 0 1\r\ny\r\nEND\r\n");
    bench.now_s += 40;
    assert_eq!(said(&mut bench, "get a\r\n"), "END\r\n");
}

#[test]
fn a_namespace_is_forgotten_at_once() {
    for semantics in ["cache", "store"] {
        let mut bench = Bench::new(&format!("semantics = '{semantics}'\nnamespace-delimiter = '/'"));
        let set = |key: &str| format!("set {key} 0 0 1\r\nx\r\n");
        let keys = ["user/1", "user/2/3", "user", "users/1", "user:1"];
        let sets: String = keys.into_iter().map(set).collect();
        let get = format!("get {}\r\n", keys.join(" "));
        let found = |keys: &[&str]| {
            let value = |key: &&str| format!("VALUE {key} 0 1\r\nx\r\n");
            keys.iter().map(value).collect::<String>() + "END\r\n"
        };
        let stored = "STORED\r\n".repeat(keys.len());
        assert_eq!(
            said(&mut bench, &format!("{sets}flush_namespace user\r\n{get}{}{get}", set("user/1"))),
            format!(
                "{stored}OK\r\n{}STORED\r\n{}",
                found(&["user", "users/1", "user:1"]),
                found(&["user/1", "user", "users/1", "user:1"])
            )
        );
        assert_eq!(said(&mut bench, "flush_namespace user noreply\r\nget user/1\r\n"), "END\r\n");
        assert_eq!(said(&mut bench, "flush_namespace a/\r\n").as_bytes(), reply::BAD_NAMESPACE);
        assert_eq!(stat(&mut bench, "cmd_flush_namespace"), 2);
    }
}

#[test]
fn too_many_namespaces_at_a_time_are_refused() {
    let mut bench = Bench::new("");
    said(&mut bench, "set n0:1 0 0 1\r\nx\r\n");
    let flush = |number: usize| format!("flush_namespace n{number}\r\n");
    let all: String = (0..2000).map(flush).collect();
    let answers = said(&mut bench, &all);
    let done = answers.matches("OK\r\n").count();
    let refusal = String::from_utf8_lossy(reply::TOO_MANY_NAMESPACES);
    let refused = answers.matches(&*refusal).count();
    assert_eq!(done + refused, 2000);
    assert!((1..2000).contains(&done), "{done}");
    assert_eq!(stat(&mut bench, "cmd_flush_namespace"), done as u64);
}

#[test]
fn a_store_keeps_the_old_value_when_the_new_one_is_refused() {
    let mut bench = Bench::new("semantics = 'store'\nmax-item-size = '100k'");
    let too_large = "x".repeat((100 << 10) + 1);
    let replies = said(
        &mut bench,
        &format!("set a 0 0 3\r\nold\r\nset a 0 0 {}\r\n{too_large}\r\nget a\r\n", too_large.len()),
    );
    assert_eq!(replies, "STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 3\r\nold\r\nEND\r\n");
    let value = "y".repeat(90 << 10);
    let fill = |key: usize| format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
    let filling: String = (0..60).map(fill).collect();
    let answers = said(&mut bench, &filling);
    let stored = answers.matches("STORED\r\n").count();
    let refused = answers.matches("SERVER_ERROR out of memory storing object\r\n").count();
    assert_eq!((stored + refused, refused > 10), (60, true), "{stored} stored");
    assert_eq!(stat(&mut bench, "store_no_memory"), refused as u64);
    // The old value stays where the new one has no room.
    let again = format!("set a 0 0 {}\r\n{value}\r\nget a\r\n", value.len());
    assert_eq!(
        said(&mut bench, &again),
        "SERVER_ERROR out of memory storing object\r\nVALUE a 0 3\r\nold\r\nEND\r\n"
    );
    assert_eq!(
        said(&mut bench, &format!("delete k0\r\n{again}")),
        format!("DELETED\r\nSTORED\r\nVALUE a 0 {}\r\n{value}\r\nEND\r\n", value.len())
    );
}

#[test]
fn flush_all_now_later_and_in_the_past() {
    let mut bench = Bench::new("");
    let there = "VALUE a 0 1\r\nx\r\nEND\r\n";
    let set = "set a 0 0 1\r\nx\r\n";
    assert_eq!(
        said(&mut bench, &format!("{set}flush_all\r\nget a\r\n{set}get a\r\n")),
        format!("STORED\r\nOK\r\nEND\r\nSTORED\r\n{there}")
    );
    // Before the server started there was nothing to flush.
    assert_eq!(said(&mut bench, "flush_all 3000000\r\nget a\r\n"), format!("OK\r\n{there}"));
    assert_eq!(said(&mut bench, &format!("flush_all -1\r\nget a\r\n{set}")), "OK\r\nEND\r\nSTORED\r\n");
    assert_eq!(said(&mut bench, "flush_all 5\r\nget a\r\n"), format!("OK\r\n{there}"));
    bench.now_s += 5;
    assert_eq!(said(&mut bench, "get a\r\n"), "END\r\n");
    assert_eq!(stat(&mut bench, "cmd_flush"), 4);
}

#[test]
fn statistics_count_as_memcached_does() {
    let mut bench = Bench::new("");
    said(
        &mut bench,
        "set a 0 0 1\r\n1\r\nget a b\r\ngat 0 a b\r\ntouch a 0\r\ntouch b 0\r\nincr a 1\r\nincr b 1\r\n\
         decr a 1\r\n\
         gets a\r\ncas a 0 0 1 1\r\nx\r\ncas b 0 0 1 1\r\nx\r\ndelete a\r\ndelete a\r\n\
         set t 0 0 1\r\nx\r\nincr t 1\r\n",
    );
    for (name, count) in [
        ("cmd_get", 5),
        ("get_hits", 2),
        ("get_misses", 1),
        ("cmd_touch", 4),
        ("touch_hits", 2),
        ("touch_misses", 2),
        ("incr_hits", 1),
        ("incr_misses", 1),
        ("decr_hits", 1),
        ("cas_badval", 1),
        ("cas_misses", 1),
        ("cas_hits", 0),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("cmd_set", 4),
        ("curr_items", 1),
    ] {
        assert_eq!(stat(&mut bench, name), count, "{name}");
    }
    assert_eq!(said(&mut bench, "stats reset\r\n"), "RESET\r\n");
    assert_eq!(stat(&mut bench, "cmd_get"), 0);
    assert_eq!(stat(&mut bench, "curr_items"), 1);
}

#[test]
fn statistics_have_unique_names_and_values_of_one_word() {
    let mut bench = Bench::new("");
    for command in ["stats\r\n", "stats settings\r\n"] {
        let all = said(&mut bench, command);
        assert!(all.len() < crate::limits::STATS_REPLY_BYTES_MAX);
        let lines: Vec<_> = all.strip_suffix("END\r\n").unwrap().lines().collect();
        let mut names: Vec<_> = lines
            .iter()
            .map(|line| {
                let words: Vec<_> = line.split(' ').collect();
                // The reason may be a sentence of the kernel's.
                let one_word = words.len() == 3 || words[1] == "io_backend_reason";
                assert!(words[0] == "STAT" && one_word, "{line}");
                words[1]
            })
            .collect();
        assert!(names.len() > 20);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), lines.len());
    }
}

#[test]
fn shutdown_needs_its_option() {
    let mut closed = Bench::new("");
    let refused = std::str::from_utf8(reply::SHUTDOWN_DISABLED).unwrap();
    assert_eq!(said(&mut closed, "shutdown\r\nmn\r\n"), format!("{refused}MN\r\n"));
    assert_eq!(closed.server.shared.ending(), Ending::Not);
    let mut open = Bench::new("enable-shutdown = true");
    assert_eq!(said(&mut open, "mn\r\nshutdown graceful\r\nmn\r\n"), "MN\r\n");
    assert_eq!(open.server.shared.ending(), Ending::Gracefully);
    assert_eq!(said(&mut open, "shutdown\r\n"), "");
    assert_eq!(open.server.shared.ending(), Ending::AtOnce);
}

#[test]
fn every_value_up_to_the_largest_comes_back() {
    let mut bench = Bench::new("memory-limit = 64\nmax-item-size = '4m'");
    for bytes in [0, 1, 255, 16_300, 16_384, 65_000, 65_536, 70_000, 1 << 20, 4 << 20] {
        let value: String = (0..bytes).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        let all = said(&mut bench, &format!("set v 3 0 {bytes}\r\n{value}\r\nget v\r\nget none v\r\nmn\r\n"));
        let get = format!("VALUE v 3 {bytes}\r\n{value}\r\nEND\r\n");
        assert!(all == format!("STORED\r\n{get}{get}MN\r\n"), "{}", size::text(bytes));
    }
}
