//! A compiled writer, stopped between its instructions while it executes an operation. At each stop
//! its image is recovered and compared with the contents before and after the operation.
//!
//! `src/tests/kill` stops a writer at each store in the order of the source. This test sees the
//! order that the compiler makes of it, in whatever profile it is built: `make soak` runs it
//! optimised.
//!
//! The writer is this program again. It raises a signal before and after each operation; in
//! between, ptrace single-steps it.

mod image;
mod script;
mod tracee;

use std::fs;
use std::path::PathBuf;

use micanite_engine::Semantics;
use micanite_test_skip::skip;

use image::{Image, Seen, observe};
use script::{Script, Step, key};
use tracee::{Stop, Tracee};

/// Returns the instructions between two stops; the first stop comes another instruction later in
/// each operation.
fn interval() -> usize {
    std::env::var("MICANITE_STEP_INTERVAL").map_or(29, |interval| interval.parse().unwrap())
}

/// Runs the process that is stepped. Does nothing unless a test below starts it.
#[test]
fn writer_process() {
    if let Ok(directory) = std::env::var(tracee::DIRECTORY) {
        let semantics = match std::env::var(tracee::SEMANTICS).as_deref() {
            Ok("store") => Semantics::Store,
            _ => Semantics::Cache,
        };
        let name = std::env::var(tracee::SCRIPT).unwrap();
        let script = Script::ALL.into_iter().find(|one| one.name() == name);
        script::run(&PathBuf::from(directory), semantics, script.unwrap());
    }
}

/// Observations of one operation.
#[derive(Default)]
struct Observations {
    instructions: usize,
    /// Contents of each recovered image that differ from those of the previous one.
    seen: Vec<Seen>,
    images: usize,
}

/// Steps the writer through an operation.
fn step_through(tracee: &Tracee, image: &mut Image, semantics: Semantics, number: usize) -> Observations {
    let mut observed = Observations::default();
    let interval = interval();
    image.note();
    loop {
        match tracee.step() {
            Stop::Signal => return observed,
            Stop::Instruction => {}
        }
        observed.instructions += 1;
        let due = (observed.instructions + number).is_multiple_of(interval);
        if due && image.has_changed() {
            observed.images += 1;
            let seen = observe(image, semantics);
            if observed.seen.last() != Some(&seen) {
                observed.seen.push(seen);
            }
        }
    }
}

fn check(step: &Step, semantics: Semantics, before: &Seen, after: &Seen, observed: &Observations) {
    let mut is_done = false;
    for seen in &observed.seen {
        if semantics == Semantics::Cache {
            for (key, item) in seen {
                let known = [before, after].iter().any(|all| all.get(key) == Some(item));
                assert!(known, "{step:?}: {key} holds {item:?}");
            }
            continue;
        }
        is_done |= seen != before;
        let expected = if is_done { after } else { before };
        let differs = |key: &&String| seen.get(*key) != expected.get(*key);
        let keys: Vec<_> = seen.keys().chain(expected.keys()).filter(differs).collect();
        assert!(keys.is_empty(), "{step:?}: {keys:?} differ from before and after");
    }
}

/// Runs the script; prints how many instructions and images there were.
fn stepped(semantics: Semantics, script: Script) {
    let directory = image::scratch(&format!("{}-{}", semantics.name(), script.name()));
    let tracee = match Tracee::start(&directory, semantics.name(), script.name()) {
        Ok(tracee) => tracee,
        Err(why) => {
            skip(format_args!("a process cannot be stepped: {why}"));
            return fs::remove_dir_all(directory).unwrap();
        }
    };
    let mut image = Image::of(&directory, script != Script::Roomy);
    let (mut instructions, mut images) = (0, 0);
    for (number, step) in script.steps().iter().enumerate() {
        tracee.run_to_signal();
        let before = observe(&mut image, semantics);
        let observed = step_through(&tracee, &mut image, semantics, number);
        let after = observe(&mut image, semantics);
        let old = before.get(key(step)).map(|item| item.0.as_slice());
        let value = after.get(key(step)).map(|item| item.0.clone());
        assert_eq!(value, step.expected(old), "{step:?}");
        check(step, semantics, &before, &after, &observed);
        instructions += observed.instructions;
        images += observed.images;
    }
    drop(tracee);
    fs::remove_dir_all(directory).unwrap();
    println!("{}: {images} images within {instructions} instructions", semantics.name());
    assert!(images > 20, "the writer was stopped within its operations");
}

/// Proves that a store has each item as before or as afterwards, between whatever instructions its
/// process is killed.
#[test]
fn a_stepped_store_loses_nothing() {
    stepped(Semantics::Store, Script::Roomy);
}

/// Steps through a store without any space left.
#[test]
fn a_stepped_full_store_loses_nothing() {
    stepped(Semantics::Store, Script::Full);
}

/// Steps through a store whose buckets are split.
#[test]
fn a_stepped_store_whose_index_grows_loses_nothing() {
    stepped(Semantics::Store, Script::Growing);
}

/// Proves that a cache may miss, but returns no wrong value.
#[test]
fn a_stepped_cache_returns_no_wrong_value() {
    stepped(Semantics::Cache, Script::Roomy);
}
