//! The file of users, and whether somebody is one of them.
//!
//! Each line is `user:password`. A name has no colon; a password may have some, and spaces.

use std::io;
use std::path::Path;

use micanite_net::tls::read_file;
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

use crate::limits::{AUTH_LINE_BYTES_MAX, AUTH_USERS_MAX};

/// A name or password fills this many words of eight bytes, the rest is zeros; one more word says
/// how long it is.
const WORDS: usize = AUTH_LINE_BYTES_MAX / 8;

/// A name or password, of which nothing can be told from how long it takes to compare.
struct Padded([u64; WORDS + 1]);

impl Padded {
    /// A text that is too long for an entry keeps its true length, so that it equals none.
    fn of(text: &[u8]) -> Self {
        let mut words = [0; WORDS + 1];
        for (word, bytes) in words.iter_mut().zip(text[..text.len().min(8 * WORDS)].chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        words[WORDS] = text.len() as u64;
        Self(words)
    }

    fn equals(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl Drop for Padded {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Users and their passwords.
pub struct Users(Vec<(Padded, Padded)>);

impl std::fmt::Debug for Users {
    /// Without names and passwords.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} users", self.0.len())
    }
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::of(path, std::fs::read(path))
    }

    /// Reads it again, which must not block: it has to be a regular file now.
    ///
    /// # Errors
    /// As in [`Self::load`].
    pub fn load_again(path: &Path) -> Result<Self, String> {
        Self::of(path, read_file(path))
    }

    fn of(path: &Path, text: io::Result<Vec<u8>>) -> Result<Self, String> {
        let name = path.display();
        let text = text
            .map(Zeroizing::new)
            .map_err(|error| format!("Could not open authfile [{name}] for reading: {error}"))?;
        Self::parse(&text).map_err(|what| format!("Authfile [{name}] {what}"))
    }

    /// Reads what stands in a file.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut users = Vec::new();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let wrong = |what: &str| Err(format!("has a malformed entry in line {}: {what}", number + 1));
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                return wrong("it should be 'user:password'");
            };
            let (user, password) = (&line[..colon], &line[colon + 1..]);
            if user.is_empty() || password.is_empty() {
                return wrong("user and password must not be empty");
            }
            if user.contains(&b' ') || line.contains(&0) {
                return wrong("a user has no spaces, and nobody a zero byte");
            }
            if line.len() > AUTH_LINE_BYTES_MAX {
                return wrong("it is longer than 256 bytes");
            }
            if users.len() == AUTH_USERS_MAX {
                return Err(format!("has more than {AUTH_USERS_MAX} entries"));
            }
            users.push((Padded::of(user), Padded::of(password)));
        }
        Ok(Self(users))
    }

    /// Returns whether there is a user with this password. The time does not depend on which of the two is
    /// right.
    pub fn know(&self, user: &[u8], password: &[u8]) -> bool {
        let (user, password) = (Padded::of(user), Padded::of(password));
        let mut known = Choice::from(0);
        for (name, secret) in &self.0 {
            known |= name.equals(&user) & secret.equals(&password);
        }
        known.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn users(text: &str) -> Users {
        Users::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn lines_are_users_and_passwords() {
        for text in ["alice:secret\nbob:pass word:1\n", "alice:secret\r\nbob:pass word:1"] {
            let users = users(text);
            assert!(users.know(b"alice", b"secret") && users.know(b"bob", b"pass word:1"));
            for (user, password) in [
                ("alice", "secre"),
                ("alice", "secret\0"),
                ("alice", "pass word:1"),
                ("alic", "esecret"),
                ("Alice", "secret"),
                ("bob", "pass"),
                ("", ""),
                ("alice", ""),
                ("", "secret"),
            ] {
                assert!(!users.know(user.as_bytes(), password.as_bytes()), "{user}");
            }
        }
    }

    #[test]
    fn too_long_names_match_no_user() {
        let name = "n".repeat(100);
        let secret = "s".repeat(155);
        let users = users(&format!("{name}:{secret}\n"));
        assert!(users.know(name.as_bytes(), secret.as_bytes()));
        for bytes in [154, 156, 256, 257, 5000] {
            assert!(!users.know(name.as_bytes(), "s".repeat(bytes).as_bytes()));
        }
    }

    #[test]
    fn a_malformed_file_is_refused_with_its_line() {
        for (text, part) in [
            ("", "line 1"),
            ("\n", "line 1"),
            ("alice\n", "line 1: it should be 'user:password'"),
            ("a:b\n\nc:d\n", "line 2"),
            ("a:b\n# comment\n", "line 2"),
            (":b\n", "must not be empty"),
            ("a:\n", "must not be empty"),
            ("a b:c\n", "no spaces"),
        ] {
            let said = Users::parse(text.as_bytes()).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
        let long = format!("a:{}\n", "b".repeat(AUTH_LINE_BYTES_MAX));
        assert!(Users::parse(long.as_bytes()).unwrap_err().contains("longer"));
        let many: String = (0..=AUTH_USERS_MAX).map(|number| format!("u{number}:p\n")).collect();
        assert!(Users::parse(many.as_bytes()).unwrap_err().contains("more than"));
    }

    proptest! {
        #[test]
        fn only_listed_users_are_known(
            entries in prop::collection::vec(("[a-c]{1,3}", "[a-c :]{1,4}"), 1..6),
            user in "[a-c]{0,4}",
            password in "[a-c :]{0,5}",
        ) {
            let line = |(user, password): &(String, String)| format!("{user}:{password}\n");
            let text: String = entries.iter().map(line).collect();
            let known = users(&text).know(user.as_bytes(), password.as_bytes());
            prop_assert_eq!(known, entries.contains(&(user, password)));
        }
    }
}
