//! A real server in its own process.

use clap::Parser;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

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
    text: String,
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
        let (mut native, mut text) = (None, None);
        let mut said = Vec::new();
        for line in &mut lines {
            let line = line.unwrap();
            if let Some((_, ports)) = line.split_once("native UDP port") {
                let ports = ports.trim_start_matches('s').trim_start();
                let base = ports.split(|byte: char| !byte.is_ascii_digit()).next();
                native = base.map(|port| format!("127.0.0.1:{port}"));
            }
            if let Some((_, address)) = line.split_once("TCP 127.0.0.1:") {
                let port = address.split(|byte: char| !byte.is_ascii_digit()).next();
                text = text.or_else(|| port.map(|port| format!("127.0.0.1:{port}")));
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
        let text = text.unwrap_or_else(|| panic!("no TCP port: {said:?}"));
        Self { child, native, text }
    }
}

impl Server {
    /// Returns the seconds that are left to a key.
    #[allow(dead_code, reason = "not all tests ask")]
    pub fn ttl_s(&self, key: &[u8]) -> u64 {
        let mut stream = TcpStream::connect(&self.text).unwrap();
        stream.write_all(&[b"mg ", key, b" t\r\n"].concat()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let seconds = line.trim_end().strip_prefix("HD t").and_then(|seconds| seconds.parse().ok());
        seconds.unwrap_or_else(|| panic!("{line}"))
    }

    /// Stops the process, and waits until each of its threads stands still: the signal is only sent at first.
    #[allow(dead_code, reason = "not all tests stop it")]
    pub fn stop(&self) {
        self.signal("-STOP");
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        let end = Instant::now() + Duration::from_secs(120);
        while !std::fs::read_dir(format!("/proc/{}/task", self.process())).unwrap().all(stands) {
            assert!(Instant::now() < end, "the server does not stop");
            std::thread::yield_now();
        }
    }

    /// Lets the stopped process go on.
    #[allow(dead_code, reason = "not all tests stop it")]
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    #[allow(dead_code, reason = "not all tests stop it")]
    fn signal(&self, name: &str) {
        let process = self.process().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }

    /// Returns the number of the process.
    #[allow(dead_code, reason = "not all tests stop it")]
    pub fn process(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
