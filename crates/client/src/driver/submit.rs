//! Selects server, core and datagram of a request.

use super::directory::map::Map;
use super::server::Health;
use super::slots::{NONE, State};
use super::{Driver, Place};
use crate::operation::{Opcode, Operation};
use crate::options::OnDead;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Header, KEY_BYTES_MAX, PartitionEntry, Request, request_bytes};

/// Share of the datagrams that is reserved for resending: 1/RESERVE_SHARE.
const RESERVE_SHARE: usize = 16;

/// The cores that may execute an operation: one, or all of the node of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    place: Place,
    is_shared: bool,
}

impl Route {
    /// Returns the place of the server in the list.
    pub(crate) fn server(self) -> usize {
        usize::from(self.place.server)
    }
}

/// Returns the hash that chooses the partition of an operation.
#[inline]
fn hash(operation: &Operation<'_>, map: &Map) -> u64 {
    match operation.opcode {
        Opcode::Noop => 0,
        _ => KeyHash::of(operation.key, map.facts.hash_seed).0,
    }
}

/// Returns whether any core of a node may execute an operation.
#[inline]
fn is_shared(operation: &Operation<'_>, entry: PartitionEntry) -> bool {
    operation.opcode == Opcode::Get && !operation.wants_cas && Map::is_shared(entry)
}

/// Returns the length of a datagram with this operation alone.
#[inline]
fn datagram_bytes(operation: &Operation<'_>) -> usize {
    let value_bytes = if operation.opcode.has_value() { operation.value.len() } else { 0 };
    Header::BYTES + request_bytes(operation.opcode, operation.key.len(), value_bytes)
}

/// Reasons to refuse an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// Windows and buffers are full: try again after another operation has ended.
    Full,
    /// The server is dead, or has never replied.
    ServerDown {
        /// Place of the server in the list.
        server: usize,
    },
    /// The key is empty, or longer than 250 bytes.
    BadKey,
    /// The operation does not fit a datagram and has to use the stream.
    TooLong,
    /// The expiry ends after the second 2^32-2 of Unix time.
    ExpiryTooFar,
}

