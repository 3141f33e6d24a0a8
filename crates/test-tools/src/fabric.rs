//! One client's end of a fabric, driven by lines: what it sends is the test's business.
//!
//! ```text
//!  greet                                  the server learns the address of this end
//!  send TAG HEX                           a message; the tag is a number, or '-' for none
//!  receive TAG BYTES                      posts a buffer for a message with this tag, or '-' for any without
//!  read KEY BASE AREA_BYTES OFFSET BYTES  a one-sided read
//! ```
//!
//! Each line is answered when its transfer has ended, in any order: `NUMBER ok HEX` with the bytes that came,
//! or `NUMBER failed REASON`; lines are numbered from 0. The end of the input ends the program.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{BufRead, Write as _, stdin, stdout};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use clap::Args;
use micanite_fabric::{
    Buffer, Completions, Endpoint, EndpointOptions, Error, FabricAddress, RemoteArea, Unposted,
};

use crate::Result;

/// Pause of an end that has nothing to do.
const PAUSE: Duration = Duration::from_micros(50);
const GREETING_BYTES: usize = 512;

#[derive(Args)]
pub struct Options {
    /// The server: PROVIDER,ADDRESS:PORT
    address: FabricAddress,
}

/// Transfer that a line asks for.
enum Action {
    Greet,
    Send { tag: Option<u64>, bytes: usize },
    Receive { tag: Option<u64> },
    Read { area: RemoteArea, offset: u64, bytes: usize },
}

struct Post {
    number: u64,
    action: Action,
    buffer: Buffer,
}

pub fn run(options: &Options) -> Result<()> {
    let mut endpoint = Endpoint::connect(&options.address, &EndpointOptions::default())?;
    let lines = lines();
    let mut waiting = VecDeque::new();
    let mut number = 0;
    loop {
        match lines.try_recv() {
            Ok(line) => {
                match parse(&endpoint, &line) {
                    Ok((action, buffer)) => waiting.push_back(Post { number, action, buffer }),
                    Err(error) => answer(number, &Err(error.to_string())),
                }
                number += 1;
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => std::thread::sleep(PAUSE),
        }
        for _ in 0..waiting.len() {
            if let Some(post) = waiting.pop_front().and_then(|post| start(&mut endpoint, post)) {
                waiting.push_back(post);
            }
        }
        let mut completions = Completions::new();
        if let Err(error) = endpoint.poll(&mut completions) {
            eprintln!("micanite-test-tools: {error}");
        }
        for done in completions {
            let has_bytes = !matches!(done.operation, micanite_fabric::Operation::Send);
            let bytes = |bytes: usize| hex(&done.buffer[..if has_bytes { bytes } else { 0 }]);
            answer(done.token, &done.result.map(bytes).map_err(|error| error.to_string()));
        }
    }
}

/// Reads standard input in a thread of its own.
fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn parse(endpoint: &Endpoint, line: &str) -> Result<(Action, Buffer)> {
    let words: Vec<_> = line.split_whitespace().collect();
    let tag = |word: &str| match word {
        "-" => Ok(None),
        word => word.parse().map(Some),
    };
    Ok(match words[..] {
        ["greet"] => (Action::Greet, endpoint.buffer(GREETING_BYTES)?),
        ["send", to, text] => {
            let message = unhex(text)?;
            let mut buffer = endpoint.buffer(message.len())?;
            buffer.copy_from_slice(&message);
            (Action::Send { tag: tag(to)?, bytes: message.len() }, buffer)
        }
        ["receive", of, bytes] => (Action::Receive { tag: tag(of)? }, endpoint.buffer(bytes.parse()?)?),
        ["read", key, base, area_bytes, offset, bytes] => {
            let area = RemoteArea { key: key.parse()?, base: base.parse()?, bytes: area_bytes.parse()? };
            let bytes = bytes.parse()?;
            (Action::Read { area, offset: offset.parse()?, bytes }, endpoint.buffer(bytes)?)
        }
        _ => return Err(format!("no such line: {line}").into()),
    })
}

/// Starts a transfer; returns it if it has to be tried again.
fn start(endpoint: &mut Endpoint, post: Post) -> Option<Post> {
    let Post { number, action, buffer } = post;
    let Some(server) = endpoint.server() else {
        answer(number, &Err("there is no server".into()));
        return None;
    };
    let started = match &action {
        Action::Greet => endpoint.greet(buffer, number),
        Action::Send { tag: Some(tag), bytes } => endpoint.send_tagged(server, buffer, *bytes, *tag, number),
        Action::Send { tag: None, bytes } => endpoint.send(server, buffer, *bytes, number),
        Action::Receive { tag: Some(tag) } => endpoint.receive_tagged(buffer, *tag, number),
        Action::Receive { tag: None } => endpoint.receive(buffer, number),
        Action::Read { area, offset, bytes } => endpoint.read(server, area, *offset, *bytes, buffer, number),
    };
    match started {
        Ok(()) => None,
        Err(Unposted { buffer, error: Error::Busy }) => Some(Post { number, action, buffer }),
        Err(Unposted { error, .. }) => {
            answer(number, &Err(error.to_string()));
            None
        }
    }
}

fn answer(number: u64, result: &std::result::Result<String, String>) {
    let text = match result {
        Ok(hex) => format!("{number} ok {hex}\n"),
        Err(reason) => format!("{number} failed {reason}\n"),
    };
    // The test that reads may have ended.
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let byte = |at: usize| {
        let pair = text.get(at..at + 2).ok_or("half a byte")?;
        Ok(u8::from_str_radix(pair, 16)?)
    };
    (0..text.len()).step_by(2).map(byte).collect()
}
