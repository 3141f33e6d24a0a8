//! Offences of the tree, against the exceptions that it may have.

/// A place that passes a limit.
#[derive(Debug)]
pub struct Offence {
    /// A path, and behind `: ` what is meant in it.
    pub place: String,
    /// By the check's own measure: lines, entries, bytes, or 1.
    pub size: usize,
    pub what: String,
}

/// A place that may stay as it is for a reason.
pub struct Exception {
    /// The place of an offence; with `/` at the end, all places below that folder.
    pub place: &'static str,
    /// Size today; of a folder, the sum. It may only shrink.
    pub size: usize,
    pub reason: &'static str,
}

impl Exception {
    fn covers(&self, offence: &Offence) -> bool {
        match self.place.ends_with('/') {
            true => offence.place.starts_with(self.place),
            false => offence.place == self.place,
        }
    }
}

/// Complaints about a tree.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Offences that no exception covers, or that have grown.
    pub offences: Vec<String>,
    /// Exceptions that are larger than what they cover.
    pub shrunk: Vec<String>,
}

impl Verdict {
    pub fn of(offences: &[Offence], exceptions: &[Exception]) -> Self {
        let mut verdict = Self::default();
        for offence in offences {
            if !exceptions.iter().any(|exception| exception.covers(offence)) {
                verdict.offences.push(format!("{}: {}", offence.place, offence.what));
            }
        }
        for exception in exceptions {
            let covered: Vec<_> = offences.iter().filter(|offence| exception.covers(offence)).collect();
            let size: usize = covered.iter().map(|offence| offence.size).sum();
            let Exception { place, size: allowed, reason } = exception;
            assert!(!reason.is_empty(), "{place}: an exception needs a reason");
            if size > *allowed {
                verdict.offences.extend(covered.iter().map(|offence| {
                    format!("{}: {} (the exception for {place} is {allowed})", offence.place, offence.what)
                }));
            } else if size == 0 {
                verdict.shrunk.push(format!("{place}: its exception is no longer needed, remove it"));
            } else if size < *allowed {
                verdict
                    .shrunk
                    .push(format!("{place}: its exception of {allowed} has to be lowered to {size}"));
            }
        }
        verdict
    }

    /// Fails the test if there is a complaint. `exceptions.rs` has the exceptions.
    pub fn check(self) {
        let complaints = [self.offences, self.shrunk].concat();
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offence(place: &str, size: usize) -> Offence {
        Offence { place: place.to_string(), size, what: format!("{size} lines") }
    }

    fn judged(offences: &[Offence], place: &'static str, size: usize) -> (usize, usize) {
        let verdict = Verdict::of(offences, &[Exception { place, size, reason: "a test" }]);
        (verdict.offences.len(), verdict.shrunk.len())
    }

    #[test]
    fn offences_without_exception_fail() {
        assert_eq!(Verdict::of(&[offence("a.rs", 500)], &[]).offences, ["a.rs: 500 lines"]);
        assert_eq!(judged(&[offence("a.rs", 500), offence("b.rs", 401)], "a.rs", 500), (1, 0));
    }

    #[test]
    fn exceptions_cover_their_size_and_no_more() {
        assert_eq!(judged(&[offence("a.rs", 500)], "a.rs", 500), (0, 0));
        assert_eq!(judged(&[offence("a.rs", 501)], "a.rs", 500), (1, 0));
    }

    #[test]
    fn exceptions_of_a_folder_cover_the_sum() {
        let offences = [offence("a/b.rs", 3), offence("a/c/d.rs", 4)];
        assert_eq!(judged(&offences, "a/", 7), (0, 0));
        assert_eq!(judged(&offences, "a/", 6), (2, 0));
    }

    #[test]
    fn exceptions_have_to_shrink_with_what_they_cover() {
        assert_eq!(judged(&[offence("a.rs", 450)], "a.rs", 500), (0, 1));
        assert_eq!(judged(&[], "a.rs", 500), (0, 1));
    }
}