impl Driver {
    /// Accepts an operation, which ends with a [`crate::Completion`] with this token (any number but
    /// the greatest).
    ///
    /// # Errors
    /// The operation was refused; there will be no completion.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        let key = operation.key;
        let is_noop = operation.opcode == Opcode::Noop;
        if key.is_empty() != is_noop || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let server = self.server_or_substitute(self.server_of(key), key)?;
        let taken = self.place(now_ns, server, operation, token);
        match taken {
            Ok(()) => self.counters.submitted += 1,
            Err(SubmitError::Full) => self.counters.pushed_back += 1,
            Err(_) => {}
        }
        taken
    }

    /// Returns the server that requests for a key go to now: its own, or the one that stands in for it.
    pub(crate) fn server_now(&self, key: &[u8]) -> usize {
        self.server_for(self.server_of(key), key)
    }

    /// Returns the server that requests for a key of a server go to now.
    pub(crate) fn server_for(&self, own: usize, key: &[u8]) -> usize {
        self.server_or_substitute(own, key).map_or(own, usize::from)
    }

    /// Returns the cores that may execute an operation now; `None` if its server is down, or it does not fit
    /// a datagram.
    pub(crate) fn route_now(&self, operation: &Operation<'_>) -> Option<Route> {
        self.route_at(self.server_of(operation.key), operation)
    }

    /// Returns the cores that may execute an operation of a server, or of the one that stands in for it.
    pub(crate) fn route_at(&self, server: usize, operation: &Operation<'_>) -> Option<Route> {
        let server = self.server_or_substitute(server, operation.key).ok()?;
        let state = &self.servers[usize::from(server)];
        let map = state.map.as_ref()?;
        let fits = datagram_bytes(operation) <= state.payload_bytes(&self.options);
        let (_, entry) = map.find(hash(operation, map));
        let is_shared = is_shared(operation, entry);
        let core = match is_shared {
            true => map.first_reader(entry.owner, self.options.numa_node),
            false => entry.owner,
        };
        fits.then_some(Route { place: Place { server, core }, is_shared })
    }

    /// Returns whether no core of a route has answered for a while, and each is asked already.
    pub(crate) fn is_silent(&self, now_ns: u64, route: Route) -> bool {
        let server = &self.servers[usize::from(route.place.server)];
        let is_silent =
            |core: u16| server.lanes[usize::from(core)].is_unanswered(now_ns, self.options.deadline_ns);
        match (&server.map, route.is_shared) {
            (Some(map), true) => map.of_node(route.place.core).all(is_silent),
            _ => is_silent(route.place.core),
        }
    }

    /// Returns the server, or the one that stands in for it.
    fn server_or_substitute(&self, server: usize, key: &[u8]) -> Result<u16, SubmitError> {
        let is_up = |server: usize| self.servers[server].health == Health::Alive;
        if is_up(server) {
            return Ok(server as u16);
        }
        let stands_in = match self.options.on_dead {
            OnDead::FailFast => None,
            OnDead::MoveOn => self.continuum.find_where(key, is_up),
        };
        stands_in.map(|server| server as u16).ok_or(SubmitError::ServerDown { server })
    }

    fn place(
        &mut self,
        now_ns: u64,
        server: u16,
        operation: &Operation<'_>,
        token: u64,
    ) -> Result<(), SubmitError> {
        let state = &mut self.servers[usize::from(server)];
        let limit_bytes = state.payload_bytes(&self.options);
        let Some(map) = &mut state.map else {
            return Err(SubmitError::ServerDown { server: usize::from(server) });
        };
        if datagram_bytes(operation) > limit_bytes {
            return Err(SubmitError::TooLong);
        }
        let hash = hash(operation, map);
        let (partition, entry) = map.find(hash);
        let shared = is_shared(operation, entry);
        let deadline_ns = self.options.deadline_ns;
        let is_silent = |core: u16| state.lanes[usize::from(core)].is_unanswered(now_ns, deadline_ns);
        let mut core = entry.owner;
        if shared {
            core = map.reader(entry.owner, self.options.numa_node);
            for _ in 1..map.cores.len() {
                if !is_silent(core) {
                    break;
                }
                map.turn(core);
                core = map.reader(entry.owner, self.options.numa_node);
            }
        }
        let id = match operation.opcode.has_id() {
            true => state.ids.take().ok_or(SubmitError::Full)?,
            false => 0,
        };
        let request = request(operation, hash, id);
        let first = core;
        loop {
            let put = self.put(now_ns, Place { server, core }, (shared, partition), &request, token);
            let state = &mut self.servers[usize::from(server)];
            if put.is_err() {
                state.ids.untake(id);
                if let (true, Some(map)) = (shared, &mut state.map) {
                    map.turn(core);
                    core = map.reader(entry.owner, self.options.numa_node);
                }
            }
            let is_silent = || state.lanes[usize::from(core)].is_unanswered(now_ns, deadline_ns);
            if put != Err(SubmitError::Full) || core == first || is_silent() {
                return put;
            }
        }
    }

    /// Adds a request to the open datagram of a place.
    fn put(
        &mut self,
        now_ns: u64,
        place: Place,
        (shared, partition): (bool, u16),
        request: &Request<'_>,
        token: u64,
    ) -> Result<(), SubmitError> {
        let server = &mut self.servers[usize::from(place.server)];
        let limit_bytes = server.payload_bytes(&self.options);
        let value_bytes = server.value_bytes;
        let lane = &mut server.lanes[usize::from(place.core)];
        let (batch, wait_ns) = lane.gather(&self.gathering);
        let kind = usize::from(shared);
        let mut index = lane.filling[kind];
        let entry = (token, limit_bytes, value_bytes);
        if index != NONE {
            let full = self.gathering.is_fixed() && self.slots.get(index).count >= batch;
            if full || self.slots.append(index, request, entry).is_err() {
                self.close(index);
                index = NONE;
            }
        }
        if index == NONE {
            index = self.open(now_ns, place, (shared, partition), wait_ns)?;
            self.slots.get_mut(index).chosen = batch;
            if self.slots.append(index, request, entry).is_err() {
                // Impossible: an empty datagram accepts any request within its limit.
                return Err(SubmitError::TooLong);
            }
        }
        let slot = self.slots.get_mut(index);
        slot.timed += 1;
        slot.submitted_ns = slot.submitted_ns.wrapping_add(now_ns);
        let lane = &mut self.servers[usize::from(place.server)].lanes[usize::from(place.core)];
        self.gathering.count(now_ns, &mut lane.seen);
        let may_leave = !self.corked || self.gathering.is_fixed();
        if may_leave && self.slots.get(index).count >= batch {
            self.slots.get_mut(index).due_at = 0;
            self.wake(place);
        }
        Ok(())
    }

    /// Opens another datagram for a place.
    fn open(
        &mut self,
        now_ns: u64,
        place: Place,
        (shared, partition): (bool, u16),
        wait_ns: u64,
    ) -> Result<u16, SubmitError> {
        let server = &mut self.servers[usize::from(place.server)];
        let generation = server.map.as_ref().map_or(0, |map| map.generation);
        let lane = &mut server.lanes[usize::from(place.core)];
        let reserved = self.slots.free() <= self.slots.len() / RESERVE_SHARE;
        if reserved || lane.held >= self.lane_datagrams_max {
            return Err(SubmitError::Full);
        }
        let index = self.slots.take(&mut self.random).ok_or(SubmitError::Full)?;
        lane.filling[usize::from(shared)] = index;
        server.hold(now_ns, place.core);
        let due_at = match self.corked {
            true => u64::MAX,
            false => now_ns.saturating_add(wait_ns),
        };
        let slot = self.slots.get_mut(index);
        slot.server = place.server;
        slot.core = place.core;
        slot.shared = shared;
        slot.partition = partition;
        slot.generation = generation;
        slot.due_at = due_at;
        slot.deadline_at = now_ns.saturating_add(self.options.deadline_ns);
        self.slots.push_back(&mut self.filling, index);
        self.filling_due_at = self.filling_due_at.min(due_at);
        Ok(index)
    }

    /// Closes a datagram to further requests, and queues it.
    pub(super) fn close(&mut self, index: u16) {
        self.slots.unlink(&mut self.filling, index);
        let slot = self.slots.get_mut(index);
        slot.state = State::Queued;
        let (shared, core) = (slot.shared, slot.core);
        let place = Place { server: slot.server, core };
        let server = &mut self.servers[usize::from(place.server)];
        let lane = &mut server.lanes[usize::from(core)];
        lane.filling[usize::from(shared)] = NONE;
        self.slots.push_back(&mut lane.queue, index);
        if let (true, Some(map)) = (shared, &mut server.map) {
            map.turn(core);
        }
        self.wake(place);
    }

    /// Fills datagrams completely before they leave, until [`Driver::flush`]: for a caller with
    /// many operations at once.
    pub fn cork(&mut self) {
        self.corked = true;
    }

    /// Lets all submitted operations leave.
    pub fn flush(&mut self) {
        self.corked = false;
        let mut next = self.filling.first();
        while let Some(index) = next {
            next = self.slots.after(index);
            let slot = self.slots.get_mut(index);
            slot.due_at = 0;
            let place = Place { server: slot.server, core: slot.core };
            self.wake(place);
        }
        self.filling_due_at = u64::MAX;
    }
}

/// Converts an operation to a request of the protocol.
pub(crate) fn request<'a>(operation: &Operation<'a>, hash: u64, id: u64) -> Request<'a> {
    let opcode = operation.opcode;
    let field = |has: bool, value: u32| if has { value } else { 0 };
    Request {
        opcode,
        wants_cas: operation.wants_cas && opcode.answers_value(),
        wants_entry: false,
        hash,
        flags: field(opcode.has_flags(), operation.flags),
        expiry_s: field(opcode.has_expiry(), operation.expiry_s),
        argument: operation.argument,
        id,
        key: operation.key,
        value: match opcode.has_value() {
            true => operation.value,
            false => &[],
        },
    }
}
