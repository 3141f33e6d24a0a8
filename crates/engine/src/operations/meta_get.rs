//! get of meta commands: with the token of the client that recreates the item, without the value,
//! with other facts about it.

use std::ops::ControlFlow::{self, Break, Continue};

use micanite_memory::sync::Ordering::Release;
use micanite_memory::sync::fence;

use crate::log::item::{Expiry, State};
use crate::operations::meta::{ItemMeta, MetaGet};
use crate::operations::request::{HashedRequest, Outcome, ReplySink, ValueMeta};
use crate::partition::Hint;
use crate::writer::{Found, NewItem, Part, Refusal, Writer};

impl MetaGet {
    /// Returns whether a hit changes nothing, whatever the item is like.
    #[inline]
    pub(crate) const fn only_reads(&self) -> bool {
        !self.cas && !self.access && self.touch.is_none() && self.unless_cas.is_none()
    }

    /// Returns whether an item of this expiry is so near its end that it should be recreated.
    #[inline]
    pub(crate) fn is_near_end(&self, expiry: Expiry) -> bool {
        let Some(recache) = self.recache else {
            return false;
        };
        let expiry = match self.touch {
            Some(touch) if self.touch_first => touch,
            _ => expiry,
        };
        expiry != Expiry::NEVER && expiry < recache
    }
}

