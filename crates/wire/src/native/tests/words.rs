//! Text form of datagrams: one line for the header, one for each request, reply or entry. Fields
//! that are zero or empty are left out, so each datagram has exactly one text form.

use std::fmt::{Debug, Write};

use super::super::*;
use super::fabric_words;

/// Returns the name of an opcode, status or access: `NotFound` is `not-found`.
pub(super) fn name(thing: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{thing:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn named<T: Debug + Copy>(all: &[T], wanted: &str) -> T {
    *all.iter().find(|one| name(one) == wanted).unwrap_or_else(|| panic!("no {wanted}"))
}

/// Decodes text in which `%XX` is a byte.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or("").as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    bytes
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'%' | b'=' | 0..=b' ' | 0x7f.. => write!(text, "%{byte:02x}").unwrap(),
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

/// Words of a line, by name.
pub(super) struct Line<'a>(Vec<&'a str>);

impl<'a> Line<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self(line.split_whitespace().collect())
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub(super) fn find(&self, field: &str) -> Option<&'a str> {
        let mut pairs = self.0.iter().filter_map(|word| word.split_once('='));
        pairs.find(|(name, _)| *name == field).map(|pair| pair.1)
    }

    pub(super) fn number(&self, field: &str) -> u64 {
        self.find(field).map_or(0, number)
    }

    pub(super) fn u32(&self, field: &str) -> u32 {
        self.number(field).try_into().unwrap()
    }

    pub(super) fn u16(&self, field: &str) -> u16 {
        self.number(field).try_into().unwrap()
    }

    pub(super) fn bytes(&self, field: &str) -> Vec<u8> {
        self.find(field).map_or(Vec::new(), bytes)
    }
}

/// Parses a decimal or hexadecimal number.
pub(super) fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// Encodes the datagram that the lines describe.
pub(super) fn write(lines: &[&str]) -> Vec<u8> {
    let line = Line::of(lines[0]);
    let header = header(&line);
    let mut datagram = vec![0xaa; PAYLOAD_BYTES];
    let length = match header.kind {
        Kind::Requests => {
            let mut writer = RequestWriter::new(&mut datagram);
            for line in &lines[1..] {
                write_request(&mut writer, &Line::of(line));
            }
            writer.finish(&header)
        }
        Kind::Replies => {
            let mut writer = ReplyWriter::new(datagram.len());
            for line in &lines[1..] {
                write_reply(&mut writer, &mut datagram, &Line::of(line));
            }
            writer.finish(&mut datagram, &header)
        }
        Kind::DirectoryRequest => {
            let first = line.u32("first");
            datagram.truncate(usize::from(line.u16("bytes")));
            DirectoryRequest { first }.write(&header, &mut datagram);
            datagram.len()
        }
        Kind::DirectoryReply | Kind::HelloReply if header.status != Status::Ok => {
            header.write(&mut datagram);
            Header::BYTES
        }
        Kind::DirectoryReply => {
            let first = line.u32("first");
            let mut writer = DirectoryWriter::new(&mut datagram, &directory(&line), first).unwrap();
            for line in &lines[1..] {
                assert!(writer.push(entry(&Line::of(line))));
            }
            writer.finish(&header)
        }
        Kind::Hello | Kind::HelloReply | Kind::Push | Kind::History => {
            fabric_words::write(&header, &line, &lines[1..], &mut datagram)
        }
    };
    datagram.truncate(length);
    datagram
}

fn header(line: &Line<'_>) -> Header {
    let statuses = Status::ALL.iter().skip(1);
    Header {
        kind: match line.0[0] {
            "requests" => Kind::Requests,
            "replies" => Kind::Replies,
            "directory-request" => Kind::DirectoryRequest,
            "directory" => Kind::DirectoryReply,
            "hello" => Kind::Hello,
            "hello-reply" => Kind::HelloReply,
            "push" => Kind::Push,
            "history" => Kind::History,
            other => panic!("no kind {other}"),
        },
        // The writer of requests sets this flag itself.
        writes: false,
        resent: line.has("resent"),
        slow_down: line.has("slow-down") && line.0[0] != "requests",
        status: *statuses
            .filter(|status| **status != Status::SlowDown)
            .find(|status| line.has(&name(status)))
            .unwrap_or(&Status::Ok),
        count: 0,
        generation: line.u32("generation"),
        partition: line.u16("partition"),
        pressure: line.u16("pressure"),
        sequence: line.u32("sequence"),
        client: line.u32("client"),
        echo: line.number("echo"),
        cookie: line.number("cookie"),
    }
}

