//! flush_all: what lies before the tail of this moment is gone. Constant time; the space comes
//! back as the head comes by.

use crate::partition::Field;
use crate::writer::Writer;

impl Writer<'_> {
    pub fn flush(&self) {
        let p = self.partition;
        p.set(Field::FlushMark, p.get(Field::Tail));
        p.set(Field::ItemsLive, 0);
        p.set(Field::UnitsLive, 0);
    }
}