impl Writer<'_> {
    /// Executes a meta get. `Break` tells whether the sink had room for the value; if not, nothing
    /// has happened. `Continue`: another thread is in the way.
    #[inline(always)]
    pub fn meta_get<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        get: &MetaGet,
        hint: &Hint<'_>,
        sink: &mut S,
    ) -> ControlFlow<bool> {
        if let Some(found) = self.find_hinted(hint, request.key)
            && get.only_reads()
            && !found.header.has_state()
            && !get.is_near_end(found.expiry)
        {
            self.keep_hints_of_get();
            let room = self.show_item((index, request), &found, self.describe(&found), get, sink);
            if room {
                if !get.uncounted {
                    self.note_found(request.hash, request.key, &found);
                }
                sink.finish(index, Outcome::Hit);
            }
            return Break(room);
        }
        self.meta_get_at_length((index, request), get, sink)
    }

    #[inline(never)]
    fn meta_get_at_length<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        get: &MetaGet,
        sink: &mut S,
    ) -> ControlFlow<bool> {
        let Some(found) = self.find(request.hash, request.key) else {
            return match get.vivify {
                Some(expiry) => self.vivify((index, request), get, expiry, sink),
                None => {
                    sink.finish(index, Outcome::NotFound);
                    Break(true)
                }
            };
        };
        let state = self.state_of(&found);
        let is_due = state.stale || get.is_near_end(found.expiry);
        let won = is_due && !state.token_sent && !get.leaves_token;
        let unchanged = get.unless_cas.is_some_and(|cas| cas == self.cas_of(&found));
        let known = self.describe(&found);
        let access_s = match known.access_s {
            0 => self.partition.unfetched_since_s(&found.place, found.header, self.now_s),
            access_s => access_s,
        };
        let item = ItemMeta {
            access_s,
            unchanged,
            cas: if get.cas { self.give_cas(request.hash, &found) } else { 0 },
            expiry: get.touch.unwrap_or(found.expiry),
            won,
            ..known
        };
        // A client may know the CAS value only since this request.
        let found = self.found_at(found.slot, found.place);
        if !self.show_item((index, request), &found, item, get, sink) {
            return Break(false);
        }
        let state = State { token_sent: state.token_sent || won, ..state };
        match self.after_meta_get(request, &found, get, state) {
            // The item was evicted at once to make space for its copy: the value that was read was
            // right.
            Ok(()) | Err(Refusal::Gone) => sink.finish(index, Outcome::Hit),
            Err(refusal) => {
                if get.value && !unchanged {
                    sink.rollback(index);
                }
                if refusal == Refusal::Busy {
                    return Continue(());
                }
                sink.finish(index, Outcome::OutOfMemory);
            }
        }
        Break(true)
    }

    /// Describes an item, and copies its value if the request wants it. Returns false if there is
    /// no room.
    #[inline(always)]
    fn show_item<S: ReplySink>(
        &self,
        (index, _): (usize, &HashedRequest<'_>),
        found: &Found,
        item: ItemMeta,
        get: &MetaGet,
        sink: &mut S,
    ) -> bool {
        sink.describe(index, item);
        if !get.value || item.unchanged {
            return true;
        }
        let meta = ValueMeta { flags: item.flags, cas: item.cas, value_bytes: item.value_bytes };
        let Some(target) = sink.reserve(index, meta) else {
            return false;
        };
        self.copy_value(found.value_at(), &mut target[..item.value_bytes]);
        true
    }

    /// Describes an item from its bytes.
    #[inline]
    pub(super) fn describe(&self, found: &Found) -> ItemMeta {
        let mut item = ItemMeta::of(found);
        if found.header.has_state() {
            let state = self.state_of(found);
            item.access_s = state.access_s;
            item.stale = state.stale;
            item.token_sent = state.token_sent;
        }
        item
    }

    /// Makes the changes of a get.
    fn after_meta_get(
        &self,
        request: &HashedRequest<'_>,
        found: &Found,
        get: &MetaGet,
        state: State,
    ) -> Result<(), Refusal> {
        let expiry = get.touch.unwrap_or(found.expiry);
        if expiry.has_passed(self.now_s) {
            // The value is still returned, for the last time.
            self.remove(request.hash, found);
            return Ok(());
        }
        let noted = !get.uncounted && (get.access || state.access_s != 0);
        let access_s = match (noted, get.access && state.access_s == 0) {
            (false, false) => state.access_s,
            _ => self.now_s,
        };
        let state = State { access_s, ..state };
        let needs_state = state != State::default() && !found.header.has_state();
        let needs_meta = expiry != Expiry::NEVER && !found.header.has_meta();
        // The two words belong together, and a kill could come between them.
        let both = expiry != found.expiry && state != self.state_of(found);
        let beside = both && self.partition.layout.is_kept_store();
        if !needs_state && !needs_meta && !beside {
            self.set_in_place(request.hash, found, expiry, state);
            if !get.uncounted {
                self.note_found(request.hash, request.key, found);
            }
            return Ok(());
        }
        let max = self.partition.layout.policy.frequency_max;
        let copy = self.copy_of(request.key, found);
        let item = NewItem {
            expiry,
            state: Some(state).filter(|_| needs_state || found.header.has_state()),
            fetched: copy.fetched || !get.uncounted,
            frequency: (copy.frequency + u64::from(!get.uncounted)).min(max),
            ..copy
        };
        self.insert(request.hash, &item, Some(found)).map(drop)
    }

    /// Replaces expiry and state of an item that has the extensions.
    fn set_in_place(&self, hash: crate::index::hash::IndexHash, found: &Found, expiry: Expiry, state: State) {
        let p = self.partition;
        let changes = [expiry != found.expiry, state != self.state_of(found)];
        if changes == [false, false] {
            return;
        }
        // A store that outlives its process writes such an item to a new place instead.
        let both = changes == [true, true];
        let position = found.place.position;
        self.kill_chunk(position);
        p.bucket(hash).write(|| {
            let header = p.header(position);
            if both {
                // Busy until both are written, for a process that recovers the image after a kill.
                self.set_header(position, header.with_busy());
                fence(Release);
            }
            if header.has_meta() {
                p.set_meta(position + 1, (found.flags, expiry));
            }
            if header.has_state() {
                p.set_state(position + header.state_word(), state);
            }
            if both {
                self.set_header(position, header);
            }
        });
        self.note_expiry(expiry);
    }

    /// Stores an empty item, which the client is to fill.
    fn vivify<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        get: &MetaGet,
        expiry: Expiry,
        sink: &mut S,
    ) -> ControlFlow<bool> {
        let follows = self.partition.follows_accesses();
        let state = State {
            access_s: if follows { self.now_s } else { 0 },
            stale: false,
            token_sent: true,
            cas: get.new_cas,
        };
        let item = NewItem {
            state: Some(state),
            gives_cas: get.cas || state.cas != 0,
            fetched: !get.uncounted,
            value: [Part::NONE, Part::NONE],
            ..NewItem::of(request.key, &[], (0, expiry))
        };
        match self.insert_described(request.hash, &item, None) {
            Ok(stored) => {
                sink.describe(
                    index,
                    ItemMeta {
                        cas: if get.cas { stored.cas } else { 0 },
                        unchanged: get.unless_cas == Some(stored.cas),
                        expiry,
                        access_s: self.now_s,
                        fetched: false,
                        won: true,
                        created: true,
                        ..stored
                    },
                );
                sink.finish(index, Outcome::Stored);
            }
            Err(Refusal::Busy) => return Continue(()),
            Err(refusal) => sink.finish(index, refusal.into()),
        }
        Break(true)
    }
}

impl ItemMeta {
    /// Describes an item by its header and meta word.
    #[inline]
    pub(crate) fn of(found: &Found) -> Self {
        Self {
            flags: found.flags,
            value_bytes: found.value_bytes(),
            expiry_before: found.expiry,
            expiry: found.expiry,
            fetched: found.header.is_fetched(),
            item_bytes: found.header.units() as usize * 8,
            ..Self::default()
        }
    }
}
