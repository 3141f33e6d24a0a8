//! A server without a network: items, a cache area, and the faults that tests ask for.

use std::collections::HashMap;
use std::sync::Arc;

use micanite_chunks::{
    Area, Chunk, Config, CopyBack, Entry, Geometry, Host, Item as ChunkItem, Policy, Table,
};
use micanite_memory::Region;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::{
    Access, ChunkEntry, Header, Hello, HelloReply, History, Kind, Opcode, PushWriter, ReplyEntry,
    ReplyWriter, Request, Requests, Status,
};

pub const LEASE_NS: u64 = 100_000_000;
pub const FROZEN_NS: u64 = 60_000_000_000;
pub const INCARNATION: u64 = 0x1234_5678_9abc_def0;
const SEED: u64 = 7;
const S: u64 = 1_000_000_000;

#[derive(Clone, Debug, Default)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    expiry_s: u32,
}

/// Clock of the tables.
struct Clock(u64);

impl Host for Clock {
    fn now_ns(&mut self) -> u64 {
        self.0
    }

    fn copy_back(&mut self, _: &Area, _: &Chunk) -> CopyBack {
        CopyBack::Kept
    }
}

/// A server, and what was asked of it.
pub struct FakeServer {
    pub area: Area,
    tables: Vec<Table>,
    items: HashMap<Vec<u8>, Item>,
    /// Results of requests with ids, by client and id.
    done: HashMap<(u32, u64), (Status, u64)>,
    sessions: u64,
    /// Key of the area that clients are told.
    pub area_key: u64,
    pub area_base: u64,
    pub message_bytes: u32,
    pub workers: u16,
    pub login: Option<(String, String)>,
    pub is_full: bool,
    /// The next hello at a worker but the first is answered by one that is so many later.
    pub misplaced: u16,
    /// Clients that said hello, and goodbye.
    pub nonces: Vec<u64>,
    pub goodbyes: Vec<u64>,
    pub version: u8,
    /// Refuses the next requests.
    pub slow_downs: u32,
    /// Replaces the entries of replies.
    pub forge: Option<fn(Entry) -> Entry>,
    pub incarnation: u64,
    pub history: HashMap<u64, u32>,
    pub histories: u32,
    pub messages: u32,
    pub noops: u32,
    pub requests: u32,
    pub resent: u32,
    /// Ids of the last requests, in the order of their arrival.
    pub ids: Vec<(u64, bool)>,
    pub executed: u32,
    pushes: Vec<ChunkEntry>,
}

impl FakeServer {
    pub fn new() -> Self {
        let geometry = Geometry::new(1, 1 << 20, 16 << 20).unwrap();
        let region = Arc::new(Region::private(geometry.bytes()).unwrap());
        let area = Area::new(region, geometry, INCARNATION).unwrap();
        Self::over(area)
    }

    pub fn over(area: Area) -> Self {
        let config = Config { policy: Policy::Lru, lease_ns: LEASE_NS };
        let partitions = 0..area.geometry().partitions();
        let tables = partitions.map(|partition| Table::new(&area, partition, config).unwrap()).collect();
        Self {
            area,
            tables,
            items: HashMap::new(),
            done: HashMap::new(),
            sessions: 0,
            area_key: 0,
            area_base: 0,
            message_bytes: 1 << 20,
            workers: 1,
            login: None,
            is_full: false,
            misplaced: 0,
            nonces: Vec::new(),
            goodbyes: Vec::new(),
            version: 1,
            slow_downs: 0,
            forge: None,
            incarnation: INCARNATION,
            history: HashMap::new(),
            histories: 0,
            messages: 0,
            noops: 0,
            requests: 0,
            resent: 0,
            ids: Vec::new(),
            executed: 0,
            pushes: Vec::new(),
        }
    }

    pub fn hash(key: &[u8]) -> KeyHash {
        KeyHash::of(key, SEED)
    }

    fn table(&mut self, hash: KeyHash) -> &mut Table {
        let partition = hash.partition(self.tables.len().trailing_zeros());
        &mut self.tables[partition]
    }

