//! Sources of options: command line, environment, file.

use super::{Options, UNSAID};
use crate::configuration::tests::{options, parse};

#[test]
fn the_command_line_and_a_file_may_each_say_one_of_the_two_ports() {
    let file = || toml::from_str("port = [7, 'xdp:a']").unwrap();
    for (arguments, port, bypass) in [
        ("", "7", "xdp:a"),
        ("-p 5", "5", "xdp:a"),
        ("--port xdp:b", "7", "xdp:b"),
        ("--bypass xdp:b", "7", "xdp:b"),
    ] {
        let both = options(arguments).unwrap().or(file());
        assert_eq!((both.port.words(), both.bypass.words()), (&[port.into()][..], &[bypass.into()][..]));
    }
}

#[test]
fn both_ports_in_one_word_are_not_overruled_by_a_file() {
    let environment: Options = toml::from_str("port = '5 xdp:b'").unwrap();
    let both = environment.or(toml::from_str("port = '7 xdp:a'").unwrap());
    assert_eq!((both.port.text(), both.bypass.words()), (Some("5"), &["xdp:b".into()][..]));
}

/// A port and a device were one option: a word of the command line leaves nothing of the environment's.
#[test]
fn the_command_line_replaces_the_whole_port_of_the_environment() {
    for (arguments, environment, port, bypass) in [
        ("-p 5", "tcp://10.0.0.1:11211", Some("5"), None),
        ("-p 0", "11300 xdp:lo", Some("0"), None),
        ("-p xdp:lo", "7", None, Some("xdp:lo")),
        ("--bypass xdp:a", "7 xdp:b", Some("7"), Some("xdp:a")),
        ("", "7 xdp:b", Some("7"), Some("xdp:b")),
    ] {
        let mut lower = Options::default();
        lower.port.set(environment);
        let mut both = parse(arguments).unwrap().options.join(lower);
        both.split_port();
        assert_eq!((both.port.text(), both.bypass.text()), (port, bypass), "{arguments} {environment}");
    }
}

#[test]
fn semantics_of_the_command_line_leave_an_eviction_policy_beside_the_file() {
    let both = parse("--semantics cache --set eviction=lru").unwrap().options().unwrap();
    assert_eq!(both.eviction.text(), Some("lru"));
}

/// A section and flat names lead to the same options, and `--set` wins over both.
#[test]
fn sections_and_set_name_the_same_options() {
    let flat: Options = toml::from_str("native = 9000\nnative-payload = 2000").unwrap();
    let section: Options = toml::from_str("[native]\nport = 9000\npayload = 2000").unwrap();
    assert_eq!(flat, section);
    let set = parse("--set native.payload=3000 --set threads=2").unwrap().options().unwrap().or(section);
    assert_eq!((set.native_payload.text(), set.threads.text()), (Some("3000"), Some("2")));
    assert_eq!(set.native.text(), Some("9000"));
}

/// A key that is none gets the nearest one named, but never one that is for tests or refused.
#[test]
fn the_nearest_key_is_suggested_and_no_hidden_one() {
    let said = |key: &str| toml::from_str::<Options>(&format!("{key} = 1")).unwrap_err().to_string();
    for (key, suggested) in [
        ("thread", "'threads'"),
        ("memory-limti", "'memory-limit'"),
        ("admin-host", "'admin-hosts'"),
        ("native.busy-pol", "'native.busy-poll'"),
    ] {
        assert!(said(key).contains(&format!("did you mean {suggested}?")), "{key}: {}", said(key));
    }
    let values = UNSAID.values();
    let hidden: Vec<_> = values.iter().filter(|value| value.declared.is_hidden()).collect();
    assert!(hidden.len() >= 3);
    for value in hidden {
        let name = &value.declared.name;
        for key in [format!("{name}x"), name[..name.len() - 1].into()] {
            assert!(!said(&key).contains(&format!("'{name}'")), "{}", said(&key));
        }
    }
}
