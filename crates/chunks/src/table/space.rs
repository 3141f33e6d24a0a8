//! Space: free chunks, leases of dead ones, eviction, and pages that change their class.

use super::class::{Class, Page};
use super::slots::{NONE, State};
use super::{Host, Table};

/// Pages that one search for the emptiest looks at.
const PAGES_SEARCHED_MAX: usize = 64;
/// Part of a class that is kept free or dying. A class with fewer chunks evicts when a load finds none.
const SPARE_PART: u32 = 16;
/// Loads that find no chunk, after which a class may get a further page. At least as many as a page has
/// chunks.
const FAILURES_MIN: u32 = 64;

/// Work that a call may do. What is left waits for the next call.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Dead chunks whose lease has ended that become free.
    pub buried: usize,
    evicted: usize,
    /// Chunks of a page that is being emptied.
    emptied: usize,
    copied_back: usize,
}

impl Work {
    pub const OF_A_REQUEST: Self = Self { buried: 4, evicted: 2, emptied: 32, copied_back: 1 };
    const OF_THE_UPKEEP: Self = Self { buried: 256, evicted: 64, emptied: 256, copied_back: 1 };
}

/// Page that is being emptied, and the class that gets it.
#[derive(Clone, Copy, Debug)]
pub struct Emptying {
    page: u32,
    /// First chunk that was not looked at.
    cursor: u32,
    class: usize,
}

impl Table {
    /// Does a bounded part of what requests have left: ends of leases, a page to empty, eviction ahead.
    pub fn upkeep(&mut self, host: &mut impl Host) {
        let mut work = Work::OF_THE_UPKEEP;
        self.bury(work.buried, host);
        self.empty_page(&mut work, host);
        for _ in 0..self.classes.len() {
            self.next_class = (self.next_class + 1) % self.classes.len();
            self.evict_ahead(self.next_class, 0, &mut work, host);
        }
    }

    /// Frees chunks that have been dead for 1.03 leases.
    pub(super) fn bury(&mut self, count: usize, host: &mut impl Host) {
        if self.dying.count == 0 {
            return;
        }
        let now_ns = host.now_ns();
        let wait_ns = self.config.lease_ns.saturating_add((self.config.lease_ns / 100).saturating_mul(3));
        for _ in 0..count {
            let ended = self.dying.first().filter(|slot| {
                let death_ns = self.slots.get(*slot).hash_or_death_ns;
                now_ns.checked_sub(death_ns).is_some_and(|dead_ns| dead_ns > wait_ns)
            });
            let Some(slot) = ended else {
                return;
            };
            self.dying.remove(&mut self.slots, slot);
            let page = self.page_of(slot);
            page.dying -= 1;
            if !page.is_emptied {
                self.class_of(slot).dying -= 1;
            }
            self.release(slot);
        }
    }

    /// Makes a chunk free that is in no list.
    pub(super) fn release(&mut self, slot: u32) {
        let page = self.page_of(slot);
        let class = page.class as usize;
        if page.is_emptied {
            page.present -= 1;
            self.slots.change(slot, |slot| slot.state = State::Absent);
        } else {
            self.slots.change(slot, |slot| slot.state = State::Free);
            self.classes[class].free.push_first(&mut self.slots, slot);
        }
    }

    /// Returns a free chunk, which is in no list any more.
    pub(super) fn free_slot(&mut self, class: usize) -> Option<u32> {
        if let Some(slot) = self.classes[class].free.first() {
            self.classes[class].free.remove(&mut self.slots, slot);
            return Some(slot);
        }
        if self.uncarved(class) == 0 {
            let page = self.free_pages.pop()?;
            self.assign(page, class);
        }
        let carving = self.classes[class].carving;
        let page = &mut self.pages[carving as usize];
        let slot = carving * self.slots_per_page + page.carved;
        page.carved += 1;
        page.present += 1;
        self.area.carve(self.offset(slot));
        Some(slot)
    }

    /// Returns the number of chunks of the class that were never used.
    fn uncarved(&self, class: usize) -> u32 {
        let class = &self.classes[class];
        let page = self.pages.get(class.carving as usize);
        page.map_or(0, |page| class.chunks_per_page - page.carved)
    }

    fn assign(&mut self, page: u32, class: usize) {
        self.pages[page as usize] = Page { class: class as u32, ..Page::FREE };
        self.classes[class].carving = page;
        self.classes[class].pages += 1;
    }