    /// Answers a hello of a client at a worker, but no goodbye.
    pub fn hello(&mut self, message: &[u8], worker: u16, now_ns: u64) -> Option<Vec<u8>> {
        let header = Header::read(message).unwrap();
        let mut reply = vec![0; HelloReply::BYTES];
        let mut answer = header.reply(Kind::HelloReply);
        let hello = Hello::read(message).unwrap();
        if hello.message_bytes_max == 0 {
            self.goodbyes.push(hello.nonce);
            return None;
        }
        self.nonces.push(hello.nonce);
        let login = self.login.as_ref().map(|(user, password)| (user.as_bytes(), password.as_bytes()));
        answer.status = match login {
            _ if self.version != 1 => Status::Version,
            Some(login) if login != (hello.user, hello.password) => Status::Unproven,
            _ if self.is_full => Status::SlowDown,
            _ => Status::Ok,
        };
        if answer.status != Status::Ok {
            answer.write(&mut reply);
            reply.truncate(Header::BYTES);
            reply[2] = self.version;
            return Some(reply);
        }
        self.sessions += 1;
        let geometry = self.area.geometry();
        // The bytes in front of the pages are fewer than those of a page.
        let pages = geometry.bytes() / geometry.page_bytes();
        let body = HelloReply {
            session: self.sessions << 8,
            hash_seed: SEED,
            second: now_ns / S,
            incarnation: self.incarnation,
            area_key: self.area_key,
            area_base: self.area_base,
            area_bytes: geometry.bytes() as u64,
            lease_ns: LEASE_NS,
            frozen_ns: FROZEN_NS,
            message_bytes_max: self.message_bytes,
            value_bytes_max: 512 << 10,
            page_bytes: geometry.page_bytes() as u32,
            pages: pages as u32,
            partition_bits: self.tables.len().trailing_zeros() as u8,
            workers: self.workers,
            worker: if worker > 0 {
                (worker + std::mem::take(&mut self.misplaced)) % self.workers
            } else {
                0
            },
            ids_window: 64,
            push_ms: 10,
        };
        body.write(&answer, &mut reply);
        Some(reply)
    }

    /// Takes a message with a tag; returns the reply, if there is one.
    pub fn message(&mut self, message: &[u8], tag: u64, now_ns: u64) -> Option<Vec<u8>> {
        let header = Header::read(message).unwrap();
        if header.kind == Kind::History {
            assert_eq!(tag & 3, 2);
            self.histories += 1;
            for Access { hash, count } in History::check(message, header.count).unwrap() {
                *self.history.entry(hash).or_default() += count;
            }
            return None;
        }
        assert_eq!((header.kind, tag & 3, header.cookie), (Kind::Requests, 0, 0));
        self.messages += 1;
        let requests: Vec<_> = Requests::check_with_entries(message, header.count).unwrap().collect();
        assert_eq!(header.writes, requests.iter().any(|request| request.opcode.writes()));
        let mut reply = vec![0; self.message_bytes as usize];
        let mut writer = ReplyWriter::new(reply.len());
        for request in &requests {
            self.requests += 1;
            self.resent += u32::from(header.resent);
            self.ids.extend((request.id != 0).then_some((request.id, header.resent)));
            self.execute(request, header.client, &mut writer, &mut reply, now_ns);
        }
        let answer = Header { cookie: now_ns / S, ..header.reply(Kind::Replies) };
        let bytes = writer.finish(&mut reply, &answer);
        reply.truncate(bytes);
        Some(reply)
    }

