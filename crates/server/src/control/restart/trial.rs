//! A trial of a restart: could this program take over? The running server tells what it has. It may be
//! another version, so facts have names, and a fact that a version does not know tells it nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::Heirloom;

/// Tells a program that it is only tried out, and of what it would inherit.
pub(super) const VARIABLE: &str = "MICANITE_TRIAL";
/// The first word where what is stored lies in maps of the kernel.
const WITH_MAPS: &str = "maps";
/// The first word elsewhere.
const WITHOUT_MAPS: &str = "1";

/// The state that the new program would inherit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Maps of the kernel, with what is stored in them.
    pub has_maps: bool,
    /// Locks of the directories where they are pinned: those directories' [`place`]s.
    pub locks: Vec<(u64, u64)>,
    /// Further facts of the running server. A version that does not tell them gets no more than a look at the
    /// options.
    pub running: Option<Running>,
    /// True if items may be lost.
    pub is_forced: bool,
    /// Descriptors of the trial itself: the maps, in order.
    pub maps: Vec<RawFd>,
    /// The socket over which it returns what it has opened.
    pub answer: Option<RawFd>,
}

/// Sockets and files of the running server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// A supervisor opened the listeners: they stand for `-p`, `-l` and `-s`.
    pub is_activated: bool,
    /// Directory of its image: its [`place`].
    pub image: Option<(u64, u64)>,
    /// Addresses of the sockets that it leaves.
    pub sockets: Vec<(Heirloom, SocketAddr)>,
    /// Files of its Unix sockets.
    pub paths: Vec<PathBuf>,
}

impl Running {
    /// Takes the address of a socket of this kind, if there is one at a wanted address; port 0 is any.
    pub fn take(&mut self, kind: Heirloom, wanted: &SocketAddr) -> Option<SocketAddr> {
        let is_there = |(of, there): &(Heirloom, SocketAddr)| *of == kind && matches(there, wanted);
        let index = self.sockets.iter().position(is_there)?;
        Some(self.sockets.remove(index).1)
    }
}

/// Returns whether a socket is at a wanted address; port 0 is any.
pub fn matches(there: &SocketAddr, wanted: &SocketAddr) -> bool {
    there.ip() == wanted.ip() && (wanted.port() == 0 || wanted.port() == there.port())
}

impl Trial {
    /// Reads the trial from the environment; none if this is no trial.
    pub fn of_environment() -> Option<Self> {
        let value = std::env::var_os(VARIABLE)?;
        Some(Self::parse(&value.to_string_lossy()))
    }

    pub(super) fn text(&self) -> String {
        let first = if self.has_maps { WITH_MAPS } else { WITHOUT_MAPS };
        let mut words = vec![first.to_owned()];
        words.extend(self.locks.iter().map(place_text));
        if let Some(running) = &self.running {
            let addresses = running.sockets.iter().map(|(kind, at)| format!("{}={at}", kind.name()));
            words.push(format!("running={}", u8::from(running.is_activated)));
            words.extend(running.image.as_ref().map(|place| format!("image={}", place_text(place))));
            words.extend(addresses);
            words.extend(running.paths.iter().map(|path| format!("path={}", escaped(path.as_os_str()))));
        }
        words.extend(self.is_forced.then(|| "forced=1".to_owned()));
        words.extend(self.maps.iter().map(|number| format!("map={number}")));
        words.extend(self.answer.map(|number| format!("answer={number}")));
        words.join(" ")
    }

    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut this = Self { has_maps: words.next() == Some(WITH_MAPS), ..Self::default() };
        for word in words {
            match word.split_once('=') {
                None => this.locks.extend(place_of(word)),
                Some((name, value)) => this.note(name, value),
            }
        }
        this
    }

    /// Notes a fact, if this version knows it.
    fn note(&mut self, name: &str, value: &str) {
        match (name, &mut self.running) {
            ("running", running) => {
                *running = Some(Running { is_activated: value == "1", ..Running::default() });
            }
            ("forced", _) => self.is_forced = value == "1",
            ("map", _) => self.maps.extend(value.parse::<RawFd>()),
            ("answer", _) => self.answer = value.parse().ok(),
            ("image", Some(running)) => running.image = place_of(value),
            ("path", Some(running)) => running.paths.extend(unescaped(value).map(PathBuf::from)),
            (name, Some(running)) => {
                running.sockets.extend(Heirloom::named(name).zip(value.parse().ok()));
            }
            _ => {}
        }
    }
}

/// Device and number of a file: the same by whatever path it was opened.
pub fn place(file: &File) -> Option<(u64, u64)> {
    let found = file.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

fn place_text((device, number): &(u64, u64)) -> String {
    format!("{device}:{number}")
}

fn place_of(text: &str) -> Option<(u64, u64)> {
    let (device, number) = text.split_once(':')?;
    Some((device.parse().ok()?, number.parse().ok()?))
}

/// Returns a text without spaces, in which `%` begins two hexadecimal digits.
fn escaped(text: &OsStr) -> String {
    let escape = |byte: &u8| match byte {
        b'%' => "%25".to_owned(),
        byte if byte.is_ascii_graphic() => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    text.as_bytes().iter().map(escape).collect()
}

fn unescaped(text: &str) -> Option<OsString> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part[2..].bytes());
    }
    Some(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Running {
        Running {
            is_activated: true,
            image: Some((1, u64::MAX)),
            sockets: vec![
                (Heirloom::Own, "127.0.0.1:11211".parse().unwrap()),
                (Heirloom::Admin, "[::1]:9311".parse().unwrap()),
            ],
            paths: vec!["/a b/100% \u{e4}\n".into(), "/tmp/socket".into()],
        }
    }

    #[test]
    fn the_new_program_reads_the_trial() {
        for has_maps in [false, true] {
            for locks in [vec![], vec![(1, u64::MAX), (3, 4)]] {
                for running in [None, Some(Running::default()), Some(running())] {
                    let maps = if has_maps { vec![5, 4] } else { vec![] };
                    let answer = running.as_ref().map(|_| 7);
                    let is_forced = has_maps;
                    let locks = locks.clone();
                    let trial = Trial { has_maps, locks, running, is_forced, maps, answer };
                    assert_eq!(Trial::parse(&trial.text()), trial);
                }
            }
        }
    }

    #[test]
    fn facts_of_another_version_are_ignored() {
        let other = Trial::parse("maps x 1:x 2:3 later own=127.0.0.1:1 moon=full image=3:4");
        assert_eq!(other, Trial { has_maps: true, locks: vec![(2, 3)], ..Trial::default() });
        let known = Trial::parse("1 running=0 own=127.0.0.1:1 own=x moon=127.0.0.1:2 path=%4 =");
        let sockets = vec![(Heirloom::Own, "127.0.0.1:1".parse().unwrap())];
        assert_eq!(known.running, Some(Running { sockets, ..Running::default() }));
    }

    #[test]
    fn an_address_is_taken_once_and_port_0_is_any() {
        let mut running = running();
        let wanted = "127.0.0.1:0".parse().unwrap();
        assert_eq!(running.take(Heirloom::Udp, &wanted), None);
        assert_eq!(running.take(Heirloom::Own, &wanted), Some("127.0.0.1:11211".parse().unwrap()));
        assert_eq!(running.take(Heirloom::Own, &wanted), None);
    }
}
