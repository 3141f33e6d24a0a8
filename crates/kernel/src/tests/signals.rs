//! Signals that arrive while a program is loaded.

use std::time::Duration;

use micanite_engine::Config;

use super::fixture::{Fixture, can_load};

extern "C" fn nothing(_: libc::c_int) {}

/// The verifier gives up with `EAGAIN` then.
#[test]
fn signals_do_not_interrupt_loading() {
    if !can_load() {
        return;
    }
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing, which is allowed in handlers.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    // SAFETY: it has no preconditions.
    let loader = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                // SAFETY: the thread lives until this scope has ended.
                unsafe { libc::pthread_kill(loader, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for _ in 0..3 {
            drop(Fixture::new(Config { memory_bytes: 16 << 20, ..Config::default() }));
        }
    });
}
