//! Single operations, for programs that embed the engine: [`Worker::get_with`], [`Worker::set`],
//! [`Worker::delete`]. Batches ([`Worker::execute`]) are faster: they overlap the memory's latency.

use crate::access::Permission;
use crate::log::item::Expiry;
use crate::operations::request::{Condition, Operation, Outcome, ReplySink, Request, ValueMeta};
use crate::worker::Worker;
use crate::worker::pipeline::{Mode, Own};
use crate::worker::prefetch::look_up;

/// Keeps one reply.
#[derive(Default)]
struct Reply {
    outcome: Option<Outcome>,
    meta: Option<ValueMeta>,
    value: Vec<u8>,
}

impl ReplySink for Reply {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.resize(meta.value_bytes, 0);
        self.meta = Some(meta);
        Some(&mut self.value)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Worker {
    /// Calls `look` with the value of a key. The value is in place, without a copy, if this worker
    /// owns the partition of the key (EREW, CREW, or the only worker), and a copy otherwise,
    /// because others may write meanwhile. Returns `None` if there is no such item.
    ///
    /// # Errors
    /// [`Outcome::NotOwner`]: under EREW the partition is another worker's, and the cache has no
    /// waker.
    pub fn get_with<R>(
        &mut self,
        key: &[u8],
        now_s: u32,
        look: impl FnOnce(&[u8], u32) -> R,
    ) -> Result<Option<R>, Outcome> {
        let hash = self.cache().hash(key);
        self.flush_if_due(now_s);
        let batch = self.enter();
        let hint = look_up(self.cache(), batch.number(), hash);
        if hint.is_fact() {
            let writer = Own::writer(hint.partition, now_s);
            writer.keep_hints();
            if hint.entry == 0 {
                return Ok(None);
            }
            if let Some(item) = writer.plain_item(&hint, key) {
                let seen = writer.show_bytes(item.value_at, item.value_bytes, |value| look(value, 0));
                writer.count_hinted(&hint, item.header);
                return Ok(Some(seen));
            }
        }
        let partition = hint.partition;
        if partition.route.permission(batch.number()) == Permission::Own {
            let writer = Own::writer(partition, now_s);
            let hash = partition.index_hash(hash);
            let Some(found) = writer.find(hash, key) else {
                return Ok(None);
            };
            let seen = writer.show(&found, |value| look(value, found.flags));
            writer.note_found(hash, key, &found);
            return Ok(Some(seen));
        }
        drop(batch);
        let mut reply = Reply::default();
        let operation = Operation::Get { cas: false };
        let request = Request { hash, key, operation };
        self.execute(&[request], now_s, &mut reply);
        match (reply.outcome, reply.meta) {
            (Some(Outcome::Hit), Some(meta)) => Ok(Some(look(&reply.value, meta.flags))),
            (Some(Outcome::NotOwner), _) => Err(Outcome::NotOwner),
            _ => Ok(None),
        }
    }

    /// Stores a value. Returns [`Outcome::Stored`], or the reason for a refusal.
    pub fn set(&mut self, key: &[u8], value: &[u8], expiry: Expiry, now_s: u32) -> Outcome {
        let (condition, flags) = (Condition::Always, 0);
        let operation = Operation::Store { condition, value, flags, expiry };
        self.one(key, operation, now_s)
    }

    /// Removes an item. Returns [`Outcome::Deleted`], or the reason for a refusal.
    pub fn delete(&mut self, key: &[u8], now_s: u32) -> Outcome {
        self.one(key, Operation::Delete, now_s)
    }

    fn one(&mut self, key: &[u8], operation: Operation<'_>, now_s: u32) -> Outcome {
        let mut reply = Reply::default();
        let hash = self.cache().hash(key);
        let request = Request { hash, key, operation };
        self.execute(&[request], now_s, &mut reply);
        reply.outcome.unwrap_or(Outcome::NotStored)
    }
}
