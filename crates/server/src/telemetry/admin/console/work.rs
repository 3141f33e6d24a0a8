//! Actions that are executed: one copy and one other at a time, each on a thread of its own, because it may
//! wait for a worker or copy the cache.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use micanite_control::Request as Order;
use micanite_control::answer::Answer;
use micanite_net::Waker;

use super::room;
use crate::control::Executor;
use crate::shared::Ending;

/// Actions in execution, and those that have been executed.
pub(super) struct Work {
    news: (Sender<News>, Receiver<News>),
    waker: Arc<(Waker, AtomicBool)>,
    /// A copy is made; another action is executed.
    busy: Arc<[AtomicBool; 2]>,
    /// Held while it is found out whether a file has room, until what it may take counts.
    room: Arc<Mutex<()>>,
    /// The thread of the last action that is no copy.
    thread: Option<JoinHandle<()>>,
}

/// News of an action.
pub(super) struct News {
    /// The connection that waits, if one does.
    pub token: u64,
    /// The user and the order.
    pub what: String,
    pub stage: Stage,
}

pub(super) enum Stage {
    /// A copy has begun. Its connection does not wait for the end.
    Begun,
    Ended(Answer),
}

impl Work {
    pub fn new(waker: &Arc<(Waker, AtomicBool)>) -> Self {
        Self {
            news: channel(),
            waker: Arc::clone(waker),
            busy: Arc::default(),
            room: Arc::default(),
            thread: None,
        }
    }

    /// Returns the next news.
    pub fn news(&self) -> Option<News> {
        self.news.1.try_recv().ok()
    }

    /// Begins an action; `None` if another one of its sort has not ended.
    pub fn begin(
        &mut self,
        token: u64,
        what: String,
        order: Order,
        executor: Executor,
    ) -> Option<std::io::Result<()>> {
        let is_copy = matches!(order, Order::Snapshot { .. });
        if self.busy[usize::from(is_copy)].swap(true, Ordering::AcqRel) {
            return None;
        }
        let (busy, room) = (Arc::clone(&self.busy), Arc::clone(&self.room));
        let (sender, waker) = (self.news.0.clone(), Arc::clone(&self.waker));
        let run = move || {
            let send = |token, stage| {
                // The receiver may have ended.
                let _ = sender.send(News { token, what: what.clone(), stage });
                waker.0.wake();
            };
            let held = room.lock().unwrap_or_else(PoisonError::into_inner);
            let copies = !is_copy && busy[1].load(Ordering::Acquire);
            let refusal = refusal(&order, &executor, copies);
            let is_begun = is_copy && refusal.is_ok();
            if is_begun {
                // A copy counts from here on, and takes long.
                drop(held);
                send(token, Stage::Begun);
            }
            let answer = refusal.and_then(|()| executor.execute(&order));
            busy[usize::from(is_copy)].store(false, Ordering::Release);
            send(if is_begun { 0 } else { token }, Stage::Ended(answer));
        };
        let started = Builder::new().name("console".into()).spawn(run);
        Some(match started {
            Ok(_) if is_copy => Ok(()),
            Ok(thread) => {
                self.thread = Some(thread);
                Ok(())
            }
            Err(error) => {
                self.busy[usize::from(is_copy)].store(false, Ordering::Release);
                Err(error)
            }
        })
    }

    /// Waits for the action that is executed. As with `ctl`, the end of the server ends a copy.
    pub fn end(&mut self) {
        // A panic ends the process before this.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns why an order is not executed now, if it is not. `copies`: a snapshot is being made.
fn refusal(order: &Order, executor: &Executor, copies: bool) -> Result<(), String> {
    if executor.server.shared.ending() != Ending::Not {
        return Err("the server is ending".into());
    }
    let settings = &executor.server.settings;
    let of_copy_bytes = if copies { settings.memory_bytes as u64 } else { 0 };
    let to_come_bytes = executor.server.shared.recorder.bytes_to_come() + of_copy_bytes;
    room::check(order, settings, to_come_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::clock::Clock;
    use crate::testing::Bench;

    #[test]
    fn an_action_that_was_taken_before_the_end_starts_nothing() {
        let bench = Bench::new("");
        let path = std::env::temp_dir().join(format!("micanite-action-{}.rec", std::process::id()));
        let order: Order = format!("record 1 - - {}", path.display()).parse().unwrap();
        let (worker, _posts) = channel();
        let executor = Executor { server: Arc::clone(&bench.server), clock: Clock::start(), worker };
        bench.server.end(Ending::Gracefully);
        let mut work = Work::new(&Arc::new((Waker::new().unwrap(), AtomicBool::new(false))));
        assert!(matches!(work.begin(7, "ada: record".into(), order, executor), Some(Ok(()))));
        // The end waits for the action: a recording would have begun by now.
        work.end();
        let news = work.news().unwrap();
        assert_eq!(news.token, 7);
        assert!(matches!(news.stage, Stage::Ended(Err(reason)) if reason == "the server is ending"));
        assert!(!path.exists() && !bench.server.shared.recorder.numbers().is_recording);
    }
}
