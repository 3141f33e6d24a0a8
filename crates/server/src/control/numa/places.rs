//! The wanted and the actual place of each partition's memory, and the queue of those that have to move.

use std::collections::VecDeque;

use micanite_memory::numa::Policy;

/// The place of a partition's memory.
#[derive(Clone, Debug)]
pub struct Place {
    /// None leaves the choice to the kernel.
    pub policy: Option<Policy>,
    pub state: State,
    /// Number of changes of the policy.
    change: u64,
}

impl Place {
    /// Returns the nodes that the memory is to be on, as text.
    pub fn wanted(&self) -> String {
        self.policy.map_or_else(|| "any".into(), |policy| policy.to_string())
    }
}

/// A partition's memory on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has had this policy since the start.
    Bound,
    Queued,
    /// This part has been visited, in percent.
    Moving(u64),
    /// All of it has moved.
    Moved,
    /// So many pages have stayed elsewhere.
    Partly(u64, String),
    /// It stays where it is.
    Stays(String),
}

impl State {
    /// Returns one word for statistics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Queued => "queued",
            Self::Moving(_) => "moving",
            Self::Moved => "moved",
            Self::Partly(..) => "partly",
            Self::Stays(_) => "stays",
        }
    }
}

/// The task to move a partition's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub partition: usize,
    pub policy: Option<Policy>,
    change: u64,
}

/// The places of all partitions.
#[derive(Debug, Default)]
pub struct Places {
    places: Vec<Place>,
    queue: VecDeque<usize>,
    pub is_ending: bool,
}

impl Places {
    /// At the start, with the policy of each partition.
    pub fn new(policies: impl Iterator<Item = Option<Policy>>) -> Self {
        let place = |policy| Place { policy, state: State::Bound, change: 0 };
        Self { places: policies.map(place).collect(), ..Self::default() }
    }

    pub fn all(&self) -> &[Place] {
        &self.places
    }

    /// Notes a policy. Returns whether it is another one than before, so that memory has to move.
    pub fn want(&mut self, partition: usize, policy: Option<Policy>) -> bool {
        match self.places.get_mut(partition) {
            Some(place) if place.policy != policy => {
                place.policy = policy;
                place.change += 1;
                self.enqueue(partition);
                true
            }
            _ => false,
        }
    }

    /// Notes that a partition could not be bound at the start.
    pub fn fail(&mut self, partition: usize, reason: String) {
        if let Some(place) = self.places.get_mut(partition) {
            place.state = State::Stays(reason);
        }
    }

    /// Has a partition visited.
    pub fn enqueue(&mut self, partition: usize) {
        if let Some(place) = self.places.get_mut(partition) {
            place.state = State::Queued;
            if !self.queue.contains(&partition) {
                self.queue.push_back(partition);
            }
        }
    }

    /// Takes the next task.
    pub fn next(&mut self) -> Option<Job> {
        let partition = self.queue.pop_front()?;
        let place = &mut self.places[partition];
        place.state = State::Moving(0);
        Some(Job { partition, policy: place.policy, change: place.change })
    }

    /// Returns whether a task is still wanted: its partition has not been given to another owner since.
    pub fn is_wanted(&self, job: &Job) -> bool {
        !self.is_ending && self.places[job.partition].change == job.change
    }

    /// Notes what became of a task, unless there is a newer one.
    pub fn set(&mut self, job: &Job, state: State) {
        let place = &mut self.places[job.partition];
        if place.change == job.change {
            place.state = state;
        }
    }
}
