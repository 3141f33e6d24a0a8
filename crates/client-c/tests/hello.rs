//! Compiles the C example, links it both ways and as installed, and runs it against a real server.

mod build;
#[path = "../../client/tests/common/mod.rs"]
mod common;
#[cfg(feature = "libfabric")]
#[path = "../../fabric/tests/ports/mod.rs"]
mod ports;

use build::{here, include, library, shared_flags};
use common::Server;
use micanite_test_skip::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXPECTED: &str = "\
hello, flags 7
cas 0
cas again 2
add 3
touch 0
visits 42
increment: the value is not a decimal number below 2^64
greeting 0 5
visits 0 2
long 0 100000
nothing 1 0
delete 0
delete again 1
";

#[test]
fn server_process() {
    common::serve_if_child();
}

/// Compiles the example as a program of a name.
fn compile(name: &str, flags: &[String]) -> PathBuf {
    build::compile("examples/hello.c", &format!("hello-{name}"), flags)
}

fn hello(program: &Path, servers: &str) -> (bool, String, String) {
    hello_with(program, servers, library("libmicanite.so").parent().unwrap())
}

fn hello_with(program: &Path, servers: &str, libraries: &Path) -> (bool, String, String) {
    let ran = Command::new(program).arg(servers).env("LD_LIBRARY_PATH", libraries).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ran.status.success(), text(ran.stdout), text(ran.stderr))
}

fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Proves that the installed library is found by pkg-config alone, and that its version is ours.
#[test]
fn pkg_config_finds_the_installed_library() {
    for tool in ["cc", "pkg-config"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skip(format_args!("there is no {tool}"));
        }
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let _ = std::fs::remove_dir_all(&prefix);
    let built = library("libmicanite.so").parent().unwrap().to_owned();
    assert!(built.join("libmicanite.a").exists(), "cargo builds both in one place");
    output(Command::new(here().join("../../packaging/install-c")).arg(built).arg(&prefix));
    let pkg_config = |words: &[&str]| {
        let folder = prefix.join("lib/pkgconfig");
        output(Command::new("pkg-config").env("PKG_CONFIG_PATH", folder).args(words).arg("micanite"))
    };
    assert_eq!(pkg_config(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let flags = pkg_config(&["--cflags", "--libs"]);
    let flags: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
    let program = compile("pkg-config", &flags);
    let server = Server::start("-t 1");
    let (succeeded, out, error) = hello_with(&program, &server.native, &prefix.join("lib"));
    assert_eq!((succeeded, out.as_str(), error.as_str()), (true, EXPECTED, ""));
}

#[test]
fn the_example_prints_the_expected_lines() {
    if Command::new("cc").arg("--version").output().is_err() {
        return skip("there is no C compiler (cc)");
    }
    let place = std::env::temp_dir().join(format!("micanite-hello-{}", std::process::id()));
    let server = Server::start(&format!("-t 2 --local {}", place.display()));
    let shared = shared_flags();
    let archive = library("libmicanite.a").display().to_string();
    let system: &[_] = match cfg!(feature = "dpdk") {
        true => &["-lrte_ethdev", "-lrte_mempool", "-lrte_mbuf", "-lrte_eal"],
        false => &[],
    };
    let system = [&["-lpthread", "-ldl", "-lm"], system].concat();
    let system = system.into_iter().map(str::to_owned);
    let archive: Vec<_> = [include(), archive].into_iter().chain(system).collect();
    for (name, flags) in [("shared", &shared[..]), ("archive", &archive)] {
        let program = compile(name, flags);
        let (succeeded, out, error) = hello(&program, &server.native);
        assert_eq!((succeeded, out.as_str(), error.as_str()), (true, EXPECTED, ""));
        let (succeeded, out, error) = hello(&program, &format!("local://{}", place.display()));
        assert_eq!((succeeded, out.as_str(), error.as_str()), (true, EXPECTED, ""));

        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = silent.local_addr().unwrap().to_string();
        let (succeeded, _, error) = hello(&program, &name);
        assert!(!succeeded && error.contains(&format!("no reply from {name}")), "{error}");
    }
    drop(server);
    let _ = std::fs::remove_file(place);
}

/// Proves that the example works over a fabric, without a change but the server's name.
#[cfg(feature = "libfabric")]
#[test]
fn the_example_works_over_a_fabric() {
    if Command::new("cc").arg("--version").output().is_err() {
        return skip("there is no C compiler (cc)");
    }
    let address = format!("127.0.0.1:{}", ports::free_ports(1));
    let _server = Server::start(&format!("-t 1 --fabric tcp;ofi_rxm,{address}"));
    let program = compile("fabric", &shared_flags());
    let (succeeded, out, error) = hello(&program, &format!("fabric://{address}?provider=tcp;ofi_rxm"));
    assert_eq!((succeeded, out.as_str(), error.as_str()), (true, EXPECTED, ""));
}

#[test]
fn the_header_compiles_as_cxx() {
    if Command::new("c++").arg("--version").output().is_err() {
        return skip("there is no C++ compiler (c++)");
    }
    let header = here().join("include/micanite.h");
    let checked = Command::new("c++")
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++"])
        .arg(header)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
