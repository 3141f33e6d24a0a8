//! Fuzzes the text parser.

use crate::memcache::text::meta::reply::{DONE, LINE_BYTES_MAX, MetaItem, Reply};
use crate::memcache::text::meta::{MetaLine, MetaVerb, Misuse, base64};
use crate::memcache::text::{Command, KEY_BYTES_MAX, Keys, Parser, Step};

/// Checks that input in pieces parses like whole input, that every step makes progress, and that
/// keys are valid. A long line that arrives without its end closes the connection, so only the
/// commands before it are compared.
///
/// The first byte of `data` decides where the rest is cut.
pub fn text_parser(data: &[u8]) {
    let Some((seed, input)) = data.split_first() else {
        return;
    };
    let whole = commands(input, usize::MAX);
    let piece = 1 + usize::from(*seed);
    let mut cut = commands(input, piece);
    let expected = if cut.pop_if(|last| last == CLOSED_WITHOUT_REPLY).is_some() {
        &whole[..whole.len().min(cut.len())]
    } else {
        &whole
    };
    assert_eq!(cut, expected, "cut every {piece} bytes");
}

/// Refusal of a long line without an end, and of the first line of another protocol.
const CLOSED_WITHOUT_REPLY: &str = "\"\" 0 true";

/// Describes the commands and refusals of input that arrives in pieces. Skips bodies.
fn commands(input: &[u8], piece: usize) -> Vec<String> {
    let mut parser = Parser::default();
    let (mut at, mut visible) = (0, 0);
    let mut seen = Vec::new();
    let skip = |at: usize, bytes: u64| (at as u64 + bytes).min(input.len() as u64) as usize;
    loop {
        match parser.step(&input[at..visible], false) {
            Step::Incomplete if visible == input.len() => return seen,
            Step::Incomplete => visible = input.len().min(visible.saturating_add(piece)),
            Step::Command { command, line_bytes } => {
                assert!(line_bytes > 0 && line_bytes <= visible - at);
                at += line_bytes;
                seen.push(check(&command));
                let value_bytes = match command {
                    Command::Store { value_bytes, .. } => Some(value_bytes),
                    Command::Meta(line) => value_of(&line),
                    _ => None,
                };
                if let Some(value_bytes) = value_bytes {
                    at = skip(at, value_bytes as u64 + 2);
                    visible = visible.max(at);
                }
            }
            Step::Refused { reply, line_bytes, swallow_bytes, close } => {
                assert!(line_bytes > 0 && line_bytes <= visible - at);
                assert!(reply.is_empty() || reply.ends_with("\r\n"));
                seen.push(format!("{reply:?} {swallow_bytes} {close}"));
                if close {
                    return seen;
                }
                at = skip(at + line_bytes, swallow_bytes);
                visible = visible.max(at);
            }
        }
    }
}

/// Checks a command and describes it.
fn check(command: &Command<'_>) -> String {
    let keys = |keys: &Keys<'_>| {
        assert!(keys.is_last());
        (*keys).for_each(check_key);
    };
    match command {
        Command::Get { keys: all, .. } | Command::GetAndTouch { keys: all, .. } => keys(all),
        Command::Store { key, .. }
        | Command::Delete { key, .. }
        | Command::Arithmetic { key, .. }
        | Command::Touch { key, .. }
        | Command::FlushNamespace { name: key, .. } => check_key(key),
        Command::Meta(line) => {
            check_key(line.key);
            check_meta(line);
        }
        _ => {}
    }
    format!("{command:?}")
}

/// Returns the length of the value after a meta line.
fn value_of(line: &MetaLine<'_>) -> Option<usize> {
    let MetaVerb::Store { value_bytes } = line.verb else {
        return None;
    };
    match line.flags() {
        Err(Misuse { skips_value: false, .. }) => None,
        _ => Some(value_bytes),
    }
}

/// Parses the flags of a meta line, and writes replies to it.
fn check_meta(line: &MetaLine<'_>) {
    let flags = match line.flags() {
        Ok(flags) => flags,
        Err(misuse) => return assert!(misuse.reply.ends_with("\r\n")),
    };
    let mut decoded = [0; base64::DECODED_BYTES_MAX];
    let key = if flags.base64 { base64::decode(line.key, &mut decoded) } else { Some(line.key) };
    let Some(key) = key else { return };
    let reply = Reply { fields: &flags.fields, key, base64: flags.base64, now_s: 1000 };
    let item = MetaItem::default();
    let mut out = [0; LINE_BYTES_MAX];
    for end in [
        reply.got(&mut out, flags.value, &item),
        reply.counted(&mut out, flags.value.then_some(20), &item),
        reply.stored(&mut out, DONE, u64::MAX, 0),
        reply.other(&mut out, DONE),
    ] {
        assert!((4..=LINE_BYTES_MAX).contains(&end));
    }
}

fn check_key(key: &[u8]) {
    assert!((1..=KEY_BYTES_MAX).contains(&key.len()));
    assert!(!key.contains(&b' ') && !key.contains(&b'\n'));
}