fn write_request(writer: &mut RequestWriter<'_>, line: &Line<'_>) {
    let request = Request {
        opcode: named(&Opcode::ALL, line.0[1]),
        wants_cas: line.has("wants-cas"),
        wants_entry: line.has("wants-entry"),
        hash: line.number("hash"),
        flags: line.u32("flags"),
        expiry_s: line.u32("expiry_s"),
        argument: line.number("argument"),
        id: line.number("id"),
        key: &line.bytes("key"),
        value: &line.bytes("value"),
    };
    writer.push(&request).unwrap();
}

fn write_reply(writer: &mut ReplyWriter, datagram: &mut [u8], line: &Line<'_>) {
    let (opcode, status) = (named(&Opcode::ALL, line.0[1]), named(&Status::ALL, line.0[2]));
    let hash = line.number("hash_low") | 0xffff_0000_0000_0000;
    if status == Status::Ok && opcode.answers_value() {
        let (value, cas) = (line.bytes("value"), line.find("cas").map(number));
        let about = (opcode, line.u32("flags"), hash);
        if let Some(entry) = fabric_words::entry(line) {
            let about = (about.1, hash);
            let place = writer.begin_value_with_entry(datagram, about, (cas, &entry), value.len());
            place.copy_from_slice(&value);
            writer.end_value_with_entry(value.len(), cas.is_some());
            return;
        }
        let place = writer.begin_value(datagram, about, cas, value.len());
        place.copy_from_slice(&value);
        writer.end_value(value.len(), cas.is_some());
    } else {
        let word = line.number("number") | line.number("limit_bytes");
        writer.push(datagram, (opcode, status), hash, word);
    }
}

fn directory(line: &Line<'_>) -> Directory {
    Directory {
        hash_seed: line.number("hash_seed"),
        partitions: line.u32("partitions"),
        cores: line.u16("core_count"),
        stream_port: line.u16("stream_port"),
        payload_bytes_max: line.u32("payload_bytes_max"),
        value_bytes_max: line.u32("value_bytes_max"),
        ids_window: line.u16("ids_window"),
        cookie_s: line.u16("cookie_s"),
        addresses: line.u16("addresses"),
    }
}

fn entry(line: &Line<'_>) -> Entry {
    if line.0[0] == "core" {
        let (port, node) = (line.u16("port"), line.u16("node"));
        return Entry::Core(CoreEntry { port, node });
    }
    if line.0[0] == "place" {
        let (port, interface) = (line.u16("port"), line.u16("interface"));
        return Entry::Place(CorePlace { port, interface });
    }
    if line.0[0] == "address" {
        let ip = line.find("ip").unwrap().parse().unwrap();
        return Entry::Address(InterfaceAddress { interface: line.u16("interface"), ip });
    }
    let all = [PartitionAccess::Erew, PartitionAccess::Crew, PartitionAccess::Crcw];
    Entry::Partition(PartitionEntry {
        owner: line.u16("owner"),
        access: *all.iter().find(|one| line.has(&name(one))).unwrap(),
    })
}

/// Describes a datagram in lines.
pub(super) fn describe(datagram: &[u8]) -> Vec<String> {
    let header = Header::read(datagram).unwrap();
    let mut lines = vec![describe_header(&header)];
    match header.kind {
        Kind::Requests => {
            let requests = Requests::check_with_entries(datagram, header.count).unwrap();
            lines.extend(requests.map(|request| describe_request(&request)));
        }
        Kind::Replies => {
            let replies = Replies::with_entries(datagram, header.count).unwrap();
            lines.extend(replies.map(|reply| describe_reply(&reply.unwrap())));
        }
        Kind::DirectoryRequest => {
            let request = DirectoryRequest::read(datagram).unwrap();
            lines[0] += &fields(&[("first", request.first.into())]);
            lines[0] += &format!(" bytes={}", datagram.len());
        }
        Kind::DirectoryReply | Kind::HelloReply if header.status != Status::Ok => {}
        Kind::DirectoryReply => describe_directory(datagram, &mut lines),
        Kind::Hello | Kind::HelloReply | Kind::Push | Kind::History => {
            fabric_words::describe(&header, datagram, &mut lines);
        }
    }
    lines
}

