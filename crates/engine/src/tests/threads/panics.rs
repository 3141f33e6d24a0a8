//! A panic while a job is posted ends the process: the worker that posted it must not continue.

use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::process::{Command, Stdio};

use crate::access::delegate::Mailboxes;

const CASE: &str = "MICANITE_PANIC_CASE";
/// Exit code of a child that a panic has not ended.
const UNWOUND: i32 = 7;

/// Ends by SIGABRT, as it should, or returns after the panic was caught. Does nothing unless a test
/// below starts it.
#[test]
fn child_process() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let mailboxes = Mailboxes::new(3);
    std::thread::scope(|scope| {
        if case != "waker" {
            scope.spawn(|| mailboxes.delegate((2, 0), || panic!("in a delegated job"), || ()));
        }
        let work = || match case.as_str() {
            "owner" => loop {
                mailboxes.serve(0);
            },
            // No thread serves worker 1: this job stays posted while something else panics.
            "requester" => mailboxes.delegate((0, 1), || (), || ()),
            _ => {
                assert!(mailboxes.fall_asleep(1));
                mailboxes.delegate((0, 1), || (), || panic!("while it wakes the owner"));
            }
        };
        let _ = std::panic::catch_unwind(AssertUnwindSafe(work));
        std::process::exit(UNWOUND);
    });
}

fn signal_of(case: &str) -> Option<i32> {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::threads::panics::child_process"])
        .env(CASE, case)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_ne!(status.code(), Some(UNWOUND), "the panic came out");
    status.signal()
}

const SIGABRT: i32 = 6;

/// Proves that a panic in another worker's job ends the process: that worker would wait forever.
#[test]
fn a_panic_in_a_job_ends_the_process() {
    assert_eq!(signal_of("owner"), Some(SIGABRT));
}

/// Proves that a panic ends the process when a worker waits for its own job and runs another one:
/// its own job would refer to a frame that is gone.
#[test]
fn a_panic_beside_a_posted_job_ends_the_process() {
    assert_eq!(signal_of("requester"), Some(SIGABRT));
    assert_eq!(signal_of("waker"), Some(SIGABRT));
}
