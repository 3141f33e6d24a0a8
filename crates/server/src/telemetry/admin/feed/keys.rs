//! Hot keys as the page shows them: printable characters as they are, others and `%` as `%` and two digits
//! for each byte. A long key keeps its beginning and its end, and comes in full where there is room.

use std::fmt::Write;

use super::{Running, json};
use crate::limits::{CONSOLE_KEY_BYTES_MAX, CONSOLE_STATE_BYTES_MAX};
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};

/// Significant digits of a share.
const DIGITS: i32 = 3;
/// Stands for the middle of a key.
const CUT: char = '…';
/// Bytes around a key in full, with the closing brackets of the update.
const FULL_ROOM: usize = 16;

/// Writes the hottest keys of the time of a sample, the long ones cut.
pub(super) fn write(to: &mut String, running: &mut Running, (server, clock): (&Server, Clock), sample: u64) {
    let hottest = running.hottest(server, seconds(clock.now_ms()), sample);
    let _ = write!(to, ",\"hot_samples\":{:.0},\"hot\":[", hottest.samples);
    for (place, hot) in hottest.keys.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let key = Printed::of(&hot.key);
        let _ = write!(to, "{comma}[\"{}\",", key.cut().as_deref().unwrap_or(&key.text));
        json::number(to, hot.share as f32, DIGITS);
        to.push(']');
    }
    to.push(']');
}

/// Writes those that were cut in full, with their places, as far as the update has room.
pub(super) fn write_full(to: &mut String, running: &Running) {
    to.push_str(",\"full\":[");
    let mut comma = "";
    for (place, hot) in running.hottest.keys.iter().enumerate() {
        let key = Printed::of(&hot.key);
        let has_room = to.len() + key.text.len() + FULL_ROOM <= CONSOLE_STATE_BYTES_MAX;
        if has_room && key.cut().is_some() {
            let _ = write!(to, "{comma}[{place},\"{}\"]", key.text);
            comma = ",";
        }
    }
    to.push(']');
}

/// A key as the text of a JSON string.
struct Printed {
    text: String,
    /// Places between two characters, escapes as a whole.
    bounds: Vec<usize>,
}

impl Printed {
    fn of(key: &[u8]) -> Self {
        let mut this = Self { text: String::with_capacity(key.len()), bounds: vec![0] };
        for chunk in key.utf8_chunks() {
            chunk.valid().chars().for_each(|letter| this.push(letter));
            chunk.invalid().iter().for_each(|byte| this.push_byte(*byte));
        }
        this
    }

    fn push(&mut self, letter: char) {
        if letter == '%' || !(letter.is_ascii_graphic() || letter.is_alphanumeric()) {
            let mut bytes = [0; 4];
            return letter.encode_utf8(&mut bytes).bytes().for_each(|byte| self.push_byte(byte));
        }
        if let '"' | '\\' = letter {
            self.text.push('\\');
        }
        self.text.push(letter);
        self.bounds.push(self.text.len());
    }

    fn push_byte(&mut self, byte: u8) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "%{byte:02X}");
        self.bounds.push(self.text.len());
    }

    /// Returns the beginning and the end of a key that is longer than [`CONSOLE_KEY_BYTES_MAX`].
    fn cut(&self) -> Option<String> {
        let bytes = self.text.len();
        if bytes <= CONSOLE_KEY_BYTES_MAX {
            return None;
        }
        let part_bytes = (CONSOLE_KEY_BYTES_MAX - CUT.len_utf8()) / 2;
        let first = self.bounds.iter().rev().find(|bound| **bound <= part_bytes)?;
        let last = self.bounds.iter().find(|bound| bytes - **bound <= part_bytes)?;
        Some(format!("{}{CUT}{}", &self.text[..*first], &self.text[*last..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> String {
        serde_json::from_str(&format!("\"{json}\"")).unwrap()
    }

    #[test]
    fn printable_characters_are_shown_as_they_are() {
        for (key, expected) in [
            (&b"user:1/a?b&c=d"[..], "user:1/a?b&c=d"),
            ("käse:東".as_bytes(), "käse:東"),
            (b"a\"b\\c<i>", "a\"b\\c<i>"),
            (b"100%3A \xff\x00", "100%253A%20%FF%00"),
            ("a\u{202e}b\u{a0}".as_bytes(), "a%E2%80%AEb%C2%A0"),
            (b"", ""),
        ] {
            assert_eq!(read(&Printed::of(key).text), expected, "{key:?}");
        }
    }

    #[test]
    fn keys_that_differ_at_their_end_stay_apart() {
        let key = |number| Printed::of(format!("{}:{number}", "service:session:".repeat(4)).as_bytes());
        let (one, two) = (key(1).cut().unwrap(), key(2).cut().unwrap());
        assert!(one.starts_with("service:session:") && one.ends_with(":1") && one != two, "{one}");
        assert_eq!(Printed::of(&[b'a'; CONSOLE_KEY_BYTES_MAX]).cut(), None);
    }

    #[test]
    fn a_cut_key_is_short_and_readable_whatever_its_bytes() {
        for part in [&b"a"[..], b"\"", b"\\", b"\x7f", b"%", "ä".as_bytes(), "東".as_bytes(), b"\xf0\x9f"] {
            for bytes in [1, 24, 48, 49, 60, 250] {
                let key: Vec<u8> = part.iter().copied().cycle().take(bytes).collect();
                let printed = Printed::of(&key);
                let cut = printed.cut().unwrap_or(printed.text);
                assert!(cut.len() <= CONSOLE_KEY_BYTES_MAX, "{cut}");
                read(&cut);
            }
        }
    }
}
