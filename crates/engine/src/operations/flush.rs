//! flush_all: removes all items written before this moment. Takes constant time; the heads, or in a
//! store the sweep, free the space later.

use crate::log::LogKind;
use crate::region::{Field, LogField};
use crate::writer::Writer;

impl Writer<'_> {
    pub fn flush(&self) {
        let p = self.partition;
        // A reader that sees the flush first would accept an old chunk later.
        self.void_chunks();
        if p.is_store() {
            p.set(Field::FlushStamp, p.get(Field::Stamp));
            p.expect_sweep_work();
        } else {
            for which in [LogKind::Small, LogKind::Main] {
                let log = p.log(which);
                log.set(LogField::FlushMark, log.get(LogField::Tail));
            }
        }
        p.set(Field::ItemsLive, 0);
        p.set(Field::UnitsLive, 0);
        self.set_flush_due(None);
    }
}
