//! Operations of the stepped writer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_engine::*;
use nix::sys::signal::{Signal, raise};

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A value of so many bytes of a letter, and an expiry.
    Set(&'static str, u8, usize, u32),
    /// The same by a meta command, which chooses the CAS value.
    MetaSet(&'static str, u8, usize, u64),
    Append(&'static str, &'static [u8]),
    Prepend(&'static str, &'static [u8]),
    Increment(&'static str, u64),
    /// A value in place of the one with this CAS value.
    Compare(&'static str, u8, usize, u64),
    Touch(&'static str, u32),
    /// A touch with an expiry that has passed.
    Expire(&'static str),
    Delete(&'static str),
}

/// State of the store when the steps begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// There is room.
    Roomy,
    /// There is no space left.
    Full,
    /// The index splits buckets as items come.
    Growing,
}

use Step::*;

/// Steps with room.
pub const ROOMY: &[Step] = &[
    Set("new", b'a', 40, 0),
    Set("new", b'b', 40, 0),
    Set("new", b'c', 20, 0),
    Set("new", b'd', 300, 0),
    Append("new", b"tail"),
    Prepend("new", b"head"),
    Touch("new", 5000),
    Touch("new", 6000),
    Increment("number", 1),
    Increment("number", 8999),
    MetaSet("meta", b'm', 30, 77),
    MetaSet("meta", b'n', 30, 78),
    Compare("meta", b'o', 30, 78),
    Expire("meta"),
    MetaSet("meta", b'p', 30, 79),
    Delete("meta"),
    Delete("new"),
];

/// In a store with no space left.
pub const FULL: &[Step] = &[
    Set("number", b'1', 3, 0),
    Increment("number", 889),
    Set("filler-0", b'e', 2000, 0),
    Set("filler-1", b'f', 10, 0),
    Delete("filler-2"),
];

/// While the index grows by a bucket for every few items.
pub const GROWING: &[Step] = &[
    Set("grown-0", b'a', 8, 0),
    Set("grown-1", b'b', 8, 0),
    Set("grown-2", b'c', 8, 0),
    Set("grown-3", b'd', 8, 0),
    Set("grown-4", b'e', 8, 0),
    Set("grown-5", b'f', 8, 0),
    Set("grown-6", b'g', 8, 0),
    Set("grown-7", b'h', 8, 0),
];

/// Items besides those of the steps.
pub const OTHERS: usize = 20;
/// Fillers that are looked at.
pub const FILLERS: usize = 6;
const FILLER_BYTES: usize = 2000;

impl Script {
    pub const ALL: [Self; 3] = [Self::Roomy, Self::Full, Self::Growing];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Roomy => "roomy",
            Self::Full => "full",
            Self::Growing => "growing",
        }
    }

    pub const fn steps(self) -> &'static [Step] {
        match self {
            Self::Roomy => ROOMY,
            Self::Full => FULL,
            Self::Growing => GROWING,
        }
    }
}

/// The key of a step.
pub fn key(step: &Step) -> &'static str {
    match step {
        Set(key, ..)
        | MetaSet(key, ..)
        | Append(key, _)
        | Prepend(key, _)
        | Increment(key, _)
        | Compare(key, ..)
        | Touch(key, _)
        | Expire(key)
        | Delete(key) => key,
    }
}

impl Step {
    /// The value of the key afterwards.
    pub fn expected(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        let old = || old.expect("a value before").to_vec();
        match *self {
            Set(_, letter, bytes, _) | MetaSet(_, letter, bytes, _) | Compare(_, letter, bytes, _) => {
                Some(vec![letter; bytes])
            }
            Append(_, more) => Some([&old(), more].concat()),
            Prepend(_, more) => Some([more, &old()].concat()),
            Increment(_, by) => {
                let text = String::from_utf8(old()).unwrap();
                let number = text.trim_end().parse::<u64>().unwrap() + by;
                Some(format!("{number:<width$}", width = text.len()).into_bytes())
            }
            Touch(..) => Some(old()),
            Expire(_) | Delete(_) => None,
        }
    }
}

pub fn config(directory: &Path, semantics: Semantics) -> Config {
    Config {
        memory_bytes: 1 << 20,
        value_bytes_max: 4096,
        semantics,
        image: Some(directory.join("image")),
        ..Config::default()
    }
}

/// Keeps one reply.
#[derive(Default)]
pub struct Reply {
    pub outcome: Option<Outcome>,
    pub value: Vec<u8>,
    pub item: ItemMeta,
}

impl ReplySink for Reply {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.resize(meta.value_bytes, 0);
        Some(&mut self.value)
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
    fn describe(&mut self, _: usize, item: ItemMeta) {
        self.item = item;
    }
}

pub fn ask(worker: &mut Worker, key: &str, operation: Operation<'_>) -> Reply {
    let (key, hash) = (key.as_bytes(), worker.cache().hash(key.as_bytes()));
    let mut reply = Reply::default();
    let request = Request { hash, key, operation };
    worker.execute(&[request], 1000, &mut reply);
    reply
}

fn set(value: &[u8], expiry_s: u32) -> Operation<'_> {
    Operation::Store { condition: Condition::Always, value, flags: 0, expiry: Expiry(expiry_s) }
}

