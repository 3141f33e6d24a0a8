//! memcached's text protocol.

use micanite_workload::Items;

use super::in_flight::Pending;
use super::reply::{Checks, Element, Format, Parsed, decimal, excerpt, line, push_decimal};
use crate::run::recorder::Kind;

/// memcached's text protocol, on streams and in datagrams.
#[derive(Debug)]
pub(crate) struct Memcached;

impl Format for Memcached {
    #[inline]
    fn push_read(output: &mut Vec<u8>, keys: &Items, items: &[u64]) {
        output.extend_from_slice(b"get");
        for item in items {
            output.push(b' ');
            keys.push_key(*item, output);
        }
        output.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn push_write(output: &mut Vec<u8>, item: u64, version: u32, checks: &Checks) {
        output.extend_from_slice(b"set ");
        checks.items.push_key(item, output);
        output.extend_from_slice(b" 0 ");
        push_decimal(output, checks.expiry_s.into());
        output.push(b' ');
        let values = checks.items.values(item);
        push_decimal(output, values.value_bytes() as u64);
        output.extend_from_slice(b"\r\n");
        values.push(item, version, output);
        output.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn push_delete(output: &mut Vec<u8>, item: u64, keys: &Items) {
        output.extend_from_slice(b"delete ");
        keys.push_key(item, output);
        output.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn parse<'a>(input: &'a [u8], pending: &Pending) -> Parsed<'a> {
        if input.starts_with(b"VALUE ") && pending.answer.kind == Kind::Read {
            return parse_value(input);
        }
        let Some(line) = line(input)? else {
            return Ok(None);
        };
        let element = match (line, pending.answer.kind) {
            (b"END\r\n", Kind::Read) => Element::End,
            (b"STORED\r\n", Kind::Write) => Element::Done,
            (b"DELETED\r\n" | b"NOT_FOUND\r\n", Kind::Delete) => Element::Done,
            _ if is_error(line) || line.starts_with(b"NOT_STORED") => Element::Refused(line),
            _ => {
                return Err(format!("this is no reply of memcached's: {}", excerpt(line)));
            }
        };
        Ok(Some((element, line.len())))
    }
}

/// Returns whether a reply says that a request could not be understood or carried out.
pub(crate) fn is_error(line: &[u8]) -> bool {
    [b"ERROR".as_slice(), b"CLIENT_ERROR ", b"SERVER_ERROR", b"BUSY"]
        .iter()
        .any(|word| line.starts_with(word))
}

/// `VALUE <key> <flags> <bytes> [<cas>]` and the value.
fn parse_value(input: &[u8]) -> Parsed<'_> {
    let Some(line) = line(input)? else {
        return Ok(None);
    };
    let what = || format!("this is no reply of memcached's: {}", excerpt(line));
    let text = line.strip_suffix(b"\r\n").ok_or_else(what)?;
    let mut words = text[b"VALUE ".len()..].split(|byte| *byte == b' ');
    let (Some(key), Some(_flags), Some(bytes)) = (words.next(), words.next(), words.next()) else {
        return Err(what());
    };
    let value_bytes = decimal(bytes).ok_or_else(what)?;
    let rest = &input[line.len()..];
    if rest.len() < value_bytes + 2 {
        return Ok(None);
    }
    let (value, end) = rest.split_at(value_bytes);
    if !end.starts_with(b"\r\n") {
        return Err(format!("a value is longer than its header says: {}", excerpt(line)));
    }
    let hit = Element::Hit { key: Some(key), value };
    Ok(Some((hit, line.len() + value_bytes + 2)))
}

#[cfg(test)]
mod tests {
    use super::super::reply::testing::{assert_removals, checks, parse_in_pieces, pending};
    use super::*;
    use crate::run::recorder::Recorder;

    const DATA_SET: &str = "8/16";

    #[test]
    fn requests() {
        let checks = checks(DATA_SET, 60);
        let mut output = Vec::new();
        Memcached::push_read(&mut output, &checks.items, &[1, 2]);
        assert_eq!(output.len(), "get 12345678 12345678\r\n".len());
        output.clear();
        Memcached::push_write(&mut output, 1, 1, &checks);
        assert!(output.starts_with(b"set ") && output.ends_with(b"\r\n"));
        assert_eq!(output[12..].split(|byte| *byte == b'\r').next(), Some(b" 0 60 16".as_slice()));
    }

    #[test]
    fn removing() {
        let mut output = Vec::new();
        Memcached::push_delete(&mut output, 1, &checks(DATA_SET, 60).items);
        assert_eq!(output.len(), "delete 12345678\r\n".len());
        assert_removals::<Memcached>(&[
            ("DELETED\r\n", Kind::Delete, true),
            ("NOT_FOUND\r\n", Kind::Delete, true),
            ("DELETED\r\n", Kind::Write, false),
            ("STORED\r\n", Kind::Delete, false),
            ("END\r\n", Kind::Delete, false),
        ]);
    }

    /// The reply to a multi-get of items 1, 2, 3 where 2 is missing, in pieces of every length.
    #[test]
    fn a_reply_in_pieces() {
        let checks = checks(DATA_SET, 60);
        let mut reply = Vec::new();
        for item in [1, 3] {
            reply.extend_from_slice(b"VALUE ");
            checks.items.push_key(item, &mut reply);
            reply.extend_from_slice(b" 0 16\r\n");
            checks.items.values(item).push(item, 9, &mut reply);
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"END\r\n");
        assert_eq!(parse_in_pieces::<Memcached>(&reply, &checks), (2, 0));
    }

    #[test]
    fn wrong_values_and_keys() {
        let checks = checks(DATA_SET, 60);
        let wrong = |key_of: u64, value_of: u64| {
            let mut reply = b"VALUE ".to_vec();
            checks.items.push_key(key_of, &mut reply);
            reply.extend_from_slice(b" 0 16\r\n");
            checks.items.values(value_of).push(value_of, 1, &mut reply);
            reply.extend_from_slice(b"\r\n");
            let mut pending = pending(Kind::Read, 1);
            let (element, _) = Memcached::parse(&reply, &pending).unwrap().unwrap();
            checks.settle(&mut pending, &[5], &element, &mut Recorder::new(0..1));
            pending.answer.wrong_values
        };
        assert_eq!(wrong(5, 5), 0);
        assert_eq!(wrong(5, 6), 1, "another item's value");
        assert_eq!(wrong(6, 6), 1, "a key that was not asked for");
    }

    #[test]
    fn errors_and_nonsense() {
        for line in ["ERROR\r\n", "SERVER_ERROR out of memory\r\n", "NOT_STORED\r\n"] {
            let parsed = Memcached::parse(line.as_bytes(), &pending(Kind::Write, 1)).unwrap();
            assert_eq!(parsed, Some((Element::Refused(line.as_bytes()), line.len())));
        }
        for (line, kind) in [
            ("STORED\r\n", Kind::Read),
            ("END\r\n", Kind::Write),
            ("HTTP/1.1 200 OK\r\n", Kind::Read),
            ("VALUE\r\n", Kind::Read),
            ("VALUE a b\r\n", Kind::Read),
            ("VALUE k 0 x\r\n", Kind::Read),
            ("VALUE k 0 1\r\nabcd", Kind::Read),
            ("VALUE k 0 99999999999\r\n", Kind::Read),
        ] {
            let parsed = Memcached::parse(line.as_bytes(), &pending(kind, 1));
            assert!(parsed.is_err(), "{line:?}");
        }
    }
}
