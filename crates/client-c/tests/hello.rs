//! Compiles the C example, links it both ways, and runs it against a real server.

#[path = "../../client/tests/common/mod.rs"]
mod common;

use common::Server;
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

/// Finds cargo's library: beside the test, or above it.
fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join(name));
    places.find(|place| place.exists()).unwrap_or_else(|| panic!("cargo has built no {name}"))
}

fn compile(example: &Path, link: &[String]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hello-{}", link.len()));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(here.join("include"))
        .arg(example)
        .args(link)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    program
}

fn hello(program: &Path, servers: &str) -> (bool, String, String) {
    let folder = library("libmicanite.so").parent().unwrap().to_owned();
    let ran = Command::new(program).arg(servers).env("LD_LIBRARY_PATH", folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ran.status.success(), text(ran.stdout), text(ran.stderr))
}

#[test]
fn the_example_prints_the_expected_lines() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: there is no C compiler (cc)");
        return;
    }
    let place = std::env::temp_dir().join(format!("micanite-hello-{}", std::process::id()));
    let server = Server::start(&format!("-t 2 --local {}", place.display()));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello.c");
    let shared = library("libmicanite.so");
    let folder = shared.parent().unwrap().display();
    let shared = [format!("-L{folder}"), "-lmicanite".to_owned()];
    let archive = library("libmicanite.a").display().to_string();
    let system: &[_] = match cfg!(feature = "dpdk") {
        true => &["-lrte_ethdev", "-lrte_mempool", "-lrte_mbuf", "-lrte_eal"],
        false => &[],
    };
    let system = [&["-lpthread", "-ldl", "-lm"], system].concat();
    let system = system.into_iter().map(str::to_owned);
    let archive: Vec<_> = std::iter::once(archive).chain(system).collect();
    for link in [&shared[..], &archive] {
        let program = compile(&example, link);
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
        println!("skipped: there is no C compiler (cc)");
        return;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let _server = Server::start(&format!("-t 1 --fabric tcp;ofi_rxm,{address}"));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello.c");
    let folder = library("libmicanite.so").parent().unwrap().display().to_string();
    let program = compile(&example, &[format!("-L{folder}"), "-lmicanite".to_owned(), String::from("-lm")]);
    let (succeeded, out, error) = hello(&program, &format!("fabric://{address}?provider=tcp;ofi_rxm"));
    assert_eq!((succeeded, out.as_str(), error.as_str()), (true, EXPECTED, ""));
}

#[test]
fn the_header_compiles_as_cxx() {
    if Command::new("c++").arg("--version").output().is_err() {
        println!("skipped: there is no C++ compiler (c++)");
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/micanite.h");
    let checked = Command::new("c++")
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++"])
        .arg(header)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
