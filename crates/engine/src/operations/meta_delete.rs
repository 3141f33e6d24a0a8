//! delete of meta commands: for one CAS value only, or of the value only, or by a stale mark.

use crate::log::item::{Expiry, State};
use crate::operations::meta::MetaDelete;
use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::{NewItem, Part, Writer};

impl Writer<'_> {
    pub fn meta_delete(&self, request: &HashedRequest<'_>, delete: &MetaDelete) -> Outcome {
        let Some(found) = self.find(request.hash, request.key) else {
            return Outcome::NotFound;
        };
        if delete.compare.is_some_and(|cas| cas != self.cas_of(&found)) {
            return Outcome::Exists;
        }
        if !delete.invalidate && delete.empty.is_none() {
            self.remove(request.hash, &found);
            return Outcome::Deleted;
        }
        let copy = self.copy_of(request.key, &found);
        let old = self.state_of(&found);
        let mut item = match delete.empty {
            None => NewItem { expiry: delete.expiry.unwrap_or(found.expiry), ..copy },
            Some(flags) => NewItem {
                flags,
                expiry: delete.expiry.unwrap_or(Expiry::NEVER),
                fetched: false,
                value: [Part::NONE, Part::NONE],
                ..copy
            },
        };
        let mut state = State {
            stale: delete.invalidate || delete.empty.is_none() && old.stale,
            token_sent: false,
            ..old
        };
        if delete.invalidate {
            // A client that read the item before must not be able to store over it by the old CAS
            // value.
            item.cas = None;
            item.gives_cas = false;
            state.cas = 0;
        } else if state.cas == 0 {
            item.cas = Some(self.cas_of(&found));
        }
        if delete.new_cas != 0 {
            item.cas = None;
            item.gives_cas = true;
            state.cas = delete.new_cas;
        }
        item.state = (state != State::default()).then_some(state);
        match self.insert_counted(request.hash, &item, Some(&found)) {
            Outcome::Stored => Outcome::Deleted,
            outcome => outcome,
        }
    }
}
