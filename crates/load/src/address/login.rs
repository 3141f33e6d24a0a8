//! User and password of an address.

use std::fmt;

use micanite_client::decode_percent as decode;

/// Holds the password of an address that names a user alone.
pub(crate) const PASSWORD_VARIABLE: &str = "MICANITE_PASSWORD";

/// A user and a password, which are never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Splits `USER:PASSWORD@PLACE`, or `USER@PLACE` with the password in the environment.
    ///
    /// # Errors
    /// There is no password, or it cannot be sent.
    pub fn split(text: &str) -> Result<(Option<Self>, &str), String> {
        Self::split_by(text, || std::env::var(PASSWORD_VARIABLE).ok())
    }

    fn split_by(
        text: &str,
        environment: impl FnOnce() -> Option<String>,
    ) -> Result<(Option<Self>, &str), String> {
        // A path may contain the sign, too.
        let end = text.find('/').unwrap_or(text.len());
        let Some((words, _)) = text[..end].rsplit_once('@') else {
            return Ok((None, text));
        };
        let place = &text[words.len() + 1..];
        let (user, password) = match words.split_once(':') {
            Some((user, password)) => (decode(user)?, decode(password)?),
            None => (
                decode(words)?,
                environment().ok_or_else(|| {
                    format!(
                        "it names a user without a password; set {PASSWORD_VARIABLE}, or write USER:PASSWORD@"
                    )
                })?,
            ),
        };
        let is_sendable = |word: &str| !word.is_empty() && !word.contains(['\r', '\n', '\0']);
        if !is_sendable(&user) || user.contains(' ') || !is_sendable(&password) {
            return Err(
                "user and password are not empty and have no line ends, and the user no blanks".to_owned()
            );
        }
        Ok((Some(Self { user, password }), place))
    }

    /// User and password as a server's text protocol takes them.
    pub fn words(&self) -> String {
        format!("{} {}", self.user, self.password)
    }

    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Login")
    }
}

/// Returns an address as it may be shown.
pub(crate) fn without_login(text: &str) -> String {
    let (before, rest) = text.split_once("://").unwrap_or(("", text));
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let place = place.split_once('?').map_or(place, |(place, _)| place);
    if before.is_empty() { place.to_owned() } else { format!("{before}://{place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password comes from the address or from the environment, and is not shown.
    #[test]
    fn logins_are_split_from_the_place() {
        let words = |text: &str, variable: Option<&str>| {
            let (login, place) = Login::split_by(text, || variable.map(str::to_owned))?;
            Ok::<_, String>((login.map(|login| login.words()), place.to_owned()))
        };
        let some = |words: &str, place: &str| Ok((Some(words.to_owned()), place.to_owned()));
        assert_eq!(words("host:1", None), Ok((None, "host:1".to_owned())));
        assert_eq!(words("me:a:b@host:1", None), some("me a:b", "host:1"));
        assert_eq!(words("me:a@b@host", None), some("me a@b", "host"));
        assert_eq!(words("me:%3A%20@host", None), some("me : ", "host"));
        assert_eq!(words("/run/a@b", None), Ok((None, "/run/a@b".to_owned())));
        assert_eq!(words("me@host", Some("word")), some("me word", "host"));
        for text in ["me@host", ":a@host", "me:@host", "m%20e:a@host", "me:a%0d%0a@host", "me:%4@host"] {
            assert!(words(text, None).is_err(), "{text}");
        }
        assert_eq!(without_login("memcached://me:pass@host:1"), "memcached://host:1");
        assert_eq!(without_login("me:pass@host?password=x"), "host");
    }
}
