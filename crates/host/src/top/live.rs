//! The loop: keys, signals, intervals, and a server that goes away.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::sample::Sample;
use super::screen::{Screen, Status};
use super::source::Source;
use super::view::View;

/// Signals and answers are looked for so often.
const LOOK: Duration = Duration::from_millis(100);
/// A server that does not answer is tried again after this, or after a shorter interval.
const RETRY: Duration = Duration::from_secs(1);
/// Time between a signal and the end of a program that has not ended by itself.
const GRACE: Duration = Duration::from_secs(1);
/// A server may take so long to answer before its counters are old.
const PATIENCE: Duration = Duration::from_secs(3);
/// Intervals that the keys choose from.
const INTERVALS_S: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
/// The exit status of a program that a signal has ended: this and the signal's number.
const EXIT_SIGNAL: i32 = 128;

/// Asks a server on a thread of its own: a server that does not answer holds up no key.
struct Asker {
    questions: Sender<()>,
    answers: Receiver<Result<Sample, String>>,
    /// Time of the question that has no answer yet.
    asked_at: Option<Instant>,
}

impl Asker {
    fn new(mut source: Source) -> Self {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        std::thread::spawn(move || while asked.recv().is_ok() && answer.send(source.sample()).is_ok() {});
        Self { questions, answers, asked_at: None }
    }

    fn ask(&mut self) {
        if self.asked_at.is_none() && self.questions.send(()).is_ok() {
            self.asked_at = Some(Instant::now());
        }
    }

    fn answer(&mut self) -> Option<Result<Sample, String>> {
        let answer = match self.answers.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the thread that asks has ended".to_owned()),
        };
        self.asked_at = None;
        Some(answer)
    }
}

/// The server that is watched, and the state of the screen.
struct Live {
    name: String,
    asker: Asker,
    last: Sample,
    view: View,
    screen: Screen,
    interval: Duration,
    is_paused: bool,
    /// Why the server does not answer.
    lost: Option<String>,
    due: Instant,
}

/// Shows the server until the user leaves, or a signal comes.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn run(source: Source, first: Sample, interval: Duration) -> Result<ExitCode, String> {
    let ended_by = end_at_a_signal()?;
    end_with_the_terminal();
    let name = source.name();
    let mut live = Live {
        view: View::new(&name, None, &first),
        asker: Asker::new(source),
        name,
        due: first.at + interval,
        last: first,
        screen: Screen::default(),
        interval,
        is_paused: false,
        lost: None,
    };
    // It restores the terminal after a panic, too.
    let mut terminal = ratatui::try_init().map_err(|error| format!("cannot use the terminal: {error}"))?;
    let result = live.watch(&mut terminal, &ended_by);
    let _ = ratatui::try_restore();
    match (result, ended_by.load(Ordering::Relaxed)) {
        (Err(error), 0) => Err(format!("cannot use the terminal: {error}")),
        (_, 0) => Ok(ExitCode::SUCCESS),
        (_, signal) => Ok(ExitCode::from((EXIT_SIGNAL + signal) as u8)),
    }
}

/// Notes the first signal that wants an end.
fn end_at_a_signal() -> Result<Arc<AtomicI32>, String> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let ended_by = Arc::new(AtomicI32::new(0));
    let noted = Arc::clone(&ended_by);
    std::thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            noted.store(signal as i32, Ordering::Relaxed);
            // Reading a terminal that is gone does not come back.
            std::thread::sleep(GRACE);
            let _ = ratatui::try_restore();
            std::process::exit(EXIT_SIGNAL + signal as i32);
        }
    });
    Ok(ended_by)
}

/// Ends the program when the terminal hangs up: reading it does not come back then, and there is nothing to
/// restore.
fn end_with_the_terminal() {
    std::thread::spawn(|| {
        let output = std::io::stdout();
        loop {
            // Hanging up is told without being asked for.
            let mut polled = [PollFd::new(output.as_fd(), PollFlags::empty())];
            if poll(&mut polled, PollTimeout::NONE).is_ok() {
                std::process::exit(i32::from(super::EXIT_FAILED));
            }
        }
    });
}

impl Live {
    fn watch(&mut self, terminal: &mut DefaultTerminal, ended_by: &AtomicI32) -> std::io::Result<()> {
        let mut drawn: Option<Instant> = None;
        while ended_by.load(Ordering::Relaxed) == 0 {
            let mut changed = self.take_answer();
            if !self.is_paused && Instant::now() >= self.due {
                self.asker.ask();
                let is_there = self.lost.is_none();
                self.due = Instant::now() + if is_there { self.interval } else { self.interval.min(RETRY) };
            }
            // The age of old counters grows.
            let is_old = drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_secs(1));
            changed |= self.why_old().is_some() && is_old;
            if changed || drawn.is_none() {
                let status = self.status();
                terminal.draw(|frame| self.screen.draw(frame, &self.view, &status))?;
                drawn = Some(Instant::now());
            }
            if event::poll(LOOK.min(self.interval))? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release && self.press(key) => return Ok(()),
                    _ => drawn = None,
                }
            }
        }
        Ok(())
    }

    /// Takes an answer if one has come; returns whether something has changed.
    fn take_answer(&mut self) -> bool {
        match self.asker.answer() {
            None => return false,
            Some(Err(reason)) => self.lost = Some(reason),
            Some(Ok(sample)) => {
                self.view = View::new(&self.name, Some(&self.last), &sample);
                self.screen.note(self.view.rate);
                self.last = sample;
                self.lost = None;
            }
        }
        true
    }

    fn status(&self) -> Status {
        let seconds = self.interval.as_secs_f64();
        let paused = if self.is_paused { ", PAUSED" } else { "" };
        let lost = self.why_old().map(|reason| {
            let line = reason.lines().next().unwrap_or_default().trim_end_matches(':');
            format!("NO ANSWER, {} s old, trying again: {line}", self.last.at.elapsed().as_secs())
        });
        Status { words: format!("every {seconds} s{paused}"), lost }
    }

    /// Returns why the counters on the screen are old, if they are.
    fn why_old(&self) -> Option<&str> {
        let is_overdue = self.asker.asked_at.is_some_and(|asked_at| asked_at.elapsed() > PATIENCE);
        self.lost.as_deref().or(is_overdue.then_some("the server is silent"))
    }

    /// Obeys a key; returns whether it ends the program.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if std::mem::take(&mut self.screen.has_help) {
            return key.code == KeyCode::Char('q');
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                self.due = Instant::now();
            }
            KeyCode::Char('+' | '=' | 's') => self.change_interval(true),
            KeyCode::Char('-') => self.change_interval(false),
            KeyCode::Char('?' | 'h') => self.screen.has_help = true,
            KeyCode::Tab => self.screen.choose_panel(&self.view, true),
            KeyCode::BackTab => self.screen.choose_panel(&self.view, false),
            KeyCode::Right => self.screen.choose_column(&self.view, true),
            KeyCode::Left => self.screen.choose_column(&self.view, false),
            KeyCode::Down => self.screen.scroll(&self.view, true),
            KeyCode::Up => self.screen.scroll(&self.view, false),
            _ => {}
        }
        false
    }

    fn change_interval(&mut self, longer: bool) {
        let now_s = self.interval.as_secs_f64();
        let next_s = if longer {
            INTERVALS_S.into_iter().find(|seconds| *seconds > now_s)
        } else {
            INTERVALS_S.into_iter().rev().find(|seconds| *seconds < now_s)
        };
        if let Some(seconds) = next_s {
            self.interval = Duration::from_secs_f64(seconds);
            self.due = Instant::now() + self.interval;
        }
    }
}
