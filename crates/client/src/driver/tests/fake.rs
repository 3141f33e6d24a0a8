//! A small server over the codec, for tests: a map of items, ids, cookies, a directory.

use micanite_wire::hash::KeyHash;
use micanite_wire::native::{
    CoreEntry, CorePlace, Directory, DirectoryRequest, DirectoryWriter, Entry, Header, InterfaceAddress,
    Kind, Opcode, PartitionAccess, PartitionEntry, ReplyWriter, Request, Requests, Status,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Vec<u8>,
    flags: u32,
    cas: u64,
}

/// Number of datagrams whose number of requests is recorded.
const BATCHES_KEPT: usize = 1000;

/// Results of executed requests with an id.
type Remembered = HashMap<u64, (Status, u64)>;

pub(crate) struct Fake {
    pub(crate) base: SocketAddr,
    pub(crate) generation: u32,
    pub(crate) facts: Directory,
    pub(crate) nodes: Vec<u16>,
    /// Addresses of its interfaces, each of which has the cores whose number is its own modulo their number;
    /// none: one interface.
    pub(crate) interfaces: Vec<IpAddr>,
    /// Interfaces that no datagram reaches.
    pub(crate) unreachable: HashSet<IpAddr>,
    /// Cores that no datagram reaches.
    pub(crate) silent: HashSet<usize>,
    /// Cores that only requests for the directory reach.
    pub(crate) deaf: HashSet<usize>,
    /// Cookies of interfaces where they differ from [`Self::cookie`].
    pub(crate) cookies: HashMap<IpAddr, u64>,
    /// Those of ports, as behind a NAT that chooses another source port for each.
    pub(crate) port_cookies: HashMap<u16, u64>,
    /// Datagrams by the address that they were sent to.
    pub(crate) arrived: HashMap<IpAddr, u64>,
    pub(crate) owners: Vec<PartitionEntry>,
    pub(crate) items: HashMap<Vec<u8>, Item>,
    pub(crate) clients: HashMap<u32, Remembered>,
    cas: u64,
    /// 0 = no address has to be proved.
    pub(crate) cookie: u64,
    /// Each challenge has another cookie, and none is accepted.
    pub(crate) changes_cookies: bool,
    /// Replies report this share of losses, if it is not 0.
    pub(crate) pressure: u16,
    pub(crate) is_down: bool,
    /// Statuses for requests in the next datagrams, instead of executing them.
    pub(crate) refuse: Vec<Status>,
    /// Datagrams may come after the client has given their requests up: ids below the window are forgotten.
    pub(crate) may_be_late: bool,
    /// A request at a former owner is answered with "moved" instead of being forwarded.
    pub(crate) says_moved: bool,
    /// Requests per core.
    pub(crate) seen: Vec<u64>,
    /// Requests at a core that does not own their keys.
    pub(crate) misdirected: u64,
    pub(crate) directory_requests: u64,
    /// Directory requests without the cookie, which were challenged.
    pub(crate) challenges: u64,
    pub(crate) batches: VecDeque<u16>,
    /// Number of pages of the directory before which the generation changes.
    pub(crate) changes_while_read: u32,
}

impl Fake {
    pub(crate) fn new(base: &str, cores: u16, partitions: u32, access: PartitionAccess) -> Self {
        let owner = |partition: u32| PartitionEntry { owner: partition as u16 % cores, access };
        Self {
            base: base.parse().unwrap(),
            generation: 1,
            facts: Directory {
                hash_seed: 7,
                partitions,
                cores,
                stream_port: 0,
                payload_bytes_max: 1472,
                value_bytes_max: 1 << 20,
                ids_window: 64,
                cookie_s: 64,
                addresses: 0,
            },
            nodes: vec![0; usize::from(cores)],
            interfaces: Vec::new(),
            unreachable: HashSet::new(),
            silent: HashSet::new(),
            deaf: HashSet::new(),
            arrived: HashMap::new(),
            cookies: HashMap::new(),
            port_cookies: HashMap::new(),
            owners: (0..partitions).map(owner).collect(),
            items: HashMap::new(),
            clients: HashMap::new(),
            cas: 0,
            cookie: 0,
            changes_cookies: false,
            pressure: 0,
            is_down: false,
            refuse: Vec::new(),
            may_be_late: false,
            says_moved: true,
            seen: vec![0; usize::from(cores)],
            misdirected: 0,
            directory_requests: 0,
            challenges: 0,
            batches: VecDeque::new(),
            changes_while_read: 0,
        }
    }

    pub(crate) fn core_of(&self, to: SocketAddr) -> Option<usize> {
        let core = usize::from(to.port().checked_sub(self.base.port())?);
        let ip = match self.interfaces.len() {
            0 => self.base.ip(),
            count => self.interfaces[core % count],
        };
        let is_here = to.ip() == ip && core < usize::from(self.facts.cores);
        is_here.then_some(core)
    }

