//! Servers by URL: `local:///PATH[?user=..&password=..]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, LOCAL_SCHEME as SCHEME};
use crate::fabric::decode;

/// A server on the same host, by the path of its socket (`micanite serve --local PATH`).
///
/// `local:///run/micanite.sock?user=me&password=secret`; `%3F` and the like stand for bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct LocalUrl {
    path: PathBuf,
    login: Option<(String, String)>,
}

impl LocalUrl {
    /// Returns whether a server's name is one of these.
    pub fn is_one(name: &str) -> bool {
        name.starts_with(SCHEME)
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|reason| {
            let name = text.split_once('?').map_or(text, |(before, _)| before).to_owned();
            Error::Address { name, reason }
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns user and password, if the URL has them.
    pub(super) fn login(&self) -> Option<&(String, String)> {
        self.login.as_ref()
    }
}

impl FromStr for LocalUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Debug for LocalUrl {
    /// Leaves out the login.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl fmt::Display for LocalUrl {
    /// Leaves out the login.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}", self.path.display())
    }
}

fn parse(text: &str) -> Result<LocalUrl, String> {
    let rest = text.strip_prefix(SCHEME).ok_or("it does not begin with local://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        return Err("it should be local:///PATH, with three slashes".to_owned());
    }
    let (mut user, mut password) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (word, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value)?;
        match word {
            "user" => user = Some(value),
            "password" => password = Some(value),
            _ => return Err(format!("'{word}' is not user or password")),
        }
    }
    let login = match (user, password) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user, password)),
        _ => return Err("a login has user and password".to_owned()),
    };
    Ok(LocalUrl { path: decode(path)?.into(), login })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_path_and_perhaps_a_login_that_is_not_shown() {
        let url = LocalUrl::parse("local:///run/a%3Fb?user=me&password=a%26b").unwrap();
        assert_eq!(url.path(), Path::new("/run/a?b"));
        assert_eq!(url.login, Some(("me".to_owned(), "a&b".to_owned())));
        assert_eq!(format!("{url} {url:?}"), "local:///run/a?b local:///run/a?b");
        for (text, words) in [
            ("local://run/x", "three slashes"),
            ("local:///x?user=me", "user and password"),
            ("local:///x?colour=red", "'colour'"),
            ("local:///x?user=%4", "hexadecimal"),
        ] {
            let error = LocalUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
