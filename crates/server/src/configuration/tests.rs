//! Options of every source, and what comes of wrong ones.

use std::net::SocketAddr;

use clap::{Args, Command, FromArgMatches};
use micanite_control::size;

use micanite_engine::{Access, Semantics};

use super::{Arguments, Options, Settings, UsageError, offered};

pub fn options(arguments: &str) -> Result<Options, String> {
    let mut options = parse(arguments)?.options;
    options.split_port();
    Ok(options)
}

pub fn parse(arguments: &str) -> Result<Arguments, String> {
    let command = Arguments::augment_args(Command::new("serve").args_override_self(true));
    let words = std::iter::once("serve").chain(arguments.split_whitespace());
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
}

pub fn settings(arguments: &str) -> Result<Settings, String> {
    Settings::of(&options(arguments)?, 3).map_err(|UsageError(text)| text)
}

#[test]
fn defaults() {
    let settings = settings("").unwrap();
    assert_eq!(settings.listen.addresses, ["127.0.0.1:11211".parse().unwrap()]);
    assert_eq!(settings.memory_bytes, 64 << 20);
    assert_eq!(settings.item_bytes_max, 1 << 20);
    assert_eq!((settings.threads, settings.connections_max), (3, 1024));
    assert_eq!((settings.turn_requests_max, settings.backlog), (64, 1024));
    assert_eq!(settings.unix_mode, 0o700);
    assert_eq!(settings.value_buffer_bytes, 16 << 20);
    assert!(!settings.daemon && !settings.shutdown_enabled && settings.unix_socket.is_none());
}

#[test]
fn the_letters_that_memcached_has() {
    let settings = settings(
        "-p 1234 -l 127.0.0.1,127.0.0.2:99 -l [::1] -a 0666 -m 100 -t 2 -c 7 -I 2m -R 20 -b 5 -vv -u me -P \
         /x -d -A -U 0",
    )
    .unwrap();
    let addresses: Vec<_> = settings.listen.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1:1234", "127.0.0.2:99", "[::1]:1234"]);
    assert_eq!((settings.unix_mode, settings.memory_bytes, settings.threads), (0o666, 100 << 20, 2));
    assert_eq!((settings.connections_max, settings.item_bytes_max), (7, 2 << 20));
    assert_eq!((settings.turn_requests_max, settings.backlog, settings.verbosity), (20, 5, 2));
    assert_eq!(
        (settings.user.as_deref(), settings.daemon, settings.shutdown_enabled),
        (Some("me"), true, true)
    );
    assert_eq!(settings.pidfile.unwrap().to_str(), Some("/x"));
}

#[test]
fn a_unix_socket_stands_for_tcp_unless_a_port_is_asked_for() {
    assert!(settings("-s /x").unwrap().listen.addresses.is_empty());
    assert_eq!(settings("-s /x -p 5").unwrap().listen.addresses.len(), 1);
    assert_eq!(settings("-p -1").unwrap().listen.addresses[0].port(), 0);
}

#[test]
fn sizes() {
    for (text, bytes) in
        [("64", 64 << 20), ("1g", 1 << 30), ("2048k", 2 << 20), ("5M", 5 << 20), ("2t", 2 << 40)]
    {
        assert_eq!(settings(&format!("-m {text}")).unwrap().memory_bytes, bytes, "{text}");
    }
    for (text, bytes) in [("2048", 2048), ("1k", 1024), ("3m", 3 << 20), ("16M", 16 << 20)] {
        assert_eq!(settings(&format!("-I {text}")).unwrap().item_bytes_max, bytes, "{text}");
    }
    assert_eq!(size::text(1536), "1.5 KiB");
    assert_eq!(size::text(64 << 20), "64 MiB");
    assert_eq!(size::text(12), "12 B");
}

