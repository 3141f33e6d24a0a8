//! Notifies a listener of items that are evicted because memory is full.

use std::sync::OnceLock;

use micanite_memory::sync::AtomicBool;

use crate::limits::KEY_BYTES_MAX;
use crate::partition::item::ItemInfo;
use crate::partition::{Partition, Place};

type Listener = Box<dyn Fn(&ItemInfo<'_>, u32) + Send + Sync>;

/// The listener, and whether notifications are on.
#[derive(Default)]
pub(crate) struct EvictionListener {
    pub wanted: AtomicBool,
    pub listener: OnceLock<Listener>,
}

impl std::fmt::Debug for EvictionListener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EvictionListener")
    }
}

impl Partition {
    #[cold]
    pub fn notify_eviction(&self, place: &Place, now_s: u32) {
        let mut key = [0; KEY_BYTES_MAX];
        if let Some(listener) = self.eviction_listener.listener.get()
            && let Some(item) = self.item_at(place, &mut key)
        {
            listener(&item, now_s);
        }
    }
}