    /// Makes the interfaces known to clients. The first one has the base address.
    pub(crate) fn spread(&mut self, ips: &[&str]) {
        self.interfaces = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        self.facts.addresses = ips.len() as u16;
        self.says_moved = false;
    }

    /// Returns the port of a core, or of another one, at the base address.
    fn port_at_base(&self, core: u16) -> u16 {
        match self.interfaces.len() as u16 {
            0 => self.base.port() + core,
            count => self.base.port() + core / count * count,
        }
    }

    /// Returns the server's answer.
    pub(crate) fn answer(&mut self, to: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        let core = self.core_of(to)?;
        if self.unreachable.contains(&to.ip()) || self.silent.contains(&core) {
            return None;
        }
        *self.arrived.entry(to.ip()).or_default() += 1;
        if self.is_down || datagram.len() > self.facts.payload_bytes_max as usize {
            return None;
        }
        let header = Header::read(datagram).expect("clients write good headers");
        if header.kind == Kind::Requests && self.deaf.contains(&core) {
            return None;
        }
        let usual = self.cookie;
        let other = self.cookies.get(&to.ip()).or(self.port_cookies.get(&to.port())).copied();
        self.cookie = other.unwrap_or(usual);
        let answer = match header.kind {
            Kind::DirectoryRequest => self.directory(&header, datagram),
            Kind::Requests => self.requests(core, &header, datagram),
            _ => panic!("clients send requests"),
        };
        if other.is_some() {
            self.cookie = usual;
        }
        Some(answer)
    }

    fn directory(&mut self, header: &Header, datagram: &[u8]) -> Vec<u8> {
        if header.cookie != self.cookie && self.cookie != 0 {
            return self.challenge(header);
        }
        self.directory_requests += 1;
        let first = DirectoryRequest::read(datagram).unwrap().first;
        if first > 0 && self.changes_while_read > 0 {
            self.changes_while_read -= 1;
            self.generation += 1;
        }
        let mut out = vec![0; datagram.len()];
        let mut writer = DirectoryWriter::new(&mut out, &self.facts, first).unwrap();
        let cores = u32::from(self.facts.cores);
        while writer.next() < self.facts.page_end(first) {
            let number = writer.next();
            let entry = match number.checked_sub(self.facts.entries()) {
                None if number < cores => Entry::Core(CoreEntry {
                    port: self.port_at_base(number as u16),
                    node: self.nodes[number as usize],
                }),
                None => Entry::Partition(self.owners[(number - cores) as usize]),
                Some(core) if core < cores => Entry::Place(CorePlace {
                    port: self.base.port() + core as u16,
                    interface: core as u16 % self.facts.addresses,
                }),
                Some(number) => {
                    let interface = ((number - cores) / 5) as u16;
                    Entry::Address(InterfaceAddress {
                        interface,
                        ip: self.interfaces[usize::from(interface)],
                    })
                }
            };
            if !writer.push(entry) {
                break;
            }
        }
        let reply = Header { generation: self.generation, ..header.reply(Kind::DirectoryReply) };
        let length = writer.finish(&reply);
        out.truncate(length);
        out
    }

    fn challenge(&mut self, header: &Header) -> Vec<u8> {
        self.challenges += 1;
        self.cookie += 2 * u64::from(self.changes_cookies);
        let mut out = vec![0; Header::BYTES];
        let reply = Header {
            generation: self.generation,
            cookie: self.cookie - u64::from(self.changes_cookies),
            status: Status::Unproven,
            ..header.reply(Kind::DirectoryReply)
        };
        reply.write(&mut out);
        out
    }

    fn requests(&mut self, core: usize, header: &Header, datagram: &[u8]) -> Vec<u8> {
        let proved = self.cookie == 0 || header.cookie == self.cookie;
        self.batches.push_back(header.count);
        if self.batches.len() > BATCHES_KEPT {
            self.batches.pop_front();
        }
        let limit = match proved {
            true => self.facts.payload_bytes_max as usize,
            false => datagram.len(),
        };
        let mut out = vec![0; limit];
        let mut writer = ReplyWriter::new(limit);
        let requests = Requests::check(datagram, header.count).expect("clients write good requests");
        let mut left = usize::from(header.count);
        for request in requests {
            left -= 1;
            self.seen[core] += 1;
            let spare = left * ReplyWriter::SHORT_BYTES_MAX;
            self.reply(core, (header, proved), &request, (&mut writer, &mut out, spare));
        }
        let reply = Header {
            generation: self.generation,
            cookie: if proved { 0 } else { self.cookie },
            slow_down: self.pressure > 0,
            pressure: self.pressure,
            ..header.reply(Kind::Replies)
        };
        let length = writer.finish(&mut out, &reply);
        out.truncate(length);
        out
    }