#[test]
fn the_native_protocol_is_off_until_it_is_asked_for() {
    assert_eq!(settings("").unwrap().native, None);
    assert_eq!(settings("--native 0").unwrap().native, None);
    let native = settings("-p 0 --native 9000 --native-payload 8000 --native-gro off -l 127.0.0.1,::1");
    let native = native.unwrap().native.unwrap();
    assert_eq!((native.port, native.payload_bytes, native.gro), (9000, 8000, false));
    assert_eq!(native.addresses.len(), 2);
}

#[test]
fn udp_is_off_unless_it_is_asked_for() {
    assert_eq!(settings("").unwrap().udp, None);
    assert_eq!(settings("-p 5").unwrap().udp, None);
    assert_eq!(settings("-U 0").unwrap().listen.port, 11211);
    let of = |arguments: &str| {
        let settings = settings(arguments).unwrap();
        let udp = settings.udp.unwrap();
        let ports = |addresses: &[SocketAddr]| addresses.iter().map(|of| of.port()).collect();
        let tcp: Vec<_> = ports(&settings.listen.addresses);
        (tcp, ports(&udp.addresses), udp.allow.to_string())
    };
    let loopback = "127.0.0.0/8,::1/128".to_owned();
    assert_eq!(of("-U 5"), (vec![5], vec![5], loopback.clone()));
    assert_eq!(of("-U 5 -p 6"), (vec![6], vec![5], loopback.clone()));
    assert_eq!(of("-U 5 -p 0"), (vec![], vec![5], loopback.clone()));
    assert_eq!(of("-U -1"), (vec![0], vec![0], loopback.clone()));
    assert_eq!(of("-U 5 -s /tmp/x"), (vec![], vec![5], loopback.clone()));
    assert_eq!(
        of("-U 5 -Z -o ssl_chain_cert=a,ssl_key=b -l notls:127.0.0.1"),
        (vec![5], vec![5], loopback.clone())
    );
    let two = "-U 5 -p 6 -l 127.0.0.1:7,::1 --udp-allow 10.0.0.0/8";
    assert_eq!(of(two), (vec![7, 6], vec![7, 5], "10.0.0.0/8".into()));
}

#[test]
fn wrong_values_are_named() {
    for (arguments, part) in [
        ("-p 70000", "-p/--port"),
        ("-p x", "-p/--port"),
        ("-p 0", "neither a Unix socket"),
        ("--native 70000", "--native"),
        ("--native 65535 -t 2", "the last port would be 65536"),
        ("--native 9000 --native-payload 100", "1232 to 65507"),
        ("--native 9000 --native-queue 1", "4k to 1g"),
        ("--native 9000 --native-gro maybe", "none of on, off"),
        ("--native 9000 --native-busy-poll x", "no number"),
        ("-l 127.0.0.1:x", "-l/--listen"),
        ("-c 0", "-c/--max-connections"),
        ("-c -1", "-c/--max-connections"),
        ("-t 0", "-t/--threads"),
        ("-t two", "'two' is no number"),
        ("-I 1000", "1k to 1g"),
        ("-I 2g", "1k to 1g"),
        ("-I 256m", "-I/--max-item-size"),
        ("-I 256m -m 64", "64 MiB of memory"),
        ("-m 0", "-m/--memory-limit"),
        ("-m -5", "-m/--memory-limit"),
        ("-m 64q", "no size"),
        ("-m 99999999999999999999", "too much"),
        ("-m 999999999999t", "too much"),
        ("-R 0", "-R/--max-requests-per-event"),
        ("-b 0", "-b/--listen-backlog"),
        ("-a 999", "-a/--unix-mask"),
        ("-U 70000", "-U/--udp-port"),
        ("-U x", "-U/--udp-port"),
        ("-U 1 --udp-allow here", "--udp-allow: 'here' is no network"),
        ("-U 1 --udp-allow 10.0.0.1/8", "bits behind"),
        ("--item-size 1", "--item-size"),
        ("--eviction best", "s3-fifo, clock, approximate-lru"),
        ("--eviction fifo -M", "does not evict"),
        ("--semantics shop", "cache or store"),
        ("--semantics cache -M", "-M forbids"),
        ("--access crow", "erew, crew or crcw"),
        ("--balance maybe", "auto"),
        ("-D ::", "one printable ASCII character"),
        ("-D é", "one printable ASCII character"),
        ("--value-buffers 1k", "--value-buffers"),
        ("--hash-seed x", "--hash-seed"),
    ] {
        let error = settings(arguments).expect_err(arguments);
        assert!(error.contains(part), "{arguments}: {error}");
    }
    assert!(options("--bogus").is_err());
    assert!(options("-p").is_err());
}

