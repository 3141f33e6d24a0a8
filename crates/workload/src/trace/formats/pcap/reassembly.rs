//! One direction of a TCP connection: segments in any order in, bytes in order out.

/// Segments that may wait for one before them, and their bytes.
const EARLY_SEGMENTS_MAX: usize = 256;
const EARLY_BYTES_MAX: usize = 1 << 20;
/// Further away than any window: another connection.
const DISTANCE_MAX: u32 = 1 << 30;

/// The next part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Bytes(&'a [u8]),
    /// Number of bytes that were not captured.
    Missing(u64),
}

/// A segment whose predecessor has not been seen.
struct Early {
    sequence: u32,
    payload: Vec<u8>,
    missing: usize,
}

impl Early {
    fn end(&self) -> u32 {
        let bytes = self.payload.len() + self.missing;
        self.sequence.wrapping_add(bytes as u32)
    }
}

#[derive(Default)]
pub(super) struct Reassembly {
    /// The sequence number of the next byte, once that is known.
    next: Option<u32>,
    early: Vec<Early>,
    early_bytes: usize,
    /// Notes what the other side says to have received.
    acknowledged: Option<u32>,
}

impl Reassembly {
    /// The next byte has this number, whatever came before.
    pub fn start(&mut self, sequence: u32) {
        *self = Self { next: Some(sequence), ..Self::default() };
    }

    /// The other side has got everything up to here: what was not captured never comes.
    pub fn acknowledge(&mut self, number: u32) {
        if self.next.is_none() {
            self.start(number);
        }
        self.acknowledged = Some(number);
    }

    pub fn held_bytes(&self) -> usize {
        self.early_bytes + self.early.capacity() * size_of::<Early>()
    }

    /// Takes a segment and hands on what is in order now.
    pub fn segment(
        &mut self,
        sequence: u32,
        payload: &[u8],
        missing: usize,
        mut hand_on: impl FnMut(Next<'_>),
    ) {
        let next = *self.next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next);
        if ahead != 0 && ahead < DISTANCE_MAX {
            self.keep(sequence, payload, missing);
            if self.waits_in_vain() {
                self.give_up(&mut hand_on);
            }
            return;
        }
        if next.wrapping_sub(sequence) >= DISTANCE_MAX {
            // The segments captured before belong to another connection.
            self.start(sequence);
            hand_on(Next::Missing(u64::MAX));
        }
        self.advance(sequence, payload, missing, &mut hand_on);
        self.advance_early(&mut hand_on);
    }

