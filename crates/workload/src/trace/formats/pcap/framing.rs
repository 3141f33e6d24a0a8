//! One direction of a conversation: bytes in order, taken apart message by message.

use memchr::memchr;

/// The longest message that is waited for; values do not count.
const MESSAGE_BYTES_MAX: usize = 1 << 14;

/// Meaning of the bytes at the start of a message.
pub(super) enum Taken {
    /// The rest of the message has not come.
    Incomplete,
    /// A message of so many bytes, and so many behind it that belong to it and are not looked at.
    Message { bytes: usize, skip: u64 },
    /// No message.
    Nonsense,
}

/// The bytes of one direction that are not taken apart yet.
#[derive(Default)]
pub(super) struct Framing {
    buffer: Vec<u8>,
    /// Bytes of a value that are still to come.
    skip: u64,
    /// True if it is not known where a message begins.
    is_lost: bool,
}

impl Framing {
    /// Takes more bytes. `take` gets what begins a message, and whether that is not certain; after
    /// nonsense it is tried at the next line.
    pub fn feed(&mut self, data: &[u8], mut take: impl FnMut(&[u8], bool) -> Taken) {
        let skipped = self.skip.min(data.len() as u64);
        self.skip -= skipped;
        let data = &data[skipped as usize..];
        let mut held = std::mem::take(&mut self.buffer);
        let bytes = if held.is_empty() {
            data
        } else {
            held.extend_from_slice(data);
            &held
        };
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match take(rest, self.is_lost) {
                Taken::Message { bytes, skip } => {
                    self.is_lost = false;
                    let rest_bytes = rest.len() - bytes;
                    let skipped = skip.min(rest_bytes as u64);
                    self.skip = skip - skipped;
                    at += bytes.max(1) + skipped as usize;
                }
                Taken::Incomplete if rest.len() <= MESSAGE_BYTES_MAX => break,
                Taken::Incomplete | Taken::Nonsense => {
                    self.is_lost = true;
                    at += memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                }
            }
        }
        if at >= bytes.len() {
            return;
        }
        self.buffer = if held.is_empty() {
            data[at..].to_vec()
        } else {
            held.drain(..at);
            held
        };
    }

    /// Skips missing bytes. Returns whether the start of the next message is lost; it is known if all of them
    /// are of a value.
    pub fn lose(&mut self, bytes: u64) -> bool {
        let skipped = self.skip.min(bytes);
        self.skip -= skipped;
        if bytes > skipped {
            self.get_lost();
        }
        self.is_lost
    }

    /// Forgets where a message begins.
    pub fn get_lost(&mut self) {
        *self = Self { is_lost: true, ..Self::default() };
    }

    /// Returns whether nothing has begun that has not ended.
    pub fn is_between_messages(&self) -> bool {
        self.skip == 0 && self.buffer.is_empty()
    }

    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are lines that begin with their number of further bytes.
    fn take(bytes: &[u8], is_lost: bool, messages: &mut Vec<Vec<u8>>) -> Taken {
        let Some(end) = memchr(b'\n', bytes) else {
            return Taken::Incomplete;
        };
        if is_lost && bytes[0] == b'?' || !bytes[0].is_ascii_digit() {
            return Taken::Nonsense;
        }
        messages.push(bytes[..end].to_vec());
        Taken::Message { bytes: end + 1, skip: u64::from(bytes[0] - b'0') }
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        let text = b"3a\nxyz0b\n9c\n\n\n\n\n\n\n\n\n\n2d\n??0e\n";
        for cut in 1..text.len() {
            let (mut inflow, mut messages) = (Framing::default(), Vec::new());
            for part in text.chunks(cut) {
                inflow.feed(part, |bytes, is_lost| take(bytes, is_lost, &mut messages));
            }
            assert_eq!(messages, [&b"3a"[..], b"0b", b"9c", b"2d", b"0e"]);
            assert!(inflow.is_between_messages());
        }
    }

    #[test]
    fn gaps_inside_values_lose_no_request() {
        let (mut inflow, mut messages) = (Framing::default(), Vec::new());
        inflow.feed(b"5a\nx", |bytes, is_lost| take(bytes, is_lost, &mut messages));
        assert!(!inflow.lose(4));
        inflow.feed(b"1b", |bytes, is_lost| take(bytes, is_lost, &mut messages));
        assert!(inflow.lose(1));
        inflow.feed(b"x\n?\n0c\n", |bytes, is_lost| take(bytes, is_lost, &mut messages));
        assert_eq!(messages, [&b"5a"[..], b"0c"]);
    }

    #[test]
    fn a_message_without_end_is_not_kept() {
        let (mut inflow, mut messages) = (Framing::default(), Vec::new());
        for _ in 0..1000 {
            inflow.feed(&[b'x'; 100], |bytes, is_lost| take(bytes, is_lost, &mut messages));
            assert!(inflow.held_bytes() <= 4 * MESSAGE_BYTES_MAX);
        }
        inflow.feed(b"\n0a\n", |bytes, is_lost| take(bytes, is_lost, &mut messages));
        assert_eq!(messages.last().unwrap(), b"0a");
    }
}