#[test]
fn small_memories_have_smaller_values_unless_told() {
    let small = settings("-m 1").unwrap();
    assert!(small.item_bytes_max < 512 << 10 && small.item_bytes_max >= 128 << 10);
    assert!(settings("-m 1 -I 1m").is_err());
    let allowed = settings("-m 64").unwrap().item_bytes_allowed();
    let most = format!("-m 64 -I {}k", allowed >> 10);
    assert!(settings(&most).is_ok(), "{most}");
    assert!(settings(&format!("-m 64 -I {}k", (allowed >> 10) + 1)).is_err());
    assert!(allowed <= 32 << 20);
}

#[test]
fn a_file_fills_in_what_is_not_said() {
    let name = format!("micanite-options-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text = "port = 5\nlisten = ['127.0.0.1', '::1']\nmemory-limit = '2g'\nthreads = 7\ndaemon = true\n\
                verbose = 1\n";
    std::fs::write(&path, text).unwrap();
    let from = |arguments: &str| {
        let arguments = format!("{arguments} --config {}", path.display());
        parse(&arguments).unwrap().options()
    };
    let settings = Settings::of(&from("-t 1").unwrap(), 3).unwrap();
    assert_eq!((settings.listen.port, settings.threads, settings.memory_bytes), (5, 1, 2 << 30));
    assert_eq!((settings.listen.addresses.len(), settings.daemon, settings.verbosity), (2, true, 1));
    let off = Settings::of(&from("--daemon=false -l 127.0.0.9").unwrap(), 3).unwrap();
    assert_eq!((off.listen.addresses.len(), off.daemon), (1, false));

    std::fs::write(&path, "ports = 5\n").unwrap();
    assert!(from("").unwrap_err().0.contains("ports"));
    std::fs::remove_file(&path).unwrap();
    assert!(from("").unwrap_err().0.contains("cannot read"));
}

#[test]
fn what_is_printed_leads_to_the_same_settings() {
    for arguments in [
        "",
        "-p 7 -l 127.0.0.1:8 -l ::1 -s /tmp/x -a 660 -m 1500000b -t 4 -c 9 -I 5k -R 3 -b 2 -v -u me \
         -P /p -d -A",
        "--item-size 17 --eviction fifo --value-buffers 3m --hash-seed 18446744073709551615",
        "-M --access crew --balance auto -D / --control-socket /tmp/x.ctl --image /tmp/image",
        "--semantics store --access erew -D - --control-socket none",
        "--io auto",
        "-B ascii -F -X -W -k -r -C -L -f 1.25 -n 48 -N 1",
        "-B binary -o slab_automove,track_sizes,slab_automove_ratio=0.5",
        "-Y /users -S --tls-cert /c --tls-key /k --tls-client-ca /a -l mtls:127.0.0.1:5,notls:127.0.0.1",
        "-Z -o ssl_chain_cert=/c,ssl_ca_cert=/a,ssl_verify_mode=1,ssl_min_version=3,ssl_ciphers=A:B",
        "--tls-cert /c --tls-client-ca /a -o ssl_verify_mode=0,modern",
        "-Z -o ssl_chain_cert=/c,ssl_ca_cert=/a",
    ] {
        let first = settings(arguments).unwrap();
        let text = first.options().to_string();
        let again = Settings::of(&toml::from_str(&text).unwrap(), 1).unwrap();
        assert_eq!(again.options(), first.options(), "{text}");
        assert_eq!(Settings { said: first.said.clone(), ..again }, first, "{text}");
    }
}

/// Completions offer them.
#[test]
fn every_value_that_an_option_lists_is_taken() {
    let names = ["io", "semantics", "eviction", "access", "balance", "numa"];
    for option in offered().iter().filter(|option| names.contains(&option.name.as_str())) {
        assert!(option.choices.len() >= 2, "--{}", option.name);
        for choice in option.choices {
            let taken = settings(&format!("--{} {choice}", option.name));
            assert!(taken.is_ok(), "{taken:?}");
        }
    }
}

#[test]
fn the_size_of_an_item_is_a_size() {
    for (text, bytes) in [("--item-size 17", 17), ("--item-size 1.5m", 3 << 19), ("--item-size 4KiB", 4096)] {
        assert_eq!(settings(text).unwrap().item_bytes_hint, Some(bytes), "{text}");
    }
}

#[test]
fn a_store_by_either_name() {
    for arguments in ["-M", "--disable-evictions", "--semantics store", "-M --semantics store"] {
        assert_eq!(settings(arguments).unwrap().semantics, Semantics::Store, "{arguments}");
    }
    let off = settings("--disable-evictions=false").unwrap();
    assert_eq!(off.semantics, Semantics::Cache);
}

#[test]
fn the_command_line_turns_the_cache_of_a_file_into_a_store() {
    let file = settings("--eviction fifo").unwrap().options();
    let both = options("-M").unwrap().or(file);
    let settings = Settings::of(&both, 3).unwrap();
    assert_eq!(settings.semantics, Semantics::Store);
}

#[test]
fn the_engine_is_told() {
    let settings = settings("-t 2 -M --access erew -D /").unwrap();
    let config = settings.engine(5);
    assert_eq!((config.semantics, config.access), (Semantics::Store, Access::Erew));
    assert_eq!((config.namespace_delimiter, config.seed), (Some(b'/'), 5));
    assert_eq!(config.item_bytes_hint, None);
}

#[test]
fn a_word_is_any_toml_value() {
    let read: Options = toml::from_str("port = '11'\nmemory-limit = 5").unwrap();
    assert_eq!((read.port.text(), read.memory_limit.text()), (Some("11"), Some("5")));
}

#[test]
fn ports_around_the_kernel_stand_beside_that_of_tcp() {
    let both = settings("-p 5 --bypass xdp:eth0 -t 3").unwrap();
    assert_eq!(both.listen.addresses[0].port(), 5);
    let native = both.native.as_ref().unwrap();
    assert_eq!((native.port, native.payload_is_default), (11300, true));
    let ports = &both.bypass().unwrap().ports;
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0].name.to_string(), "xdp:eth0");
    assert_eq!((&ports[0].addresses, ports[0].workers.clone()), (&vec![], 0..3));
    let alone = settings("--bypass xdp:eth0").unwrap();
    assert_eq!(alone.listen.addresses[0].port(), 11211);
    assert!(settings("-p 0 --bypass xdp:eth0").unwrap().listen.addresses.is_empty());
    let two = "-t 3 --native 9000 --bypass xdp:a --bypass xdp:b --bypass-ip 10.0.0.1/24,fd00::1/64 \
               --bypass-ip 10.0.1.1/24";
    let two = settings(two).unwrap();
    let ports = &two.bypass().unwrap().ports;
    assert_eq!((ports[0].workers.clone(), ports[1].workers.clone()), (0..2, 2..3));
    assert_eq!((ports[0].addresses.len(), ports[1].addresses.len()), (2, 1));
    let dpdk = "--port dpdk:net_memif0,role=server --port-ip 10.0.0.1/24 --port-gateway 10.0.0.9";
    let mut options = options(dpdk).unwrap();
    options.bypass_dpdk_args.set("--no-huge  -m 64");
    let dpdk = Settings::of(&options, 3).unwrap();
    let bypass = dpdk.bypass().unwrap();
    assert_eq!(bypass.dpdk_arguments, ["--no-huge", "-m", "64"]);
    for settings in [both, alone, two, dpdk] {
        let text = settings.options().to_string();
        let read = Settings::of(&toml::from_str(&text).unwrap(), 3).unwrap();
        assert_eq!(read.bypass(), settings.bypass(), "{text}");
        assert_eq!(read.listen, settings.listen, "{text}");
    }
}