    /// Hands on what is new of a segment that begins at or before the next byte.
    fn advance(&mut self, sequence: u32, payload: &[u8], missing: usize, hand_on: &mut impl FnMut(Next<'_>)) {
        let next = self.next.unwrap_or(sequence);
        let known = next.wrapping_sub(sequence) as usize;
        let total = payload.len() + missing;
        if known >= total {
            return;
        }
        self.next = Some(sequence.wrapping_add(total as u32));
        if let Some(new) = payload.get(known..).filter(|new| !new.is_empty()) {
            hand_on(Next::Bytes(new));
        }
        let missing = missing.min(total - known);
        if missing > 0 {
            hand_on(Next::Missing(missing as u64));
        }
    }

    fn keep(&mut self, sequence: u32, payload: &[u8], missing: usize) {
        let distance = |early: &Early| early.sequence.wrapping_sub(self.next.unwrap_or(0));
        let new = sequence.wrapping_sub(self.next.unwrap_or(0));
        let place = self.early.partition_point(|early| distance(early) <= new);
        let is_known = place
            .checked_sub(1)
            .and_then(|before| self.early.get(before))
            .is_some_and(|before| before.sequence == sequence && before.payload.len() >= payload.len());
        if !is_known {
            self.early_bytes += payload.len();
            let payload = payload.to_vec();
            self.early.insert(place, Early { sequence, payload, missing });
        }
    }

    /// Returns whether what is missing before the first early segment does not come any more.
    fn waits_in_vain(&self) -> bool {
        let Some(first) = self.early.first() else {
            return false;
        };
        let is_acknowledged =
            self.acknowledged.is_some_and(|number| number.wrapping_sub(first.sequence) < DISTANCE_MAX);
        is_acknowledged || self.early.len() >= EARLY_SEGMENTS_MAX || self.early_bytes > EARLY_BYTES_MAX
    }

    /// Goes on behind what is missing.
    fn give_up(&mut self, hand_on: &mut impl FnMut(Next<'_>)) {
        if let (Some(first), Some(next)) = (self.early.first(), self.next) {
            hand_on(Next::Missing(u64::from(first.sequence.wrapping_sub(next))));
            self.next = Some(first.sequence);
        }
        self.advance_early(hand_on);
    }

    fn advance_early(&mut self, hand_on: &mut impl FnMut(Next<'_>)) {
        while let (Some(first), Some(next)) = (self.early.first(), self.next) {
            if next.wrapping_sub(first.sequence) >= DISTANCE_MAX {
                if self.waits_in_vain() {
                    return self.give_up(hand_on);
                }
                break;
            }
            let early = self.early.remove(0);
            self.early_bytes -= early.payload.len();
            if early.end() != next {
                self.advance(early.sequence, &early.payload, early.missing, hand_on);
            }
        }
        if self.early.is_empty() {
            self.early = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes in order; a dot for every missing byte.
    fn text(stream: &mut Reassembly, segments: &[(u32, &[u8], usize)]) -> String {
        let mut text = String::new();
        for (sequence, payload, missing) in segments {
            stream.segment(*sequence, payload, *missing, |next| match next {
                Next::Bytes(bytes) => text.push_str(std::str::from_utf8(bytes).unwrap()),
                Next::Missing(bytes) => text.push_str(&".".repeat(bytes.min(9) as usize)),
            });
        }
        text
    }

    fn started(sequence: u32) -> Reassembly {
        let mut stream = Reassembly::default();
        stream.start(sequence);
        stream
    }

    #[test]
    fn segments_are_put_in_order_across_the_end_of_the_numbers() {
        let first = u32::MAX - 3;
        let at = |offset: u32| first.wrapping_add(offset);
        let segments: [(u32, &[u8], usize); 7] = [
            (at(6), b"gh", 0),
            (at(2), b"cd", 0),
            (at(6), b"gh", 0),
            (at(0), b"ab", 0),
            (at(2), b"cdefgh", 0),
            (at(7), b"hij", 0),
            (at(0), b"ab", 0),
        ];
        let mut stream = started(first);
        assert_eq!(text(&mut stream, &segments), "abcdefghij");
        assert_eq!(stream.held_bytes(), 0);
    }

    #[test]
    fn acknowledged_gaps_are_not_waited_for() {
        let mut stream = started(100);
        assert_eq!(text(&mut stream, &[(102, b"c", 0)]), "");
        stream.acknowledge(103);
        assert_eq!(text(&mut stream, &[(105, b"f", 0)]), "..c");
        stream.acknowledge(107);
        assert_eq!(text(&mut stream, &[(107, b"h", 0)]), "..f.h");
    }

    #[test]
    fn waiting_is_bounded() {
        let mut stream = started(0);
        let all: String = (1..600).map(|number| text(&mut stream, &[(2 * number, b"x", 0)])).collect();
        assert!(all.starts_with("..x.x.x") && stream.early.len() < EARLY_SEGMENTS_MAX);
        let payload = vec![b'y'; EARLY_BYTES_MAX / 2];
        let mut stream = started(0);
        for number in 1..20 {
            text(&mut stream, &[(number << 20, &payload, 0)]);
            assert!(stream.held_bytes() < 2 * EARLY_BYTES_MAX);
        }
    }

    #[test]
    fn uncaptured_parts_of_segments_are_missing() {
        let mut stream = Reassembly::default();
        assert_eq!(text(&mut stream, &[(7, b"ab", 3), (12, b"f", 0), (9, b"cdefgh", 0)]), "ab...fgh");
        stream.acknowledge(1 << 31);
        assert_eq!(text(&mut stream, &[(1 << 31, b"z", 0)]), ".........z");
    }
}
