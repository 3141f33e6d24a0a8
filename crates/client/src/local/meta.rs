//! memcached's meta commands: one for each operation, and their replies.

use std::io::Write;

use crate::client::is_text_key;
use micanite_wire::memcache::text::TOO_MANY_CONNECTIONS;
use micanite_wire::memcache::text::meta::base64::DECODED_BYTES_MAX;

use crate::operation::{Opcode, Operation, Outcome, memcached_expiry};

/// The longest line of a reply.
const LINE_BYTES_MAX: usize = 2048;

/// A reply, as far as it has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Incomplete,
    /// No server sends this: the stream is of no use any more.
    Nonsense,
    /// The server has no free connection, has executed nothing, and closes this one.
    Full,
    Complete {
        outcome: Outcome,
        value: &'a [u8],
        flags: u32,
        cas: Option<u64>,
        number: u64,
        /// Bytes of the input that it took.
        bytes: usize,
    },
}

/// Appends the request of an operation. Returns false if there is none, or base64 makes its key too long.
pub(super) fn request(operation: &Operation<'_>, out: &mut Vec<u8>) -> bool {
    if operation.opcode == Opcode::Noop {
        out.extend_from_slice(b"mn\r\n");
        return true;
    }
    let word: &[u8] = match operation.opcode {
        Opcode::Get | Opcode::GetAndTouch | Opcode::Touch => b"mg ",
        Opcode::Delete => b"md ",
        Opcode::Increment | Opcode::Decrement => b"ma ",
        opcode if opcode.has_value() => b"ms ",
        _ => return false,
    };
    let is_text = is_text_key(operation.key);
    if !is_text && operation.key.len() > DECODED_BYTES_MAX {
        return false;
    }
    out.extend_from_slice(word);
    if is_text {
        out.extend_from_slice(operation.key);
    } else {
        encode(operation.key, out);
    }
    if operation.opcode.has_value() {
        append(out, format_args!(" {}", operation.value.len()));
    }
    if !is_text {
        out.extend_from_slice(b" b");
    }
    let until = memcached_expiry(operation.expiry_s);
    match operation.opcode {
        Opcode::Get => out.extend_from_slice(b" v f"),
        Opcode::GetAndTouch => append(out, format_args!(" v f T{until}")),
        Opcode::Touch => append(out, format_args!(" T{until}")),
        Opcode::Increment => append(out, format_args!(" v D{}", operation.argument)),
        Opcode::Decrement => append(out, format_args!(" v MD D{}", operation.argument)),
        Opcode::Add => out.extend_from_slice(b" ME"),
        Opcode::Replace => out.extend_from_slice(b" MR"),
        Opcode::Append => out.extend_from_slice(b" MA"),
        Opcode::Prepend => out.extend_from_slice(b" MP"),
        Opcode::Cas => append(out, format_args!(" C{}", operation.argument)),
        _ => {}
    }
    if operation.wants_cas {
        out.extend_from_slice(b" c");
    }
    let opcode = operation.opcode;
    if opcode.has_value() && !matches!(opcode, Opcode::Append | Opcode::Prepend) {
        append(out, format_args!(" F{} T{until}", operation.flags));
    }
    out.extend_from_slice(b"\r\n");
    if opcode.has_value() {
        out.extend_from_slice(operation.value);
        out.extend_from_slice(b"\r\n");
    }
    true
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A vector takes everything.
    let _ = out.write_fmt(text);
}

/// Appends bytes in base64.
fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let six = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit > part.len() { b'=' } else { DIGITS[six] });
        }
    }
}