    fn reply(
        &mut self,
        core: usize,
        (header, proved): (&Header, bool),
        request: &Request<'_>,
        (writer, out, spare): (&mut ReplyWriter, &mut [u8], usize),
    ) {
        let opcode = request.opcode;
        let bits = self.facts.partitions.trailing_zeros();
        let hash = KeyHash::of(request.key, self.facts.hash_seed);
        let partition = self.owners[hash.partition(bits)];
        let is_shared =
            partition.access == PartitionAccess::Crew && opcode == Opcode::Get && !request.wants_cas;
        let is_misdirected = opcode != Opcode::Noop && usize::from(partition.owner) != core && !is_shared;
        self.misdirected += u64::from(is_misdirected);
        let refused = match () {
            () if is_misdirected && self.says_moved => Some(Status::Moved),
            () if !proved && opcode.writes() => Some(Status::Unproven),
            () => self.refuse.pop(),
        };
        if let Some(status) = refused {
            writer.push(out, (opcode, status), request.hash, 0);
            return;
        }
        if opcode == Opcode::Get {
            self.get(request, proved, (writer, out, spare));
            return;
        }
        let (status, number) = self.once(header, request);
        writer.push(out, (opcode, status), request.hash, number);
    }

    fn get(
        &self,
        request: &Request<'_>,
        proved: bool,
        (writer, out, spare): (&mut ReplyWriter, &mut [u8], usize),
    ) {
        let head = |status| (Opcode::Get, status);
        let Some(item) = self.items.get(request.key) else {
            writer.push(out, head(Status::NotFound), request.hash, 0);
            return;
        };
        let cas = request.wants_cas.then_some(item.cas);
        let bytes = ReplyWriter::value_reply_bytes(item.value.len(), cas.is_some());
        if Header::BYTES + bytes > self.facts.payload_bytes_max as usize {
            writer.push(out, head(Status::UseStream), request.hash, 0);
        } else if bytes + spare > writer.room() {
            let status = if proved { Status::NoRoom } else { Status::Unproven };
            writer.push(out, head(status), request.hash, 0);
        } else {
            let length = item.value.len();
            let head = (Opcode::Get, item.flags, request.hash);
            let place = writer.begin_value(out, head, cas, length);
            place.copy_from_slice(&item.value);
            writer.end_value(length, cas.is_some());
        }
    }

    /// Executes a write, unless it was executed before.
    fn once(&mut self, header: &Header, request: &Request<'_>) -> (Status, u64) {
        if request.id == 0 {
            return self.write(request);
        }
        let known = self.clients.get(&header.client);
        if known.is_none() && header.resent {
            return (Status::Forgotten, 0);
        }
        if let Some(answer) = known.and_then(|ids| ids.get(&request.id)) {
            return *answer;
        }
        let window = u64::from(self.facts.ids_window);
        let newest = known.and_then(|ids| ids.keys().max()).copied().unwrap_or(0);
        if request.id + window <= newest {
            assert!(self.may_be_late, "ids lie in the window");
            return (Status::Forgotten, 0);
        }
        let answer = self.write(request);
        let ids = self.clients.entry(header.client).or_default();
        ids.insert(request.id, answer);
        answer
    }

    fn write(&mut self, request: &Request<'_>) -> (Status, u64) {
        self.cas += 1;
        let new = Item { value: request.value.to_vec(), flags: request.flags, cas: self.cas };
        let key = request.key.to_vec();
        let old = self.items.get_mut(request.key);
        let status = match (request.opcode, old) {
            (Opcode::Noop, _) => Status::Ok,
            (Opcode::Set, _) | (Opcode::Add, None) | (Opcode::Replace, Some(_)) => {
                self.items.insert(key, new);
                Status::Ok
            }
            (Opcode::Delete, Some(_)) => {
                self.items.remove(&key);
                Status::Ok
            }
            (Opcode::Touch, Some(_)) => Status::Ok,
            (Opcode::Cas, Some(old)) if old.cas == request.argument => {
                *old = new;
                Status::Ok
            }
            (Opcode::Cas, Some(_)) => Status::Exists,
            (Opcode::Append, Some(old)) => {
                old.value.extend_from_slice(request.value);
                Status::Ok
            }
            (Opcode::Increment, Some(old)) => {
                let number = std::str::from_utf8(&old.value).ok().and_then(|text| text.parse().ok());
                let Some(number) = number else {
                    return (Status::NotANumber, 0);
                };
                let sum = request.argument.wrapping_add(number);
                old.value = sum.to_string().into_bytes();
                return (Status::Ok, sum);
            }
            (Opcode::Add | Opcode::Replace | Opcode::Append | Opcode::Prepend, _) => Status::NotStored,
            _ => Status::NotFound,
        };
        (status, 0)
    }

    /// Returns all keys.
    pub(crate) fn keys(&self) -> HashSet<Vec<u8>> {
        self.items.keys().cloned().collect()
    }
}
