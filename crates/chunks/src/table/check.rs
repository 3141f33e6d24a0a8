//! Checks of a whole table, for tests.

use std::collections::HashSet;

use super::Table;
use super::slots::{NONE, State};

impl Table {
    /// Counts everything anew: chunks by state, lists, pages, bytes. Panics if the books are wrong.
    ///
    /// `taken` is the number of chunks in the hands of callers.
    pub fn check(&self, taken: usize) {
        let mut counted_taken = 0;
        let mut classes = vec![[0; 4]; self.classes.len()]; // pages, free, living, dying
        let mut free_pages = 0;
        let mut dying = 0;
        for (number, page) in self.pages.iter().enumerate() {
            if page.class == NONE {
                free_pages += 1;
                assert_eq!((page.carved, page.present, page.is_emptied), (0, 0, false));
                continue;
            }
            let class = &mut classes[page.class as usize];
            class[0] += u32::from(!page.is_emptied);
            let mut states = [0; 5];
            for chunk in 0..page.carved {
                let slot = number as u32 * self.slots_per_page + chunk;
                let known = self.slots.get(slot);
                states[known.state as usize] += 1;
                assert!(!known.is_dirty || known.state == State::Living);
                let version = self.area.header_at(self.offset(slot)).version;
                assert_eq!(version, if known.state == State::Living { known.version } else { 0 });
            }
            let [absent, free, in_hands, living, dead] = states;
            assert_eq!((page.living, page.dying), (living, dead));
            assert_eq!(page.present, page.carved - absent);
            assert!(absent == 0 || page.is_emptied);
            let chunks = self.classes[page.class as usize].chunks_per_page;
            let is_carved = page.carved == chunks || page.is_emptied;
            assert!(is_carved || self.classes[page.class as usize].carving == number as u32);
            counted_taken += in_hands as usize;
            dying += dead;
            class[1] += free;
            class[2] += living;
            class[3] += if page.is_emptied { 0 } else { dead };
        }
        assert_eq!((counted_taken, free_pages, dying), (taken, self.free_pages.len(), self.dying.count));
        let emptied = self.pages.iter().filter(|page| page.is_emptied).count();
        assert_eq!(emptied, usize::from(self.emptying.is_some()));
        for (class, counts) in self.classes.iter().zip(classes) {
            assert_eq!([class.pages, class.free.count, class.living.count, class.dying], counts);
            for (list, state) in [(class.free, State::Free), (class.living, State::Living)] {
                let mut listed = list.iter(&self.slots);
                assert!(listed.all(|slot| self.slots.get(slot).state == state));
                assert_eq!(list.iter(&self.slots).count(), list.count as usize);
            }
        }
        self.check_dying();
        self.check_index();
    }

    fn check_dying(&self) {
        let deaths: Vec<_> = self.dying.iter(&self.slots).map(|slot| self.slots.get(slot)).collect();
        assert_eq!(deaths.len(), self.dying.count as usize);
        assert!(deaths.iter().all(|slot| slot.state == State::Dying));
        assert!(deaths.is_sorted_by_key(|slot| slot.hash_or_death_ns));
    }

    fn check_index(&self) {
        let slots: Vec<u32> =
            (0..self.index.buckets() as u64).flat_map(|bucket| self.index.slots_in(bucket)).collect();
        let known: Vec<_> = slots.iter().map(|slot| self.slots.get(*slot)).collect();
        assert!(known.iter().all(|slot| slot.state == State::Living));
        let hashes: HashSet<u64> = known.iter().map(|slot| slot.hash_or_death_ns).collect();
        assert_eq!(hashes.len(), slots.len(), "two chunks of one hash");
        assert_eq!(slots.len() as u64, self.usage().living);
        assert_eq!(known.iter().filter(|slot| slot.is_dirty).count() as u64, self.usage().dirty);
        assert!(hashes.iter().all(|hash| self.index.may_have(*hash)));
    }
}
