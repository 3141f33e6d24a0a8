//! Fuzzes the binary parser.

use crate::memcache::binary::{Arithmetic, Command, HEADER_BYTES, Step, Store, step};
use crate::memcache::text::KEY_BYTES_MAX;

/// Checks that a prefix of a request parses like the whole, that results lie within the input, and
/// that keys are valid.
pub fn binary_parser(data: &[u8]) {
    let mut rest = data;
    loop {
        let whole = step(rest);
        check_prefixes(rest, whole);
        let bytes = match whole {
            Step::Incomplete | Step::BadMagic | Step::Refused { close: true, .. } => return,
            Step::Refused { swallow_bytes, .. } => HEADER_BYTES as u64 + swallow_bytes,
            Step::Command { command, bytes, .. } => {
                assert!((HEADER_BYTES..=rest.len()).contains(&bytes));
                bytes as u64 + check(&command)
            }
        };
        match usize::try_from(bytes).ok().and_then(|bytes| rest.get(bytes..)) {
            Some(behind) => rest = behind,
            None => return,
        }
    }
}

/// Checks that every prefix gives the same result, or is incomplete.
fn check_prefixes(input: &[u8], whole: Step<'_>) {
    let longest = input.len().min(HEADER_BYTES + 255 + KEY_BYTES_MAX);
    let mut complete = false;
    for end in 0..=longest {
        let part = step(&input[..end]);
        assert!(part == whole || part == Step::Incomplete && !complete);
        complete = part != Step::Incomplete;
    }
}

/// Checks a command; returns the length of the value that follows.
fn check(command: &Command<'_>) -> u64 {
    match *command {
        Command::Get { key, .. }
        | Command::Touch { key, .. }
        | Command::Delete { key, .. }
        | Command::Arithmetic(Arithmetic { key, .. }) => check_key(key, 1),
        Command::Store(Store { key, value_bytes, .. }) => {
            check_key(key, 1);
            return value_bytes as u64;
        }
        Command::Stat { arguments } => check_key(arguments, 0),
        Command::Flush { .. } | Command::Noop | Command::Version | Command::Quit { .. } => {}
    }
    0
}

fn check_key(key: &[u8], bytes_min: usize) {
    assert!((bytes_min..=KEY_BYTES_MAX).contains(&key.len()));
}
