//! Open descriptors that one program leaves to the next. Their numbers are in the environment.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use micanite_net::{keep_none_open, keep_open};

/// Names the descriptors, and the process that may take them.
pub(super) const VARIABLE: &str = "MICANITE_HANDOVER";

/// Names the file of the console's history in a variable of its own: a build that does not know it ignores
/// it.
pub(super) const HISTORY_VARIABLE: &str = "MICANITE_HANDOVER_HISTORY";

/// Purpose of a descriptor that outlives the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heirloom {
    /// A listener of the supervisor.
    Activated,
    /// A listener that the program opened.
    Own,
    /// A socket of the native protocol.
    Native,
    /// A socket of memcached's protocols over UDP.
    Udp,
    /// The listener of the admin side.
    Admin,
    /// The memory of a partition; they come in order.
    Map,
    /// The lock of a directory where that memory is pinned.
    Lock,
    /// The client that has asked for the restart.
    Client,
    /// A purpose that this version does not know: it is closed.
    Unknown,
}

impl Heirloom {
    const ALL: [Self; 8] = [
        Self::Activated,
        Self::Own,
        Self::Native,
        Self::Udp,
        Self::Admin,
        Self::Map,
        Self::Lock,
        Self::Client,
    ];

    /// Returns the word of the environment variable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activated => "activated",
            Self::Own => "own",
            Self::Native => "native",
            Self::Udp => "udp",
            Self::Admin => "admin",
            Self::Map => "map",
            Self::Lock => "lock",
            Self::Client => "client",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the purpose of a word, if this version knows it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The message from one program to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// When the restart began, by the monotonic clock.
    pub began_ns: u64,
    /// Open sockets, the maps of the partitions, and the locks that go with them.
    pub descriptors: Vec<(Heirloom, RawFd)>,
    /// File with the history and the events of the console.
    pub history: Option<RawFd>,
}

impl Handover {
    /// A restart that began then: no descriptor outlives the program unless it is added.
    pub fn begin(began_ns: u64) -> Self {
        keep_none_open();
        Self::new(began_ns)
    }

    const fn new(began_ns: u64) -> Self {
        Self { began_ns, descriptors: Vec::new(), history: None }
    }

    /// Lets a descriptor outlive the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&mut self, heirloom: Heirloom, descriptor: impl AsFd) -> io::Result<()> {
        let descriptor = descriptor.as_fd();
        keep_open(descriptor)?;
        self.descriptors.push((heirloom, descriptor.as_raw_fd()));
        Ok(())
    }

    /// Lets the file of the console's history outlive the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_history(&mut self, file: impl AsFd) -> io::Result<()> {
        keep_open(&file)?;
        self.history = Some(file.as_fd().as_raw_fd());
        Ok(())
    }

    /// Returns the message of the previous program in this process.
    pub fn received() -> Option<Self> {
        let process = std::process::id();
        let this = Self::parse(&std::env::var(VARIABLE).ok()?, process)?;
        let history = std::env::var(HISTORY_VARIABLE).ok();
        Some(Self { history: history.and_then(|text| history_of(&text, process)), ..this })
    }

    pub(super) fn text(&self, process: u32) -> String {
        let mut text = format!("{process} {}", self.began_ns);
        for (heirloom, number) in &self.descriptors {
            text.push_str(&format!(" {}={number}", heirloom.name()));
        }
        text
    }

    /// Returns the text of the other variable, if there is a history.
    pub(super) fn history_text(&self, process: u32) -> Option<String> {
        self.history.map(|number| format!("{process} {number}"))
    }

    /// A variable that was meant for another process tells nothing.
    fn parse(text: &str, process: u32) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next()?.parse() != Ok(process) {
            return None;
        }
        let mut this = Self::new(words.next()?.parse().ok()?);
        for word in words {
            let (name, number) = word.split_once('=')?;
            let known = Heirloom::named(name).unwrap_or(Heirloom::Unknown);
            this.descriptors.push((known, number.parse().ok()?));
        }
        Some(this)
    }
}

/// Reads the descriptor of the history.
fn history_of(text: &str, process: u32) -> Option<RawFd> {
    let (meant, number) = text.split_once(' ')?;
    (meant.parse() == Ok(process)).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_program_reads_the_message() {
        let handover = Handover {
            began_ns: 12_345,
            descriptors: vec![
                (Heirloom::Activated, 3),
                (Heirloom::Own, 17),
                (Heirloom::Native, 4),
                (Heirloom::Udp, 6),
                (Heirloom::Admin, 5),
                (Heirloom::Map, 8),
                (Heirloom::Map, 7),
                (Heirloom::Lock, 10),
                (Heirloom::Client, 9),
            ],
            history: None,
        };
        assert_eq!(Handover::parse(&handover.text(7), 7), Some(handover));
    }

    #[test]
    fn a_build_without_a_history_reads_the_message_of_one_that_has_it() {
        let handover = Handover { history: Some(11), ..Handover::new(1) };
        assert_eq!(Handover::parse(&handover.text(7), 7), Some(Handover::new(1)));
        let text = handover.history_text(7).unwrap();
        assert_eq!((history_of(&text, 7), history_of(&text, 8)), (Some(11), None));
        assert_eq!((history_of("7", 7), history_of("7 x", 7)), (None, None));
        assert_eq!(Handover::new(1).history_text(7), None);
    }

    #[test]
    fn garbage_and_messages_to_other_processes_are_ignored() {
        let handover = Handover::new(1);
        assert_eq!(Handover::parse(&handover.text(7), 8), None);
        for text in ["", "7", "7 x", "7 1 own", "7 1 own=x", "x 1"] {
            assert_eq!(Handover::parse(text, 7), None, "{text}");
        }
    }

    #[test]
    fn a_descriptor_of_another_version_takes_nothing_from_the_others() {
        let descriptors = vec![(Heirloom::Unknown, 3), (Heirloom::Own, 4)];
        let known = Handover { descriptors, ..Handover::new(1) };
        assert_eq!(Handover::parse("7 1 moon=3 own=4", 7), Some(known));
    }
}
