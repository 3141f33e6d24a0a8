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

use image::{Image, Seen, observe};
use script::{Script, Step, key};
use tracee::{Stop, Tracee};

/// Returns the instructions between two stops; the first stop comes another instruction later in
/// each operation.
fn interval() -> usize {
    std::env::var("MICANITE_STEP_INTERVAL").map_or(7, |interval| interval.parse().unwrap())
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
struct Looks {
    instructions: usize,
    /// Contents of each recovered image that differ from those of the previous one.
    seen: Vec<Seen>,
    images: usize,
}

/// Steps the writer through an operation.
fn step_through(tracee: &Tracee, image: &mut Image, semantics: Semantics, number: usize) -> Looks {
    let mut looks = Looks::default();
    let interval = interval();
    image.note();
    loop {
        match tracee.step() {
            Stop::Signal => return looks,
            Stop::Instruction => {}
        }
        looks.instructions += 1;
        let due = (looks.instructions + number).is_multiple_of(interval);
        if due && image.has_changed() {
            looks.images += 1;
            let seen = observe(image, semantics);
            if looks.seen.last() != Some(&seen) {
                looks.seen.push(seen);
            }
        }
    }
}

fn check(step: &Step, semantics: Semantics, before: &Seen, after: &Seen, looks: &Looks) {
    let mut is_done = false;
    for seen in &looks.seen {
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

/// Runs the script; says how many instructions and images there were.
fn stepped(semantics: Semantics, script: Script) {
    let directory = image::scratch(&format!("{}-{}", semantics.name(), script.name()));
    let tracee = match Tracee::start(&directory, semantics.name(), script.name()) {
        Ok(tracee) => tracee,
        Err(why) => {
            println!("skipped: a process cannot be stepped: {why}");
            return fs::remove_dir_all(directory).unwrap();
        }
    };
    let mut image = Image::of(&directory, script != Script::Roomy);
    let (mut instructions, mut images) = (0, 0);
    for (number, step) in script.steps().iter().enumerate() {
        tracee.run_to_signal();
        let before = observe(&mut image, semantics);
        let looks = step_through(&tracee, &mut image, semantics, number);
        let after = observe(&mut image, semantics);
        let old = before.get(key(step)).map(|item| item.0.as_slice());
        let value = after.get(key(step)).map(|item| item.0.clone());
        assert_eq!(value, step.expected(old), "{step:?}");
        check(step, semantics, &before, &after, &looks);
        instructions += looks.instructions;
        images += looks.images;
    }
    drop(tracee);
    fs::remove_dir_all(directory).unwrap();
    println!("{}: {images} images within {instructions} instructions", semantics.name());
    assert!(images > 20, "the writer was stopped within its operations");
}

/// A store has each item as it was or as it was to be, between whatever instructions its process was
/// killed.
#[test]
fn a_stepped_store_loses_nothing() {
    stepped(Semantics::Store, Script::Roomy);
}

/// Proves the same without any space left.
#[test]
fn a_stepped_full_store_loses_nothing() {
    stepped(Semantics::Store, Script::Full);
}

/// Proves the same while buckets are split.
#[test]
fn a_stepped_store_whose_index_grows_loses_nothing() {
    stepped(Semantics::Store, Script::Growing);
}

/// A cache may miss, but never lies.
#[test]
fn a_stepped_cache_never_lies() {
    stepped(Semantics::Cache, Script::Roomy);
}
