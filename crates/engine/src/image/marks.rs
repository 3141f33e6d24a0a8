//! The mark of a clean end, and the order in which marks and data reach the disk.
//!
//! After a loss of power the disk holds some of the writes, in no order but that of completed
//! syncs. The mark of the first partition decides: one page, which the disk has or has not. It is
//! cleared on the disk before any other write, and set when all data are on the disk. The other
//! partitions have theirs whenever the first one does, so that files of several moments are
//! noticed.

use std::io;

/// A partition, reduced to its mark.
pub(super) trait Marked {
    /// Sets or clears the mark, in memory.
    fn mark(&self, clean: bool);

    /// Writes the page of the mark to the disk.
    fn sync_mark(&self) -> io::Result<()>;

    /// Writes everything to the disk.
    fn sync_all(&self) -> io::Result<()>;
}

/// Marks the image as in use. Returns when the mark is on the disk.
pub(super) fn clear(partitions: &[impl Marked]) -> io::Result<()> {
    mark_and_sync(partitions.iter(), false)
}

/// Marks the image as complete.
pub(super) fn set(partitions: &[impl Marked]) -> io::Result<()> {
    partitions.iter().try_for_each(Marked::sync_all)?;
    mark_and_sync(partitions.iter().rev(), true)
}

fn mark_and_sync<'a, M: Marked + 'a>(
    mut partitions: impl Iterator<Item = &'a M>,
    clean: bool,
) -> io::Result<()> {
    partitions.try_for_each(|partition| {
        partition.mark(clean);
        partition.sync_mark()
    })
}

/// The words of partitions when their marks went to the disk, for tests.
#[cfg(test)]
pub(crate) mod synced {
    use std::cell::RefCell;

    use micanite_memory::sync::Ordering::Relaxed;

    use crate::partition::Partition;

    thread_local! {
        static WORDS: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn note(partition: &Partition) {
        WORDS.with_borrow_mut(|all| all.push(words(partition)));
    }

    /// Returns every word.
    pub(crate) fn words(partition: &Partition) -> Vec<u64> {
        let word = |word| partition.word(word).load(Relaxed);
        (0..partition.region.words()).map(word).collect()
    }

    /// Returns the words at each sync by this thread since the last call.
    #[cfg(not(loom))]
    pub(crate) fn take() -> Vec<Vec<u64>> {
        WORDS.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Two pages of a partition: the mark, and a version of the data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Pages {
        marked: bool,
        data: u32,
    }

    /// Partitions in memory and on a disk. Between two syncs the kernel may write any page.
    struct Machine {
        memory: Vec<Pages>,
        /// Possible contents of the disk: each mark, each version of the data.
        disk: Vec<(Vec<bool>, Vec<u32>)>,
    }

    struct Partition<'a>(&'a RefCell<Machine>, usize);

    impl Machine {
        fn new(count: usize, marked: bool) -> RefCell<Self> {
            let data = 0;
            RefCell::new(Self {
                memory: vec![Pages { marked, data }; count],
                disk: vec![(vec![marked], vec![data]); count],
            })
        }

        fn change(&mut self, number: usize, change: impl FnOnce(&mut Pages)) {
            change(&mut self.memory[number]);
            let Pages { marked, data } = self.memory[number];
            self.disk[number].0.push(marked);
            self.disk[number].1.push(data);
            self.check();
        }

        /// Checks that a disk on which the first partition may be marked holds the present data and
        /// each mark.
        fn check(&self) {
            let may_be_trusted = self.disk[0].0.contains(&true);
            let mut others = self.disk.iter().skip(1);
            let all_are_marked = others.all(|(marks, _)| *marks == [true]);
            assert!(!may_be_trusted || all_are_marked, "{:?}", self.disk);
            let is_current = |(pages, (_, data)): (&Pages, &(Vec<bool>, Vec<u32>))| {
                data.iter().all(|version| *version == pages.data)
            };
            let mut all = self.memory.iter().zip(&self.disk);
            assert!(!may_be_trusted || all.all(is_current), "{:?}", self.disk);
        }
    }

    impl Marked for Partition<'_> {
        fn mark(&self, clean: bool) {
            let mut machine = self.0.borrow_mut();
            machine.change(self.1, |pages| pages.marked = clean);
        }

        fn sync_mark(&self) -> io::Result<()> {
            let mut machine = self.0.borrow_mut();
            machine.disk[self.1].0 = vec![machine.memory[self.1].marked];
            machine.check();
            Ok(())
        }

        fn sync_all(&self) -> io::Result<()> {
            self.sync_mark()?;
            let mut machine = self.0.borrow_mut();
            machine.disk[self.1].1 = vec![machine.memory[self.1].data];
            machine.check();
            Ok(())
        }
    }

    /// Proves that a disk with the first mark holds all data whenever the power fails: after each
    /// step, the test tries every order of the kernel's own writes.
    #[test]
    fn a_disk_with_the_first_mark_holds_all_data_at_every_power_failure() {
        for count in 1..4 {
            let machine = Machine::new(count, true);
            let partitions: Vec<_> = (0..count).map(|number| Partition(&machine, number)).collect();
            for round in 1..4 {
                clear(&partitions).unwrap();
                for number in 0..count {
                    let mut machine = machine.borrow_mut();
                    machine.change(number, |pages| pages.data = round);
                }
                set(&partitions).unwrap();
                let machine = machine.borrow();
                let is_marked = |(marks, _): &(Vec<bool>, _)| *marks == [true];
                assert!(machine.disk.iter().all(is_marked), "it is trusted then");
            }
        }
    }

    /// Proves that the model notices the order that the engine once had: marks cleared in memory,
    /// but not on the disk.
    #[test]
    #[should_panic(expected = "true")]
    fn the_model_fails_for_marks_cleared_in_memory_alone() {
        let machine = Machine::new(2, true);
        Partition(&machine, 0).mark(false);
        machine.borrow_mut().change(1, |pages| pages.data = 1);
    }
}