/// Parses the reply to an operation at the beginning of the input.
pub(super) fn reply(opcode: Opcode, input: &[u8]) -> Reply<'_> {
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() == LINE_BYTES_MAX { Reply::Nonsense } else { Reply::Incomplete };
    };
    let Some(line) = std::str::from_utf8(&input[..end]).ok().and_then(|line| line.strip_suffix('\r')) else {
        return Reply::Nonsense;
    };
    if &input[..=end] == TOO_MANY_CONNECTIONS {
        return Reply::Full;
    }
    let mut bytes = end + 1;
    let mut words = line.split(' ');
    let mut value = &[][..];
    let outcome = match words.next().unwrap_or_default() {
        "VA" => {
            let Some(length) = words.next().and_then(|word| word.parse::<u32>().ok()) else {
                return Reply::Nonsense;
            };
            let all = bytes + length as usize + 2;
            if input.len() < all {
                return Reply::Incomplete;
            }
            if !input[..all].ends_with(b"\r\n") {
                return Reply::Nonsense;
            }
            value = &input[bytes..all - 2];
            bytes = all;
            Outcome::Ok
        }
        "HD" | "OK" | "MN" | "STORED" => Outcome::Ok,
        "EN" | "NF" => Outcome::NotFound,
        "NS" => Outcome::NotStored,
        "EX" => Outcome::Exists,
        "SERVER_ERROR" | "CLIENT_ERROR" if line.contains("too large") => Outcome::TooLarge { limit_bytes: 0 },
        "SERVER_ERROR" if line.contains("out of memory") => Outcome::OutOfSpace,
        "CLIENT_ERROR" if line.contains("non-numeric") => Outcome::NotANumber,
        "SERVER_ERROR" | "CLIENT_ERROR" | "ERROR" => Outcome::BadRequest,
        _ => return Reply::Nonsense,
    };
    let (mut flags, mut cas) = (0, None);
    for word in words {
        match word.split_at_checked(1) {
            Some(("f", number)) => flags = number.parse().unwrap_or(0),
            Some(("c", number)) => cas = number.parse().ok(),
            _ => {}
        }
    }
    let is_number = matches!(opcode, Opcode::Increment | Opcode::Decrement) && outcome == Outcome::Ok;
    let number =
        if is_number { std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) } else { Some(0) };
    let Some(number) = number else {
        return Reply::Nonsense;
    };
    if is_number {
        value = &[];
    }
    Reply::Complete { outcome, value, flags, cas, number, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(operation: &Operation<'_>) -> String {
        let mut out = Vec::new();
        assert!(request(operation, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn operations_become_meta_commands() {
        assert_eq!(text(&Operation::get(b"key")), "mg key v f\r\n");
        assert_eq!(text(&Operation::gets(b"a b")), "mg YSBi b v f c\r\n");
        assert_eq!(text(&Operation::gets(b"\x00")), "mg AA== b v f c\r\n");
        assert!(request(&Operation::get(&[0; 186]), &mut Vec::new()));
        assert!(!request(&Operation::get(&[0; 187]), &mut Vec::new()));
        let set = Operation::set(b"k", b"value").with_flags(7).with_expiry(60);
        assert_eq!(text(&set), "ms k 5 F7 T60\r\nvalue\r\n");
        assert_eq!(text(&Operation::cas(b"k", b"", 9)), "ms k 0 C9 F0 T0\r\n\r\n");
        assert_eq!(text(&Operation::append(b"k", b"x")), "ms k 1 MA\r\nx\r\n");
        assert_eq!(text(&Operation::decrement(b"k", 3)), "ma k v MD D3\r\n");
        assert_eq!(text(&Operation::noop()), "mn\r\n");
    }

    #[test]
    fn replies_are_complete_at_their_last_byte() {
        let whole = b"VA 4 f9 c12\r\n\r\nab\r\nHD\r\n";
        for cut in 0..19 {
            assert_eq!(reply(Opcode::Get, &whole[..cut]), Reply::Incomplete, "{cut}");
        }
        let Reply::Complete { outcome, value, flags, cas, bytes, .. } = reply(Opcode::Get, whole) else {
            panic!("incomplete");
        };
        assert_eq!((outcome, value, flags, cas, bytes), (Outcome::Ok, &b"\r\nab"[..], 9, Some(12), 19));
        for (line, expected) in [
            ("EN\r\n", Outcome::NotFound),
            ("NS\r\n", Outcome::NotStored),
            ("EX\r\n", Outcome::Exists),
            ("SERVER_ERROR object too large for cache\r\n", Outcome::TooLarge { limit_bytes: 0 }),
            ("SERVER_ERROR out of memory storing object\r\n", Outcome::OutOfSpace),
            ("CLIENT_ERROR bad data chunk\r\n", Outcome::BadRequest),
        ] {
            assert!(
                matches!(reply(Opcode::Set, line.as_bytes()),
                Reply::Complete { outcome, .. } if outcome == expected),
                "{line}"
            );
        }
        assert_eq!(reply(Opcode::Get, b"VALUE a\r\n"), Reply::Nonsense);
        assert_eq!(reply(Opcode::Get, b"ERROR Too many open connections\r\n"), Reply::Full);
    }

    proptest! {
        /// Any bytes are parsed without a panic, and a reply is within the input.
        #[test]
        fn any_bytes_are_parsed(input in proptest::collection::vec(any::<u8>(), 0..100), head in 0..4usize) {
            let head = ["", "VA 3 ", "HD ", "VA 99999999999 "][head].as_bytes();
            let input = [head, &input].concat();
            if let Reply::Complete { bytes, .. } = reply(Opcode::Increment, &input) {
                prop_assert!(bytes <= input.len());
            }
        }
    }
}
