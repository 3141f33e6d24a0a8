//! The golden datagrams of `testdata/native.txt`.

use std::path::Path;

use super::super::*;
use super::words;
use crate::hash::KeyHash;

/// Reads the blocks of the file, each as its lines.
fn blocks() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/native.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut blocks = vec![Vec::new()];
    for line in lines {
        if line.trim().is_empty() {
            blocks.push(Vec::new());
        } else {
            blocks.last_mut().unwrap().push(line.to_owned());
        }
    }
    blocks.retain(|block: &Vec<String>| !block.is_empty());
    blocks
}

/// Returns the blocks of a kind: name, lines, bytes.
fn blocks_of(kind: &str) -> Vec<(String, Vec<String>, Vec<u8>)> {
    let mut found = Vec::new();
    for block in blocks() {
        let Some(name) = block[0].strip_prefix(&format!("{kind} ")) else {
            continue;
        };
        let (mut words, mut digits) = (Vec::new(), String::new());
        for line in &block[1..] {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("hex", more) => digits += more,
                ("note", _) => {}
                _ => words.push(line.trim().to_owned()),
            }
        }
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        found.push((name.to_owned(), words, bytes.collect()));
    }
    found
}

#[test]
fn golden_datagrams_in_both_directions() {
    let all = blocks_of("datagram");
    assert!(all.len() > 50);
    for (name, lines, bytes) in &all {
        assert_eq!(words::describe(bytes), *lines, "{name}: read");
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(words::write(&lines), *bytes, "{name}: written");
    }
    let contains = |start: String| all.iter().any(|(_, lines, _)| has_line(lines, &start));
    for opcode in Opcode::ALL {
        let opcode = words::name(opcode);
        assert!(contains(format!("request {opcode}")), "no request {opcode}");
        assert!(contains(format!("reply {opcode} ok")), "no reply to {opcode}");
    }
    for status in Status::ALL {
        let status = format!(" {}", words::name(status));
        let has = |line: &String| {
            line.starts_with("repl") && (line.clone() + " ").contains(&(status.clone() + " "))
        };
        assert!(all.iter().any(|(_, lines, _)| lines.iter().any(has)), "no reply{status}");
    }
}

fn has_line(lines: &[String], start: &str) -> bool {
    let same = |line: &String| line == start || line.starts_with(&format!("{start} "));
    lines.iter().any(same)
}

#[test]
fn golden_hashes() {
    let mut checked = 0;
    for line in blocks().concat() {
        let Some(rest) = line.strip_prefix("hash ") else {
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().map(|word| word.split_once('=').unwrap().1).collect();
        let [key, seed, hash] = fields[..] else { panic!("{line}") };
        let hashed = KeyHash::of(&words::bytes(key), words::number(seed));
        assert_eq!(hashed.0, words::number(hash), "{line}");
        checked += 1;
    }
    assert!(checked > 40);
}

/// Returns a server's reaction to a datagram before it looks up keys.
fn outcome(datagram: &[u8]) -> Option<Status> {
    // Other kinds are for fabrics, or servers send them.
    let asks = |kind| matches!(kind, Kind::Requests | Kind::DirectoryRequest);
    match Header::read(datagram) {
        Err(HeaderError::NotOurs) => None,
        Err(HeaderError::Refused { status, header }) => asks(header.kind).then_some(status),
        Ok(header) if !asks(header.kind) => None,
        Ok(header) if header.kind == Kind::DirectoryRequest => {
            Some(DirectoryRequest::read(datagram).map_or(Status::BadRequest, |_| Status::Ok))
        }
        Ok(header) => {
            let requests = Requests::check(datagram, header.count);
            Some(requests.map_or(Status::BadRequest, |_| Status::Ok))
        }
    }
}

#[test]
fn refused_datagrams() {
    let all = blocks_of("refused");
    assert!(all.len() > 40);
    for (name, lines, bytes) in all {
        let [expected] = &lines[..] else { panic!("{name}: {lines:?}") };
        let status = outcome(&bytes).map_or("dropped".into(), words::name);
        assert_eq!(format!("outcome {status}"), *expected, "{name}");
    }
}
