//! Redis's protocol (RESP2).

use micanite_workload::Items;

use super::in_flight::Pending;
use super::reply::{Checks, Element, Format, Parsed, decimal, excerpt, line, push_decimal};
use crate::run::recorder::Kind;

/// Redis's protocol, of which GET, MGET, SET and DEL are used.
#[derive(Debug)]
pub(crate) struct Redis;

impl Format for Redis {
    #[inline]
    fn push_read(output: &mut Vec<u8>, keys: &Items, items: &[u64]) {
        if items.len() == 1 {
            output.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
        } else {
            push_header(output, b'*', items.len() + 1);
            output.extend_from_slice(b"$4\r\nMGET\r\n");
        }
        for item in items {
            push_key(output, keys, *item);
        }
    }

    #[inline]
    fn push_write(output: &mut Vec<u8>, item: u64, version: u32, checks: &Checks) {
        let expires = checks.expiry_s > 0;
        push_header(output, b'*', if expires { 5 } else { 3 });
        output.extend_from_slice(b"$3\r\nSET\r\n");
        push_key(output, &checks.items, item);
        let values = checks.items.values(item);
        push_header(output, b'$', values.value_bytes());
        values.push(item, version, output);
        output.extend_from_slice(b"\r\n");
        if expires {
            output.extend_from_slice(b"$2\r\nEX\r\n");
            let seconds = checks.expiry_s;
            push_header(output, b'$', seconds.ilog10() as usize + 1);
            push_decimal(output, seconds.into());
            output.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn push_delete(output: &mut Vec<u8>, item: u64, keys: &Items) {
        output.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
        push_key(output, keys, item);
    }

    #[inline]
    fn parse<'a>(input: &'a [u8], pending: &Pending) -> Parsed<'a> {
        let Some(line) = line(input)? else {
            return Ok(None);
        };
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return Err(what(line));
        };
        let element = match (text.first(), pending.answer.kind) {
            (Some(b'-'), _) => Element::Refused(line),
            (Some(b'+'), Kind::Write) if text == b"+OK" => Element::Done,
            (Some(b':'), Kind::Delete) if matches!(text, b":0" | b":1") => Element::Done,
            (Some(b'*'), Kind::Read)
                if pending.settled == 0
                    && decimal(&text[1..]) == Some(pending.answer.operations as usize) =>
            {
                Element::Header
            }
            (Some(b'$'), Kind::Read) if &text[1..] == b"-1" => Element::Miss,
            (Some(b'$'), Kind::Read) => return parse_bulk(input, line),
            _ => return Err(what(line)),
        };
        Ok(Some((element, line.len())))
    }
}

fn what(line: &[u8]) -> String {
    format!("this is no reply of Redis's: {}", excerpt(line))
}

fn push_header(output: &mut Vec<u8>, kind: u8, number: usize) {
    output.push(kind);
    push_decimal(output, number as u64);
    output.extend_from_slice(b"\r\n");
}

fn push_key(output: &mut Vec<u8>, keys: &Items, item: u64) {
    push_header(output, b'$', keys.key_bytes(item));
    keys.push_key(item, output);
    output.extend_from_slice(b"\r\n");
}

/// `$<bytes>` and the value.
fn parse_bulk<'a>(input: &'a [u8], line: &[u8]) -> Parsed<'a> {
    let value_bytes = decimal(&line[1..line.len() - 2]).ok_or_else(|| what(line))?;
    let rest = &input[line.len()..];
    if rest.len() < value_bytes + 2 {
        return Ok(None);
    }
    let (value, end) = rest.split_at(value_bytes);
    if !end.starts_with(b"\r\n") {
        return Err(what(line));
    }
    let hit = Element::Hit { key: None, value };
    Ok(Some((hit, line.len() + value_bytes + 2)))
}

#[cfg(test)]
mod tests {
    use super::super::reply::testing::{assert_removals, checks, parse_in_pieces, pending};
    use super::*;

    const DATA_SET: &str = "tiny";

    fn items() -> Items {
        checks(DATA_SET, 0).items
    }

    #[test]
    fn requests_are_written() {
        let mut output = Vec::new();
        Redis::push_read(&mut output, &items(), &[1]);
        assert!(output.starts_with(b"*2\r\n$3\r\nGET\r\n$8\r\n") && output.ends_with(b"\r\n"));
        output.clear();
        Redis::push_read(&mut output, &items(), &[1, 2]);
        assert!(output.starts_with(b"*3\r\n$4\r\nMGET\r\n$8\r\n"));
        output.clear();
        Redis::push_write(&mut output, 1, 1, &checks(DATA_SET, 0));
        assert!(output.starts_with(b"*3\r\n$3\r\nSET\r\n$8\r\n"));
        output.clear();
        Redis::push_write(&mut output, 1, 1, &checks(DATA_SET, 100));
        assert!(output.starts_with(b"*5\r\n") && output.ends_with(b"$2\r\nEX\r\n$3\r\n100\r\n"));
    }

    #[test]
    fn deletes_are_written_and_their_replies_read() {
        let mut output = Vec::new();
        Redis::push_delete(&mut output, 1, &items());
        assert!(output.starts_with(b"*2\r\n$3\r\nDEL\r\n$8\r\n"));
        assert_removals::<Redis>(&[
            (":1\r\n", Kind::Delete, true),
            (":0\r\n", Kind::Delete, true),
            (":2\r\n", Kind::Delete, false),
            (":1\r\n", Kind::Write, false),
            ("+OK\r\n", Kind::Delete, false),
        ]);
    }

    /// A hit, a miss and a wrong value, cut at every place.
    #[test]
    fn a_reply_in_pieces() {
        let checks = checks(DATA_SET, 0);
        let mut reply = b"*3\r\n$8\r\n".to_vec();
        checks.items.values(1).push(1, 7, &mut reply);
        reply.extend_from_slice(b"\r\n$-1\r\n$8\r\n");
        checks.items.values(1).push(1, 7, &mut reply);
        reply.extend_from_slice(b"\r\n");
        assert_eq!(parse_in_pieces::<Redis>(&reply, &checks), (1, 1));
    }

    #[test]
    fn a_value_may_look_like_a_reply() {
        let value = b"$-1\r\n*1\r";
        let reply = [b"$8\r\n".as_slice(), value, b"\r\n"].concat();
        let (element, length) = Redis::parse(&reply, &pending(Kind::Read, 1)).unwrap().unwrap();
        assert_eq!((element, length), (Element::Hit { key: None, value }, 14));
    }

    #[test]
    fn errors_and_nonsense() {
        let parsed = Redis::parse(b"-ERR no\r\n", &pending(Kind::Read, 1)).unwrap();
        assert_eq!(parsed, Some((Element::Refused(b"-ERR no\r\n"), 9)));
        for (line, kind) in [
            ("+OK\r\n", Kind::Read),
            ("$8\r\n", Kind::Write),
            ("END\r\n", Kind::Read),
            ("*2\r\n", Kind::Read),
            ("$x\r\n", Kind::Read),
            ("\r\n", Kind::Read),
            ("$1\r\nxyz", Kind::Read),
        ] {
            assert!(Redis::parse(line.as_bytes(), &pending(kind, 1)).is_err(), "{line:?}");
        }
    }
}