    /// Evicts while too few chunks of the class are free or dying, at least so many, so that a load finds one
    /// a lease later.
    pub(super) fn evict_ahead(
        &mut self,
        class: usize,
        spare_min: u32,
        work: &mut Work,
        host: &mut impl Host,
    ) {
        while work.evicted > 0 && self.free_pages.is_empty() {
            let spare = self.uncarved(class) + self.classes[class].free.count + self.classes[class].dying;
            let all = self.classes[class].pages * self.classes[class].chunks_per_page;
            let Some(victim) = self.classes[class].living.last() else {
                return;
            };
            if spare >= (all / SPARE_PART).max(spare_min) || !self.evict(victim, work, host) {
                return;
            }
            work.evicted -= 1;
        }
    }

    /// Kills a living chunk, after copying it back if it is dirty. Returns `false` if it is, and the call may
    /// copy back no more.
    fn evict(&mut self, slot: u32, work: &mut Work, host: &mut impl Host) -> bool {
        if self.slots.get(slot).is_dirty {
            if work.copied_back == 0 {
                return false;
            }
            work.copied_back -= 1;
            let chunk = self.chunk(slot);
            // The chunk dies below in either case.
            let _ = self.copy_back(&chunk, host);
        }
        self.counters.evicted += 1;
        self.kill_slot(slot, host);
        true
    }

    /// Begins to empty the page of another class with the fewest living chunks, for a class without a page,
    /// or one whose loads keep failing. One page at a time.
    pub(super) fn choose_page_to_empty(&mut self, class: usize) {
        let wanting = &mut self.classes[class];
        wanting.failures = wanting.failures.saturating_add(1);
        let (has_page, failures) = (wanting.pages > 0, wanting.failures);
        let is_early = has_page && failures < wanting.chunks_per_page.max(FAILURES_MIN);
        if self.emptying.is_some() || is_early {
            return;
        }
        let count = self.pages.len();
        let searched = (0..count.min(PAGES_SEARCHED_MAX)).map(|step| (self.next_page + step) % count);
        let others = searched.filter(|page| {
            let owner = self.pages[*page].class;
            // A class that fails half as often, or would be left without a page, would want it back.
            let may_give = |from: &Class| !has_page || (from.pages > 1 && from.failures < failures / 2);
            owner != class as u32 && self.classes.get(owner as usize).is_some_and(may_give)
        });
        let found = others.min_by_key(|page| self.pages[*page].living);
        self.next_page = (self.next_page + PAGES_SEARCHED_MAX) % count;
        self.classes[class].failures = 0;
        let Some(page) = found else {
            return;
        };
        self.classes.iter_mut().for_each(|class| class.failures = 0);
        self.pages[page].is_emptied = true;
        let Page { class: from, dying, .. } = self.pages[page];
        let from = &mut self.classes[from as usize];
        from.pages -= 1;
        from.dying -= dying;
        if from.carving as usize == page {
            from.carving = NONE;
        }
        self.emptying = Some(Emptying { page: page as u32, cursor: 0, class });
    }

    /// Goes on emptying a page. Chunks that are taken or dying leave it when they are released.
    pub(super) fn empty_page(&mut self, work: &mut Work, host: &mut impl Host) {
        let Some(mut emptying) = self.emptying.take() else {
            return;
        };
        let first = emptying.page * self.slots_per_page;
        while work.emptied > 0 && emptying.cursor < self.pages[emptying.page as usize].carved {
            let slot = first + emptying.cursor;
            match self.slots.get(slot).state {
                State::Free => {
                    let class = self.page_of(slot).class as usize;
                    self.classes[class].free.remove(&mut self.slots, slot);
                    self.release(slot);
                }
                State::Living if !self.evict(slot, work, host) => break,
                _ => {}
            }
            emptying.cursor += 1;
            work.emptied -= 1;
        }
        let page = self.pages[emptying.page as usize];
        if page.present > 0 || emptying.cursor < page.carved {
            self.emptying = Some(emptying);
            return;
        }
        self.counters.pages_emptied += 1;
        if self.uncarved(emptying.class) == 0 {
            self.assign(emptying.page, emptying.class);
        } else {
            self.pages[emptying.page as usize] = Page::FREE;
            self.free_pages.push(emptying.page);
        }
    }
}
