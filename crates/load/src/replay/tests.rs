//! Replays against a server of a few lines.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use clap::Parser;

use super::ReplayOptions;
use super::command::replay;

type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    options: ReplayOptions,
}

/// Answers `get`, `set` and `delete`.
fn serve(stream: TcpStream, items: &Items) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut from = BufReader::new(stream.try_clone().ok()?);
    let mut to = stream;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let reply = match words[..] {
            ["get", key] => match items.lock().unwrap().get(key) {
                Some(value) => {
                    let head = format!("VALUE {key} 0 {}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
                }
                None => b"END\r\n".to_vec(),
            },
            ["set", key, _, _, bytes] => {
                let mut value = vec![0; bytes.parse::<usize>().ok()? + 2];
                from.read_exact(&mut value).ok()?;
                value.truncate(value.len() - 2);
                items.lock().unwrap().insert(key.to_owned(), value);
                b"STORED\r\n".to_vec()
            }
            ["delete", key] => match items.lock().unwrap().remove(key) {
                Some(_) => b"DELETED\r\n".to_vec(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            _ => b"VERSION 1\r\n".to_vec(),
        };
        to.write_all(&reply).ok()?;
    }
}

/// Replays a trace in Twitter's format; returns the report.
fn replayed(trace: &str, more: &[&str]) -> serde_json::Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("memcached://{}", listener.local_addr().unwrap());
    let items = Items::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let items = Arc::clone(&items);
            std::thread::spawn(move || serve(stream, &items));
        }
    });
    let name = format!("micanite-replay-{}-{}", std::process::id(), url.replace([':', '/'], ""));
    let path = std::env::temp_dir().join(name);
    let json = path.with_extension("json");
    std::fs::write(&path, trace).unwrap();
    let (path_word, json_word) = (path.to_str().unwrap(), json.to_str().unwrap());
    let words = ["replay", path_word, &url, "--quiet", "--json", json_word];
    let words = Words::parse_from(words.iter().chain(more));
    replay(&words.options).unwrap();
    let report = std::fs::read_to_string(&json).unwrap();
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(json).unwrap();
    serde_json::from_str(&report).unwrap()
}

/// Keys that are asked for again and again, with writes and removals in between: what is found is
/// what is found one by one, however many are on the way.
#[test]
fn requests_of_a_key_keep_their_order() {
    let mut trace = String::new();
    let mut found = std::collections::HashSet::new();
    let (mut hits, mut misses) = (0, 0);
    for at in 0..20_000_u64 {
        // A few hot keys and many cold ones.
        let number = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let key = if number % 3 == 0 { number % 4 } else { number % 3_000 };
        let operation = match number % 17 {
            0 => "delete",
            1 => "set",
            _ => "get",
        };
        trace += &format!("0,key{key},{},30,1,{operation},0\n", format!("key{key}").len());
        match operation {
            "delete" => drop(found.remove(&key)),
            "get" if found.contains(&key) => hits += 1,
            "get" => {
                misses += 1;
                found.insert(key);
            }
            _ => drop(found.insert(key)),
        }
    }
    for more in [
        ["--connections", "1", "--pipeline", "1", "--threads", "1"],
        ["--connections", "1", "--pipeline", "300", "--threads", "1"],
        ["--connections", "5", "--pipeline", "40", "--threads", "2"],
    ] {
        let report = replayed(&trace, &[&["--speed", "max"][..], &more].concat());
        let gets = &report["operations"]["get"];
        assert_eq!((&gets["done"], &gets["not_done"]), (&hits.into(), &misses.into()));
        assert_eq!(report["stored_after_misses"], misses);
        assert_eq!(report["sent"], 20_000);
    }
}