#[test]
fn what_does_not_go_with_a_port_around_the_kernel_is_said() {
    for (arguments, part) in [
        ("--port xdp:", "'xdp:' names no device"),
        ("--port eth0", "'eth0' is no port"),
        ("--port xdp:a --native 0", "leave one of the two out"),
        ("--port xdp:a --native -1", "which ports are free"),
        ("--port xdp:a --native 65535 -t 2", "would be 65536"),
        ("--port xdp:a --port xdp:a", "named twice"),
        ("--port xdp:a --port xdp:b -t 1", "2 ports for 1 worker (-t)"),
        ("--port xdp:a -Y /x", "--bypass xdp:a: this protocol has no auth"),
        ("--port dpdk:x", "no addresses of its own"),
        ("--port dpdk:x --port-ip 10.0.0.1", "length of its prefix"),
        ("--port dpdk:x --port-ip 10.0.0.1/24 --port-gateway x", "no IP address"),
        ("--port xdp:a --port xdp:b --port-ip 10.0.0.1/24", "once for each"),
        ("--port-ip 10.0.0.1/24", "no --bypass xdp: or dpdk:"),
        ("--port xdp:a --dpdk-args x", "no --bypass dpdk:"),
        ("--port xdp:a --port-gateway 10.0.0.1", "no --bypass dpdk:"),
        ("--port dpdk:x --port-ip 10.0.0.1/24 --port-busy-poll 1", "no --bypass xdp:"),
        ("--port xdp:a --native-busy-poll 5", "--bypass-busy-poll"),
    ] {
        let error = settings(arguments).unwrap_err();
        assert!(error.contains(part), "{arguments}: {error}");
    }
}

