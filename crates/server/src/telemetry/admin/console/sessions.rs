//! Logins: a bounded number, each with a secret in a cookie and a token that proves who makes a request.

use std::collections::VecDeque;
use std::fmt::Write;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::limits::{CONSOLE_SESSION_IDLE_S, CONSOLE_SESSION_S, CONSOLE_SESSIONS_MAX};

const SECRET_BYTES: usize = 32;

/// One login.
pub(super) struct Session {
    secret: Zeroizing<String>,
    token: Zeroizing<String>,
    pub user: String,
    began_s: u32,
    used_s: u32,
    /// Number of the load of the users' file: another one ends the session.
    loads: u32,
}

/// All logins, the oldest first.
pub(super) struct Sessions {
    sessions: VecDeque<Session>,
    /// Name of the cookie. Browsers tell servers apart by host, not by port.
    name: String,
    is_encrypted: bool,
}

impl Session {
    /// Returns whether a request has the token. The time it takes tells nothing of the token.
    pub fn has_token(&self, token: Option<&str>) -> bool {
        token.is_some_and(|token| bool::from(token.as_bytes().ct_eq(self.token.as_bytes())))
    }

    /// Begins its idle time again: a user has acted. Reading, which pages do by themselves, does not.
    pub fn renew(&mut self, now_s: u32) {
        self.used_s = now_s;
    }

    pub fn token(&self) -> &str {
        &self.token
    }
}

impl Sessions {
    pub fn new(port: u16, is_encrypted: bool) -> Self {
        Self { sessions: VecDeque::new(), name: format!("micanite_{port}"), is_encrypted }
    }

    /// Begins a session. Returns the cookie that the browser keeps; `None` if there is no randomness.
    pub fn begin(&mut self, user: String, loads: u32, now_s: u32) -> Option<(String, &Session)> {
        self.expire(loads, now_s);
        if self.sessions.len() == CONSOLE_SESSIONS_MAX {
            self.sessions.pop_front();
        }
        let (secret, token) = (random()?, random()?);
        let cookie = self.cookie(&secret, CONSOLE_SESSION_S);
        self.sessions.push_back(Session { secret, token, user, began_s: now_s, used_s: now_s, loads });
        Some((cookie, self.sessions.back()?))
    }

    /// Returns the session of a request's cookies.
    pub fn find(&mut self, cookies: Option<&str>, loads: u32, now_s: u32) -> Option<&mut Session> {
        self.expire(loads, now_s);
        let place = self.place(cookies?)?;
        self.sessions.get_mut(place)
    }

    /// Ends the session of these cookies.
    pub fn end(&mut self, cookies: Option<&str>) {
        if let Some(place) = cookies.and_then(|cookies| self.place(cookies)) {
            self.sessions.remove(place);
        }
    }

    /// Returns the cookie that replaces the one of a session which has ended.
    pub fn ended_cookie(&self) -> String {
        self.cookie("", 0)
    }

    fn cookie(&self, secret: &str, seconds: u32) -> String {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        format!("{}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", self.name)
    }

    /// Compares with every session, each in the same time.
    fn place(&self, cookies: &str) -> Option<usize> {
        let pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        let (_, secret) = pairs.into_iter().find(|(name, _)| *name == self.name)?;
        let mut found = None;
        for (place, session) in self.sessions.iter().enumerate() {
            if bool::from(secret.as_bytes().ct_eq(session.secret.as_bytes())) {
                found = Some(place);
            }
        }
        found
    }

    fn expire(&mut self, loads: u32, now_s: u32) {
        self.sessions.retain(|session| {
            session.loads == loads
                && now_s.saturating_sub(session.used_s) < CONSOLE_SESSION_IDLE_S
                && now_s.saturating_sub(session.began_s) < CONSOLE_SESSION_S
        });
    }
}

fn random() -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    getrandom::fill(&mut *bytes).ok()?;
    let mut text = Zeroizing::new(String::with_capacity(2 * SECRET_BYTES));
    for byte in bytes.iter() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &mut Sessions, now_s: u32) -> String {
        let (cookie, _) = sessions.begin("ada".into(), 0, now_s).unwrap();
        cookie.split(';').next().unwrap().into()
    }

    #[test]
    fn a_cookie_finds_its_session() {
        let mut sessions = Sessions::new(9311, false);
        let (one, two) = (begin(&mut sessions, 5), begin(&mut sessions, 5));
        let token = |sessions: &mut Sessions, cookie: &str| {
            sessions.find(Some(cookie), 0, 6).map(|session| session.token().to_string())
        };
        let (first, second) = (token(&mut sessions, &one), token(&mut sessions, &two));
        assert!(first.is_some() && second.is_some() && first != second);
        assert_eq!(token(&mut sessions, &format!("a=b; {two}; c")), second);
        for wrong in ["", "micanite_9311=", "micanite_9312=1", &one[..one.len() - 1], &format!("{one}0")] {
            assert_eq!(token(&mut sessions, wrong), None, "{wrong}");
        }
        let session = sessions.find(Some(&one), 0, 6).unwrap();
        assert!(session.has_token(first.as_deref()));
        assert!(
            !session.has_token(second.as_deref()) && !session.has_token(None) && !session.has_token(Some(""))
        );
        sessions.end(Some(&one));
        assert_eq!(token(&mut sessions, &one), None);
        assert_eq!(token(&mut sessions, &two), second);
    }

    #[test]
    fn sessions_end_by_themselves() {
        let mut sessions = Sessions::new(1, false);
        let cookie = begin(&mut sessions, 0);
        let used_s = CONSOLE_SESSION_IDLE_S - 1;
        sessions.find(Some(&cookie), 0, used_s).unwrap().renew(used_s);
        assert!(sessions.find(Some(&cookie), 0, used_s + CONSOLE_SESSION_IDLE_S - 1).is_some());
        assert!(sessions.find(Some(&cookie), 0, used_s + CONSOLE_SESSION_IDLE_S).is_none());
        let cookie = begin(&mut sessions, 0);
        for now_s in (0..CONSOLE_SESSION_S).step_by(600) {
            sessions.find(Some(&cookie), 0, now_s).unwrap().renew(now_s);
        }
        assert!(sessions.find(Some(&cookie), 0, CONSOLE_SESSION_S).is_none());
        // Other users than before.
        let cookie = begin(&mut sessions, 0);
        assert!(sessions.find(Some(&cookie), 1, 0).is_none());
    }

    #[test]
    fn reading_does_not_keep_a_session() {
        let mut sessions = Sessions::new(1, false);
        let cookie = begin(&mut sessions, 0);
        for now_s in (0..CONSOLE_SESSION_IDLE_S).step_by(60) {
            assert!(sessions.find(Some(&cookie), 0, now_s).is_some());
        }
        assert!(sessions.find(Some(&cookie), 0, CONSOLE_SESSION_IDLE_S).is_none());
    }

    #[test]
    fn there_are_few_sessions_and_the_oldest_goes() {
        let mut sessions = Sessions::new(1, false);
        let cookies: Vec<_> = (0..=CONSOLE_SESSIONS_MAX).map(|_| begin(&mut sessions, 0)).collect();
        assert!(sessions.find(Some(&cookies[0]), 0, 0).is_none());
        assert!(cookies[1..].iter().all(|cookie| sessions.find(Some(cookie), 0, 0).is_some()));
    }

    #[test]
    fn cookies_are_for_this_server_alone() {
        let cookie = Sessions::new(9311, true).begin("ada".into(), 0, 0).unwrap().0;
        assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        assert!(!Sessions::new(1, false).ended_cookie().contains("Secure"));
    }
}