/// Writes ` name=number` for each number that is not zero.
pub(super) fn fields(fields: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for (name, number) in fields.iter().filter(|field| field.1 != 0) {
        match *name {
            "echo" | "cookie" | "hash" | "hash_low" | "hash_seed" | "client" | "nonce" | "session"
            | "incarnation" | "area_key" | "area_base" | "version" => {
                write!(text, " {name}={number:#x}").unwrap();
            }
            _ => write!(text, " {name}={number}").unwrap(),
        }
    }
    text
}

fn describe_header(header: &Header) -> String {
    let mut text = String::from(match header.kind {
        Kind::Requests => "requests",
        Kind::Replies => "replies",
        Kind::DirectoryRequest => "directory-request",
        Kind::DirectoryReply => "directory",
        Kind::Hello => "hello",
        Kind::HelloReply => "hello-reply",
        Kind::Push => "push",
        Kind::History => "history",
    });
    for (flag, word) in
        [(header.writes, " writes"), (header.resent, " resent"), (header.slow_down, " slow-down")]
    {
        text += if flag { word } else { "" };
    }
    if header.status != Status::Ok {
        text += &format!(" {}", name(header.status));
    }
    text + &fields(&[
        ("generation", header.generation.into()),
        ("partition", header.partition.into()),
        ("pressure", header.pressure.into()),
        ("sequence", header.sequence.into()),
        ("client", header.client.into()),
        ("echo", header.echo),
        ("cookie", header.cookie),
    ])
}

pub(super) fn describe_bytes(field: &str, bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    format!(" {field}={}", text(bytes))
}

fn describe_request(request: &Request<'_>) -> String {
    let wants_cas = if request.wants_cas { " wants-cas" } else { "" };
    let wants_entry = if request.wants_entry { " wants-entry" } else { "" };
    let numbers = fields(&[
        ("hash", request.hash),
        ("argument", request.argument),
        ("id", request.id),
        ("flags", request.flags.into()),
        ("expiry_s", request.expiry_s.into()),
    ]);
    let (key, value) = (describe_bytes("key", request.key), describe_bytes("value", request.value));
    format!("request {}{wants_cas}{wants_entry}{key}{numbers}{value}", name(request.opcode))
}

fn describe_reply(reply: &Reply<'_>) -> String {
    let (opcode, status) = (name(reply.opcode), name(reply.status));
    let about = fields(&[("hash_low", reply.hash_low.into()), ("flags", reply.flags.into())]);
    let cas = reply.cas.map_or(String::new(), |cas| format!(" cas={cas}"));
    let answers_number = reply.status == Status::Ok && reply.opcode.answers_number();
    let number = if answers_number { format!(" number={}", reply.number) } else { String::new() };
    let limit = fields(&[("limit_bytes", reply.limit_bytes.into())]);
    let entry = reply.entry.map_or(String::new(), |entry| fabric_words::describe_entry(&entry));
    let value = describe_bytes("value", reply.value);
    format!("reply {opcode} {status}{about}{cas}{number}{limit}{entry}{value}")
}

fn describe_directory(datagram: &[u8], lines: &mut Vec<String>) {
    let (directory, first, entries) = Directory::read(datagram).unwrap();
    lines[0] += &fields(&[
        ("hash_seed", directory.hash_seed),
        ("partitions", directory.partitions.into()),
        ("core_count", directory.cores.into()),
        ("stream_port", directory.stream_port.into()),
        ("payload_bytes_max", directory.payload_bytes_max.into()),
        ("value_bytes_max", directory.value_bytes_max.into()),
        ("ids_window", directory.ids_window.into()),
        ("cookie_s", directory.cookie_s.into()),
        ("first", first.into()),
        ("addresses", directory.addresses.into()),
    ]);
    let mut rest = entries;
    while !rest.is_empty() {
        let number = first + ((entries.len() - rest.len()) / 4) as u32;
        let entry = directory.entry(number, rest).unwrap();
        rest = &rest[entry.numbers() as usize * 4..];
        lines.push(match entry {
            Entry::Core(core) => {
                let numbers = [("port", core.port.into()), ("node", core.node.into())];
                format!("core{}", fields(&numbers))
            }
            Entry::Partition(partition) => {
                let owner = fields(&[("owner", partition.owner.into())]);
                format!("partition{owner} {}", name(partition.access))
            }
            Entry::Place(place) => {
                let numbers = [("port", place.port.into()), ("interface", place.interface.into())];
                format!("place{}", fields(&numbers))
            }
            Entry::Address(address) => {
                let interface = fields(&[("interface", address.interface.into())]);
                format!("address{interface} ip={}", address.ip)
            }
        });
    }
}