/// The tables of `--help` fit a terminal, and no two options share a name or a letter.
#[test]
fn names_are_unique_and_tables_fit() {
    assert!(super::tables().lines().all(|line| line.len() < 100));
    let options = Options::default();
    let declared = || options.values().into_iter().map(|value| &value.declared);
    for (place, option) in declared().enumerate() {
        for other in declared().take(place) {
            assert_ne!(option.path, other.path);
            assert!(option.letter.is_none() || option.letter != other.letter, "{}", option.name);
        }
    }
}

#[test]
fn an_address_that_is_empty_is_refused() {
    for arguments in ["-l ,", "-l , -p 0 --native 5", "-l , -s /x -p 7"] {
        let error = settings(arguments).unwrap_err();
        assert!(error.contains("-l/--listen: it names no address"), "{arguments}: {error}");
    }
    assert!(settings("-p 127.0.0.1:5").unwrap_err().contains("-p/--port: '127.0.0.1:5' is no port"));
}

/// Printed options combine with further ones. Their paths are absolute, so that they hold in any directory.
#[test]
fn what_is_printed_takes_tls_and_has_absolute_paths() {
    let printed = settings("").unwrap().options();
    let tls = Settings::of(&options("--tls-cert /c").unwrap().or(printed), 3).unwrap();
    assert!(tls.tls.is_some());
    let relative = settings("-Z -o ssl_chain_cert=c.pem,ssl_key=k.pem").unwrap().options();
    for option in [&relative.tls_cert, &relative.tls_key] {
        assert!(option.text().unwrap().starts_with('/'), "{option:?}");
    }
}
