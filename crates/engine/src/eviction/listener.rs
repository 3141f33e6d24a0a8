//! Notifies a listener of items that are evicted because memory is full.

use std::sync::OnceLock;

use micanite_memory::sync::{AtomicBool, Ordering};

use crate::cache::Cache;
use crate::limits::KEY_BYTES_MAX;
use crate::partition::{Partition, Place};
use crate::reader::walk::ItemInfo;
use crate::writer::Writer;

type Listener = Box<dyn Fn(&ItemInfo<'_>, u32) + Send + Sync>;

/// The listener, and whether notifications are on.
#[derive(Default)]
pub(crate) struct EvictionListener {
    wanted: AtomicBool,
    listener: OnceLock<Listener>,
}

impl std::fmt::Debug for EvictionListener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EvictionListener")
    }
}

impl Cache {
    /// Sets the eviction listener, once. It runs on the thread that evicts, within a request, and
    /// gets the second of that request. It must be quick, and must not use the cache.
    pub fn set_eviction_listener(&self, tell: impl Fn(&ItemInfo<'_>, u32) + Send + Sync + 'static) {
        // A second listener is ignored: the first is in use already.
        let _ = self.eviction_listener.listener.set(Box::new(tell));
    }

    /// Turns the notifications of the listener on or off.
    pub fn tell_evictions(&self, wanted: bool) {
        self.eviction_listener.wanted.store(wanted, Ordering::Relaxed);
    }
}

impl Writer<'_> {
    /// Notifies the listener, if that is on. Call it before the item at a place is evicted.
    #[inline]
    pub fn note_eviction(&self, place: &Place) {
        if self.partition.eviction_listener.wanted.load(Ordering::Relaxed) {
            self.partition.tell_eviction(place, self.now_s);
        }
    }
}

impl Partition {
    #[cold]
    fn tell_eviction(&self, place: &Place, now_s: u32) {
        let mut key = [0; KEY_BYTES_MAX];
        if let Some(listener) = self.eviction_listener.listener.get()
            && let Some(item) = self.item_at(place, &mut key)
        {
            listener(&item, now_s);
        }
    }
}
