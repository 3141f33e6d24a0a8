//! Checks each sentence of the header, by a program in C against real servers.

mod build;
#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use common::Server;

#[test]
fn server_process() {
    common::serve_if_child();
}

#[test]
fn each_sentence_of_the_header_holds() {
    if Command::new("cc").arg("--version").output().is_err() {
        return micanite_test_skip::skip("there is no C compiler (cc)");
    }
    let flags = [build::shared_flags(), vec!["-pthread".to_owned()]].concat();
    let program = build::compile("tests/header.c", "header", &flags);
    let place = std::env::temp_dir().join(format!("micanite-header-{}", std::process::id()));
    let local = format!("local://{}", place.display());
    let first = Server::start(&format!("-t 2 --local {}", place.display()));
    let mut second = Some(Server::start("-t 1"));
    let store = Server::start("-t 1 -M");
    let mut ran = Command::new(program)
        .args([&first.native, &second.as_ref().unwrap().native, &store.native, &local])
        .env("LD_LIBRARY_PATH", build::library("libmicanite.so").parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = ran.stdin.take().unwrap();
    let mut is_done = false;
    for line in BufReader::new(ran.stdout.take().unwrap()).lines() {
        match &*line.unwrap() {
            "stop" => first.stop(),
            "continue" => first.resume(),
            "kill" => drop(second.take()),
            "done" => {
                is_done = true;
                continue;
            }
            other => panic!("the program says '{other}'"),
        }
        writeln!(input).unwrap();
    }
    assert!(ran.wait().unwrap().success() && is_done);
    std::fs::remove_file(place).unwrap();
}
