//! Restart dry run: can this binary take over?

use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Tells a program that it is only tried out, and of what it would inherit.
pub(super) const VARIABLE: &str = "MICANITE_TRIAL";
/// The first word where what is stored lies in maps of the kernel.
const WITH_MAPS: &str = "maps";
/// The first word elsewhere.
const WITHOUT_MAPS: &str = "1";

/// The state that the new program would inherit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Maps of the kernel, with what is stored in them.
    pub has_maps: bool,
    /// Locks of the directories where they are pinned: those directories' [`place`]s.
    pub locks: Vec<(u64, u64)>,
}

impl Trial {
    /// Reads the trial from the environment; none if this is no trial.
    pub fn of_environment() -> Option<Self> {
        let value = std::env::var_os(VARIABLE)?;
        Some(Self::parse(&value.to_string_lossy()))
    }

    pub(super) fn text(&self) -> String {
        let first = match self.has_maps {
            true => WITH_MAPS,
            false => WITHOUT_MAPS,
        };
        let mut text = first.to_owned();
        for (device, number) in &self.locks {
            text.push_str(&format!(" {device}:{number}"));
        }
        text
    }

    /// Words of another version tell nothing.
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let place = |word: &str| {
            let (device, number) = word.split_once(':')?;
            Some((device.parse().ok()?, number.parse().ok()?))
        };
        Self { has_maps: words.next() == Some(WITH_MAPS), locks: words.flat_map(place).collect() }
    }
}

/// Device and number of a file: the same by whatever path it was opened.
pub fn place(file: &File) -> Option<(u64, u64)> {
    let found = file.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_program_reads_the_trial() {
        for has_maps in [false, true] {
            for locks in [vec![], vec![(1, u64::MAX), (3, 4)]] {
                let trial = Trial { has_maps, locks };
                assert_eq!(Trial::parse(&trial.text()), trial);
            }
        }
        let other = Trial::parse("maps x 1:x 2:3 later");
        assert_eq!((other.has_maps, other.locks), (true, vec![(2, 3)]));
    }
}
