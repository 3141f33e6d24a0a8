//! A real server in its own process.

use clap::Parser;
use micanite_client::{CasOutcome, Client, Error};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: micanite_server::configuration::Arguments,
}

const CHILD: &str = "MICANITE_CLIENT_TEST_SERVER";

/// A server, killed on drop.
pub struct Server {
    child: Child,
    /// Address of the base port.
    pub native: String,
}

/// Runs the server in the child process. A test named `server_process` calls it, and does nothing
/// else.
pub fn serve_if_child() {
    let Ok(options) = std::env::var(CHILD) else {
        return;
    };
    let words = ["serve"].into_iter().chain(options.split(' '));
    let ended = micanite_server::serve(CommandLine::parse_from(words).arguments);
    std::process::exit(i32::from(ended != ExitCode::SUCCESS));
}

impl Server {
    /// Starts a server on free ports, with additional options.
    pub fn start(options: &str) -> Self {
        let options = format!("-l 127.0.0.1 -p -1 --native -1 -m 64 {options}");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server_process", "--nocapture"])
            .env(CHILD, options.trim_end())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut native = None;
        let mut said = Vec::new();
        for line in &mut lines {
            let line = line.unwrap();
            if let Some((_, ports)) = line.split_once("native UDP port") {
                let ports = ports.trim_start_matches('s').trim_start();
                let base = ports.split(|byte: char| !byte.is_ascii_digit()).next();
                native = base.map(|port| format!("127.0.0.1:{port}"));
            }
            let is_ready = line.ends_with(": ready");
            said.push(line);
            if is_ready {
                break;
            }
        }
        // Drains the pipe, so that the server never blocks on it.
        std::thread::spawn(move || lines.for_each(drop));
        let native = native.unwrap_or_else(|| panic!("no native port: {said:?}"));
        Self { child, native }
    }
}

/// Makes each call of the blocking client, and checks its result.
#[allow(dead_code, reason = "the tests of tokio have calls of their own")]
pub fn every_call_works(client: &mut Client) -> Result<(), Error> {
    client.noop()?;
    assert_eq!(client.get(b"a")?, None);
    client.set(b"a", b"value", 7, 0)?;
    for _ in 0..3 {
        let found = client.get(b"a")?.unwrap();
        assert_eq!((&found.bytes[..], found.flags, found.cas), (&b"value"[..], 7, None));
    }
    assert!(!client.add(b"a", b"other", 0, 0)?);
    assert!(client.add(b"b", b"other", 0, 0)?);
    assert!(client.replace(b"b", b"5", 0, 0)?);
    assert!(!client.replace(b"c", b"5", 0, 0)?);
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"5");
    assert_eq!(client.increment(b"b", 37)?, Some(42));
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"42");
    assert_eq!(client.decrement(b"b", 100)?, Some(0));
    // It keeps its length, as in memcached.
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"0 ");
    assert_eq!(client.increment(b"c", 1)?, None);
    assert!(matches!(client.increment(b"a", 1), Err(Error::NotANumber)));
    assert!(client.append(b"a", b">")? && client.prepend(b"a", b"<")?);
    assert_eq!(client.get(b"a")?.unwrap().bytes, b"<value>");
    let unique = client.gets(b"a")?.unwrap().cas.unwrap();
    assert_eq!(client.cas(b"a", b"new", unique, (0, 0))?, CasOutcome::Stored);
    assert_eq!(client.cas(b"a", b"new", unique, (0, 0))?, CasOutcome::Exists);
    assert_eq!(client.cas(b"c", b"new", unique, (0, 0))?, CasOutcome::NotFound);
    assert!(client.touch(b"a", 1000)? && !client.touch(b"c", 1000)?);
    assert_eq!(client.get_and_touch(b"a", 0)?.unwrap().bytes, b"new");
    assert_eq!(client.get(b"a")?.unwrap().bytes, b"new");
    assert!(client.delete(b"a")? && !client.delete(b"a")? && client.delete(b"b")?);
    assert_eq!(client.get(b"a")?, None);
    assert!(matches!(client.get(&[b'k'; 251]), Err(Error::BadKey)));
    Ok(())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