/// Runs the writer: stops before and after each step.
pub fn run(directory: &Path, semantics: Semantics, script: Script) {
    let cache = Arc::new(Cache::new(&config(directory, semantics)).unwrap());
    let mut worker = cache.worker(0).unwrap();
    for number in 0..OTHERS {
        let key = format!("other-{number}");
        ask(&mut worker, &key, set(key.as_bytes(), 0));
    }
    ask(&mut worker, "number", set(b"1000", 0));
    match script {
        Script::Roomy => {}
        Script::Full => fill(&mut worker),
        Script::Growing => fill_until_it_grows(&mut worker),
    }
    let buckets = cache.stats().buckets;
    let thread = nix::unistd::gettid().to_string();
    std::fs::write(directory.join("thread.new"), thread).unwrap();
    std::fs::rename(directory.join("thread.new"), directory.join("thread")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !directory.join("go").exists() {
        assert!(Instant::now() < deadline, "nobody steps");
        std::thread::sleep(Duration::from_millis(1));
    }
    for step in script.steps() {
        execute(&mut worker, step);
    }
    let grown = cache.stats().buckets > buckets;
    assert!(grown || script != Script::Growing, "no bucket was split");
}

/// Inserts until insertions split buckets.
fn fill_until_it_grows(worker: &mut Worker) {
    let split = |worker: &Worker| worker.cache().stats().buckets_split;
    let before = split(worker);
    for number in 0..100_000 {
        if split(worker) >= before + 4 {
            return;
        }
        ask(worker, &format!("filler-{number}"), set(b"12345678", 0));
    }
    panic!("the index does not grow");
}

/// Fills a store until it refuses even the shortest item.
fn fill(worker: &mut Worker) {
    let mut bytes = FILLER_BYTES;
    for number in 0..2000 {
        let value = vec![b'x'; bytes];
        let reply = ask(worker, &format!("filler-{number}"), set(&value, 0));
        if reply.outcome != Some(Outcome::Stored) {
            let Some(shorter) = bytes.checked_sub(8) else {
                return;
            };
            bytes = shorter;
        }
    }
}

fn execute(worker: &mut Worker, step: &Step) {
    let value = match *step {
        Set(_, letter, bytes, _) | MetaSet(_, letter, bytes, _) | Compare(_, letter, bytes, _) => {
            vec![letter; bytes]
        }
        _ => Vec::new(),
    };
    let operation = match *step {
        Set(_, _, _, expiry_s) => set(&value, expiry_s),
        MetaSet(_, _, _, new_cas) => {
            Operation::MetaStore(MetaStore { value: &value, new_cas, ..MetaStore::default() })
        }
        Append(_, value) => Operation::Append { value },
        Prepend(_, value) => Operation::Prepend { value },
        Increment(_, delta) => Operation::Increment { delta },
        Compare(_, _, _, cas) => Operation::Store {
            condition: Condition::Unchanged(cas),
            value: &value,
            flags: 0,
            expiry: Expiry::NEVER,
        },
        Touch(_, expiry_s) => Operation::Touch { expiry: Expiry(expiry_s) },
        Expire(_) => Operation::Touch { expiry: Expiry::PAST },
        Delete(_) => Operation::Delete,
    };
    raise(Signal::SIGUSR1).unwrap();
    let reply = ask(worker, key(step), operation);
    raise(Signal::SIGUSR1).unwrap();
    let done = matches!(
        reply.outcome,
        Some(Outcome::Stored | Outcome::Number(_) | Outcome::Touched | Outcome::Deleted)
    );
    assert!(done, "{step:?}: {:?}", reply.outcome);
}
