//! Text form of the messages of a fabric.

use super::super::*;
use super::words::{Line, describe_bytes, fields};

/// Encodes the body of a message of a fabric; returns the length of the message.
pub(super) fn write(header: &Header, line: &Line<'_>, lines: &[&str], message: &mut [u8]) -> usize {
    match header.kind {
        Kind::Hello => hello(header, line, message),
        Kind::HelloReply => hello_reply(line).write(header, message),
        Kind::Push => {
            let mut writer = PushWriter::new(message);
            for line in lines {
                writer.push(&chunk(&Line::of(line))).unwrap();
            }
            writer.finish(header)
        }
        _ => {
            let mut writer = HistoryWriter::new(message);
            for line in lines {
                let line = Line::of(line);
                let access = Access { hash: line.number("hash"), count: line.u32("count") };
                writer.push(&access).unwrap();
            }
            writer.finish(header)
        }
    }
}

fn hello(header: &Header, line: &Line<'_>, message: &mut [u8]) -> usize {
    let hello = Hello {
        nonce: line.number("nonce"),
        message_bytes_max: line.u32("message_bytes_max"),
        user: &line.bytes("user"),
        password: &line.bytes("password"),
    };
    hello.write(header, message).unwrap()
}

fn hello_reply(line: &Line<'_>) -> HelloReply {
    HelloReply {
        session: line.number("session"),
        hash_seed: line.number("hash_seed"),
        second: line.number("second"),
        incarnation: line.number("incarnation"),
        area_key: line.number("area_key"),
        area_base: line.number("area_base"),
        area_bytes: line.number("area_bytes"),
        lease_ns: line.number("lease_ns"),
        frozen_ns: line.number("frozen_ns"),
        message_bytes_max: line.u32("message_bytes_max"),
        value_bytes_max: line.u32("value_bytes_max"),
        page_bytes: line.u32("page_bytes"),
        pages: line.u32("pages"),
        partition_bits: line.u16("partition_bits") as u8,
        workers: line.u16("workers"),
        worker: line.u16("worker"),
        ids_window: line.u16("ids_window"),
        push_ms: line.u32("push_ms"),
    }
}

fn chunk(line: &Line<'_>) -> ChunkEntry {
    ChunkEntry {
        hash: line.number("hash"),
        offset: line.number("offset"),
        version: line.number("version"),
        bytes: line.u32("bytes"),
    }
}

/// Returns the entry of a reply that has one.
pub(super) fn entry(line: &Line<'_>) -> Option<ReplyEntry> {
    line.find("version")?;
    let entry = chunk(line);
    Some(ReplyEntry { offset: entry.offset, version: entry.version, bytes: entry.bytes })
}

/// Describes the entry of a reply.
pub(super) fn describe_entry(entry: &ReplyEntry) -> String {
    fields(&[("offset", entry.offset), ("version", entry.version), ("bytes", entry.bytes.into())])
}

/// Describes the body of a message of a fabric.
pub(super) fn describe(header: &Header, message: &[u8], lines: &mut Vec<String>) {
    match header.kind {
        Kind::Hello => {
            let hello = Hello::read(message).unwrap();
            let bytes_max = hello.message_bytes_max.into();
            lines[0] += &fields(&[("nonce", hello.nonce), ("message_bytes_max", bytes_max)]);
            lines[0] += &describe_bytes("user", hello.user);
            lines[0] += &describe_bytes("password", hello.password);
        }
        Kind::HelloReply => lines[0] += &describe_reply(&HelloReply::read(message).unwrap()),
        Kind::Push => lines.extend(Pushes::check(message, header.count).unwrap().map(|entry| {
            let (hash, bytes) = (("hash", entry.hash), ("bytes", entry.bytes.into()));
            format!("chunk{}", fields(&[hash, ("offset", entry.offset), ("version", entry.version), bytes]))
        })),
        _ => lines.extend(History::check(message, header.count).unwrap().map(|access| {
            format!("access{}", fields(&[("hash", access.hash), ("count", access.count.into())]))
        })),
    }
}

fn describe_reply(reply: &HelloReply) -> String {
    fields(&[
        ("session", reply.session),
        ("hash_seed", reply.hash_seed),
        ("second", reply.second),
        ("incarnation", reply.incarnation),
        ("area_key", reply.area_key),
        ("area_base", reply.area_base),
        ("area_bytes", reply.area_bytes),
        ("lease_ns", reply.lease_ns),
        ("frozen_ns", reply.frozen_ns),
        ("message_bytes_max", reply.message_bytes_max.into()),
        ("value_bytes_max", reply.value_bytes_max.into()),
        ("page_bytes", reply.page_bytes.into()),
        ("pages", reply.pages.into()),
        ("partition_bits", reply.partition_bits.into()),
        ("workers", reply.workers.into()),
        ("worker", reply.worker.into()),
        ("ids_window", reply.ids_window.into()),
        ("push_ms", reply.push_ms.into()),
    ])
}