    fn execute(
        &mut self,
        request: &Request<'_>,
        client: u32,
        writer: &mut ReplyWriter,
        reply: &mut [u8],
        now_ns: u64,
    ) {
        let (opcode, hash) = (request.opcode, request.hash);
        let mut push = |status, word| writer.push(reply, (opcode, status), hash, word);
        if self.slow_downs > 0 {
            self.slow_downs -= 1;
            return push(Status::SlowDown, 0);
        }
        if opcode != Opcode::Noop {
            assert_eq!(hash, Self::hash(request.key).0);
        }
        match opcode {
            Opcode::Noop => {
                self.noops += 1;
                push(Status::Ok, 0);
            }
            Opcode::Get => self.get(request, writer, reply, now_ns),
            Opcode::Set => {
                self.set(request.key, request.value, (request.flags, request.expiry_s), now_ns);
                push(Status::Ok, 0);
            }
            Opcode::Delete => match self.remove(request.key, now_ns) {
                true => push(Status::Ok, 0),
                false => push(Status::NotFound, 0),
            },
            Opcode::Increment => {
                let (status, number) = match self.done.get(&(client, request.id)) {
                    Some(done) => *done,
                    None => self.increment(request.key, request.argument, now_ns),
                };
                self.done.insert((client, request.id), (status, number));
                push(status, number);
            }
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, request: &Request<'_>, writer: &mut ReplyWriter, reply: &mut [u8], now_ns: u64) {
        let Some(item) = self.item(request.key, now_ns) else {
            return writer.push(reply, (Opcode::Get, Status::NotFound), request.hash, 0);
        };
        let bytes = ReplyWriter::value_reply_bytes(item.value.len(), false) + ReplyWriter::ENTRY_BYTES;
        if bytes > writer.room() {
            return writer.push(reply, (Opcode::Get, Status::NoRoom), request.hash, 0);
        }
        let head = (item.flags, request.hash);
        let entry = if request.wants_entry { self.load(request.key, now_ns) } else { None };
        let entry = entry.map(|entry| self.forge.map_or(entry, |forge| forge(entry)));
        let length = item.value.len();
        match entry {
            Some(Entry { offset, bytes, version }) => {
                let entry = ReplyEntry { offset, version, bytes };
                let room = writer.begin_value_with_entry(reply, head, (None, &entry), length);
                room.copy_from_slice(&item.value);
                writer.end_value_with_entry(length, false);
            }
            None => {
                let head = (Opcode::Get, head.0, head.1);
                writer.begin_value(reply, head, None, length).copy_from_slice(&item.value);
                writer.end_value(length, false);
            }
        }
    }

    fn item(&self, key: &[u8], now_ns: u64) -> Option<Item> {
        let lives = |item: &&Item| item.expiry_s == 0 || u64::from(item.expiry_s) > now_ns / S;
        self.items.get(key).filter(lives).cloned()
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &[u8], now_ns: u64) -> Option<Vec<u8>> {
        self.item(key, now_ns).map(|item| item.value)
    }

    /// Stores an item as another client would, with seconds from now until it expires; kills its chunk, and
    /// loads it.
    pub fn set(&mut self, key: &[u8], value: &[u8], (flags, expires_s): (u32, u32), now_ns: u64) {
        self.executed += 1;
        self.kill(key, now_ns);
        let expiry_s = if expires_s == 0 { 0 } else { (now_ns / S) as u32 + expires_s };
        self.items.insert(key.to_vec(), Item { value: value.to_vec(), flags, expiry_s });
        if let Some(Entry { offset, bytes, version }) = self.load(key, now_ns) {
            self.pushes.push(ChunkEntry { hash: Self::hash(key).0, offset, version, bytes });
        }
    }

    pub fn remove(&mut self, key: &[u8], now_ns: u64) -> bool {
        self.kill(key, now_ns);
        self.items.remove(key).is_some()
    }

    fn increment(&mut self, key: &[u8], delta: u64, now_ns: u64) -> (Status, u64) {
        let Some(item) = self.item(key, now_ns) else {
            return (Status::NotFound, 0);
        };
        let number: u64 = String::from_utf8(item.value).unwrap().parse().unwrap();
        self.set(key, (number + delta).to_string().as_bytes(), (0, 0), now_ns);
        (Status::Ok, number + delta)
    }

    fn kill(&mut self, key: &[u8], now_ns: u64) {
        let hash = Self::hash(key);
        let table = self.table(hash);
        if let Some(chunk) = table.find(hash, key) {
            table.kill(&chunk, &mut Clock(now_ns));
        }
    }

    /// Returns the entry of an item's chunk, which it loads if there is none.
    pub fn load(&mut self, key: &[u8], now_ns: u64) -> Option<Entry> {
        let hash = Self::hash(key);
        let item = self.item(key, now_ns)?;
        let area = self.area.clone();
        let table = self.table(hash);
        if let Some(chunk) = table.find(hash, key) {
            return Some(chunk.entry);
        }
        let mut clock = Clock(now_ns);
        table.upkeep(&mut clock);
        let mut taken = table.take(key.len(), item.value.len(), &mut clock)?;
        let Item { value, flags, expiry_s } = &item;
        assert!(taken.fill(&area, &ChunkItem { hash, key, value, flags: *flags, expiry_s: *expiry_s }));
        table.publish(taken, &mut clock)
    }

    /// Removes everything: the void counts are raised first.
    pub fn flush(&mut self) {
        self.tables.iter_mut().for_each(Table::raise_void);
        self.items.clear();
    }

    pub fn flush_at(&mut self, second: u32) {
        self.tables.iter_mut().for_each(|table| table.set_flush(Some(second)));
    }

    /// Returns a push of the entries of all sets since the last one.
    pub fn push(&mut self) -> Vec<u8> {
        let mut message = vec![0; 8 << 10];
        let mut writer = PushWriter::new(&mut message);
        self.pushes.drain(..).take(200).for_each(|entry| writer.push(&entry).unwrap());
        let bytes = writer.finish(&Header { kind: Kind::Push, ..Header::REQUESTS });
        message.truncate(bytes);
        message
    }

    /// Copies bytes of the cache area, as a read does.
    pub fn read(&self, offset: u64, target: &mut [u8]) {
        self.area.region().copy_out(offset as usize, target);
    }
}
