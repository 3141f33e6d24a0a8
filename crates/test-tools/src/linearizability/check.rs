//! Searches an order of a key's operations that explains all replies: each operation takes effect at one
//! moment between its call and its return.
//!
//! The search goes through calls and returns by time and keeps every *configuration* that is possible: the
//! state of the key, and which of the pending operations have taken effect. At a return it lets pending
//! operations take effect until the one that returns has done so (Lowe, "Testing for linearizability", 2017:
//! just-in-time linearization). Operations that change nothing take effect as soon as their reply is right.
//! An operation without a reply stays pending for ever; of two configurations that differ in such operations
//! only, the one that used fewer of them can do all that the other can.

use std::collections::HashMap;

use super::operation::{Leaves, Operation, State, Step};

/// Operations of one key that may be pending at a time, those without a reply included.
const PENDING_MAX: usize = 128;

/// One explanation of the history so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    state: State,
    /// Places of pending operations that have taken effect.
    done: u128,
}

/// A return that no configuration explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Place in the history of the operation that returns.
    pub operation: usize,
    /// States that the key could have when it returned, were it not for its reply.
    pub states: Vec<State>,
}

/// Reason why a history was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Violation(Violation),
    /// More operations were pending than the search can hold.
    TooManyPending,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    operation: usize,
    step: Step,
    /// It has no return.
    is_open: bool,
}

/// The minimal configurations that were found, by state and by operations that must take effect.
#[derive(Debug, Default)]
struct Visited(HashMap<(State, u128), Vec<u128>>);

impl Visited {
    /// Returns whether the configuration can do something that none before it could.
    fn insert(&mut self, configuration: Configuration, open: u128) -> bool {
        let Configuration { state, done } = configuration;
        let minimal = self.0.entry((state, done & !open)).or_default();
        let used = done & open;
        if minimal.iter().any(|fewer| fewer & used == *fewer) {
            return false;
        }
        minimal.retain(|more| used & more != used);
        minimal.push(used);
        true
    }

    fn configurations(self) -> Vec<Configuration> {
        let all = self.0.into_iter();
        all.flat_map(|((state, required), opens)| {
            opens.into_iter().map(move |used| Configuration { state, done: required | used })
        })
        .collect()
    }
}

struct Search {
    evicts: bool,
    pending: [Option<Pending>; PENDING_MAX],
    /// Places of `pending` that are taken, and those of operations that never return.
    taken: u128,
    open: u128,
    configurations: Vec<Configuration>,
}

/// Checks a key's history, in any order. `evicts`: an item may leave at any time. The key is absent at first.
pub(super) fn check(history: &[Operation], evicts: bool) -> Result<(), Refusal> {
    // Calls before returns of the same moment: those operations overlap.
    let mut events = Vec::with_capacity(2 * history.len());
    for (place, operation) in history.iter().enumerate() {
        if operation.step().is_some() {
            events.push((operation.called_ns, false, place));
            if operation.returned_ns != u64::MAX {
                events.push((operation.returned_ns, true, place));
            }
        }
    }
    events.sort_unstable();
    let mut search = Search {
        evicts,
        pending: [None; PENDING_MAX],
        taken: 0,
        open: 0,
        configurations: vec![Configuration { state: None, done: 0 }],
    };
    for (_, is_return, place) in events {
        match is_return {
            false => search.call(place, &history[place])?,
            true => search.end(place)?,
        }
    }
    Ok(())
}

impl Search {
    fn call(&mut self, operation: usize, called: &Operation) -> Result<(), Refusal> {
        let Some(step) = called.step() else { return Ok(()) };
        let slot = (!self.taken).trailing_zeros() as usize;
        if slot >= PENDING_MAX {
            return Err(Refusal::TooManyPending);
        }
        let is_open = called.returned_ns == u64::MAX;
        self.pending[slot] = Some(Pending { operation, step, is_open });
        self.taken |= 1 << slot;
        if is_open {
            self.open |= 1 << slot;
        }
        for at in 0..self.configurations.len() {
            self.configurations[at] = self.settle(self.configurations[at]);
        }
        Ok(())
    }

    /// Keeps the configurations in which the operation has taken effect, or may be left out.
    fn end(&mut self, operation: usize) -> Result<(), Refusal> {
        let slot = self
            .slots(self.taken)
            .find(|slot| self.pending[*slot].is_some_and(|pending| pending.operation == operation));
        let Some(slot) = slot else { return Ok(()) };
        let optional = self.pending[slot].is_some_and(|pending| pending.step.optional);
        let bit = 1_u128 << slot;
        let (mut visited, mut ended) = (Visited::default(), Visited::default());
        let mut queue = std::mem::take(&mut self.configurations);
        for configuration in &queue {
            visited.insert(*configuration, self.open);
        }
        let mut next = 0;
        while let Some(&configuration) = queue.get(next) {
            next += 1;
            if configuration.done & bit != 0 || optional {
                ended.insert(Configuration { done: configuration.done & !bit, ..configuration }, self.open);
            }
            if configuration.done & bit == 0 {
                self.expand(configuration, |found| {
                    if visited.insert(found, self.open) {
                        queue.push(found);
                    }
                });
            }
        }
        self.configurations = ended.configurations();
        if self.configurations.is_empty() {
            let mut states: Vec<_> = queue.iter().map(|configuration| configuration.state).collect();
            states.sort_unstable();
            states.dedup();
            return Err(Refusal::Violation(Violation { operation, states }));
        }
        self.release(bit);
        self.release_used();
        Ok(())
    }

    /// Lets each pending operation that can change the state take effect.
    fn expand(&self, configuration: Configuration, mut sink: impl FnMut(Configuration)) {
        let mut has_removed = false;
        for slot in self.slots(self.taken & !configuration.done) {
            let Some(Pending { step, is_open, .. }) = self.pending[slot] else { continue };
            if is_open && step.leaves == Leaves::Absent {
                // Removals without a reply are all alike.
                if std::mem::replace(&mut has_removed, true) {
                    continue;
                }
            }
            let Some(state) = step.apply(configuration.state, self.evicts) else { continue };
            if step.optional && state == configuration.state {
                continue;
            }
            sink(self.settle(Configuration { state, done: configuration.done | 1 << slot }));
        }
    }

    /// Lets operations take effect whose reply is right and that change nothing.
    fn settle(&self, mut configuration: Configuration) -> Configuration {
        let state = configuration.state;
        for slot in self.slots(self.taken & !configuration.done) {
            let Some(Pending { step, .. }) = self.pending[slot] else { continue };
            if step.leaves == Leaves::Same && step.apply(state, self.evicts) == Some(state) {
                configuration.done |= 1 << slot;
            }
        }
        configuration
    }

    /// Frees places whose operations are over.
    fn release(&mut self, bits: u128) {
        for slot in self.slots(bits) {
            self.pending[slot] = None;
        }
        self.taken &= !bits;
        self.open &= !bits;
        for configuration in &mut self.configurations {
            configuration.done &= !bits;
        }
    }

    /// Frees operations without a reply that have taken effect in every configuration.
    fn release_used(&mut self) {
        let used = self.configurations.iter().fold(self.open, |used, found| used & found.done);
        self.release(used);
    }

    fn slots(&self, mut bits: u128) -> impl Iterator<Item = usize> + use<> {
        std::iter::from_fn(move || {
            let slot = bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
            (slot < u128::BITS).then_some(slot as usize)
        })
    }
}
