//! Answers requests: pages for everybody, actions for those who have logged in.
//!
//! An action needs a session's cookie, that session's token in a header, and an `Origin` that is the host
//! which was asked. Everybody's requests need a `Host` that is a name of this server.
//!
//! | module | what it does |
//! |---|---|
//! | `sessions` | logins: bounded, and ending by themselves |
//! | `actions` | what may be asked for, and its names of files |
//! | `room` | the room for those files |
//! | `work` | executes actions |

mod actions;
mod room;
mod sessions;
mod work;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use micanite_net::Waker;
use serde::Deserialize;

use super::feed::Feed;
use super::hosts::Hosts;
use super::pages;
use super::reply::{JSON, OK, Reply, UNAVAILABLE};
use super::request::{Headers, Request};
use super::state::State;
use crate::control::Executor;
use crate::security::auth::{Auth, Verdict};
use crate::shared::clock::seconds;
use crate::shared::{Ending, Server};
use crate::telemetry::log::limited;
use actions::Action;
use sessions::{Session, Sessions};
use work::{News, Stage, Work};

const FORBIDDEN: &str = "403 Forbidden";
const UNAUTHORIZED: &str = "401 Unauthorized";
/// Paths that programs read, by any name of the machine: Prometheus and probes use names of their own.
const PROGRAMS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// The connection that a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct From {
    pub token: u64,
    pub peer: Option<IpAddr>,
}

/// State of the admin thread.
pub(super) struct Console {
    state: Arc<State>,
    feed: Feed,
    sessions: Sessions,
    hosts: Hosts,
    is_loopback: bool,
    is_encrypted: bool,
    work: Work,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    user: String,
    password: String,
}

impl Drop for Credentials {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.password);
    }
}

impl Console {
    pub fn new(
        state: &Arc<State>,
        hosts: Hosts,
        (address, is_encrypted): (SocketAddr, bool),
        waker: &Arc<(Waker, AtomicBool)>,
        left: Option<File>,
    ) -> Self {
        Self {
            state: Arc::clone(state),
            feed: Feed::new(left),
            sessions: Sessions::new(address.port(), is_encrypted),
            hosts,
            is_loopback: address.ip().is_loopback(),
            is_encrypted,
            work: Work::new(waker),
        }
    }

    /// Takes a sample if it is time. Returns the milliseconds to the next one.
    pub fn tick(&mut self) -> u16 {
        self.feed.tick(&self.state)
    }

    /// Returns the next reply to a connection that waits for it.
    pub fn answer(&mut self) -> Option<(u64, Reply)> {
        let News { token, what, stage } = self.work.news()?;
        let (outcome, reply) = match &stage {
            Stage::Begun => ("begun", Reply::text("202 Accepted", "begun; an event tells its end")),
            Stage::Ended(Ok(text)) => ("done", Reply::new(OK, super::reply::TEXT, text.clone())),
            Stage::Ended(Err(text)) => (text.as_str(), Reply::text("409 Conflict", text.clone())),
        };
        limited!(INFO, "console action", action = %what, outcome = %outcome);
        self.note_control(&what, outcome);
        Some((token, reply))
    }

    /// Waits for the action that is executed. No further one begins. Returns the history and the events for
    /// the next program.
    pub fn end(&mut self) -> Vec<u8> {
        self.work.end();
        while self.answer().is_some() {}
        self.feed.leave(&self.state)
    }

    /// Returns the reply to a request; `None` if it comes later.
    pub fn reply(&mut self, from: From, request: Request<'_>) -> Option<Reply> {
        let headers = match request {
            Request::Bad => return Some(Reply::text("400 Bad Request", "no HTTP/1 request")),
            Request::HeadTooLong => {
                return Some(Reply::text("431 Request Header Fields Too Large", "the request is too long"));
            }
            Request::BodyTooLong => {
                return Some(Reply::text("413 Content Too Large", "the body is too long"));
            }
            Request::OtherMethod { allowed } => {
                let reply = Reply::text("405 Method Not Allowed", format!("only {allowed}"));
                return Some(reply.with("Allow", allowed));
            }
            Request::Read { headers, .. } | Request::Post { headers, .. } => headers,
        };
        if !self.is_asked_by_name(headers, &request) {
            let text =
                "the Host is no name of this server: ask for its address, or start it with --admin-hosts";
            return Some(Reply::text("421 Misdirected Request", text));
        }
        // The server may have begun to run since.
        self.tick();
        match request {
            Request::Read { path: "/session", is_head, .. } => Some(self.session(headers).for_head(is_head)),
            Request::Read { path, query, is_head, .. } => {
                let may_name = self.may_name_keys(headers);
                let page = pages::page(&self.state, &mut self.feed, (path, query), may_name);
                let reply = page.unwrap_or_else(|| Reply::text("404 Not Found", "nothing here"));
                Some(reply.for_head(is_head))
            }
            Request::Post { path, body, .. } => match self.post(from, path, headers, body) {
                Ok(reply) => reply,
                Err(refusal) => Some(refusal),
            },
            _ => None,
        }
    }

    /// Returns whether a request has a name of this server. A browser checks names itself where there is TLS,
    /// and always sends one.
    fn is_asked_by_name(&self, headers: Headers<'_>, request: &Request<'_>) -> bool {
        let is_for_all =
            !self.is_loopback && matches!(request, Request::Read { path, .. } if PROGRAMS.contains(path));
        self.is_encrypted || is_for_all || headers.host.is_none_or(|host| self.hosts.know(host))
    }

    fn post(
        &mut self,
        from: From,
        path: &str,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Result<Option<Reply>, Reply> {
        let Some(executor) = self.state.executor().cloned() else {
            return Err(Reply::text(UNAVAILABLE, "starting"));
        };
        let Some(auth) = &executor.server.auth else {
            return Err(Reply::text(FORBIDDEN, "there are no users: start the server with -Y FILE"));
        };
        if executor.server.shared.ending() != Ending::Not {
            return Err(Reply::text(UNAVAILABLE, "the server is ending"));
        }
        self.check_origin(headers)?;
        let now_s = seconds(executor.clock.now_ms());
        if path == "/login" {
            return self.login(from, auth, body, now_s).map(Some);
        }
        let sessions_of = auth.refreshes().0;
        let Some(session) = self.sessions.find(headers.cookie, sessions_of, now_s) else {
            return Err(Reply::text(UNAUTHORIZED, "log in first"));
        };
        if !session.has_token(headers.token) {
            return Err(Reply::text(FORBIDDEN, "the token of the session is missing or wrong"));
        }
        session.renew(now_s);
        if path == "/logout" {
            let reply = Reply::text(OK, "logged out").with("Set-Cookie", &self.sessions.ended_cookie());
            self.sessions.end(headers.cookie);
            return Ok(Some(reply));
        }
        let user = session.user.clone();
        self.control(from, &user, body, executor)
    }

    /// Refuses a request that a page of another site has made.
    fn check_origin(&self, headers: Headers<'_>) -> Result<(), Reply> {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let is_ours = headers.host.zip(headers.origin).is_some_and(|(host, origin)| {
            origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host)
        });
        match is_ours {
            true => Ok(()),
            false => Err(Reply::text(FORBIDDEN, "the Origin is not this server")),
        }
    }

    fn login(&mut self, from: From, auth: &Auth, body: &[u8], now_s: u32) -> Result<Reply, Reply> {
        let Ok(credentials) = serde_json::from_slice::<Credentials>(body) else {
            return Err(Reply::text("400 Bad Request", "user and password are missing"));
        };
        let (user, password) = (credentials.user.as_bytes(), credentials.password.as_bytes());
        let peer = from.peer.map_or("somebody".into(), |ip| ip.to_string());
        // Before the check: a session of users that are read again meanwhile ends at its first use.
        let loads = auth.refreshes().0;
        match auth.check(user, password, from.peer, now_s) {
            Verdict::Welcome => {}
            // The same answer, whatever it was.
            Verdict::Wrong | Verdict::Limited => {
                self.feed.note_refused_login(&peer, now_s);
                let text = "user or password is wrong, or there were too many wrong ones from this address";
                return Err(Reply::text(UNAUTHORIZED, text));
            }
        }
        let user = actions::printable(&credentials.user);
        limited!(INFO, "console login", user = %user, peer = %peer);
        self.feed.note_login(&format!("{user} logged in from {peer}"), now_s);
        let made = self.sessions.begin(user, loads, now_s);
        let Some((cookie, session)) = made else {
            return Err(Reply::text(UNAVAILABLE, "there are no random numbers"));
        };
        Ok(Reply::new(OK, JSON, session_json(Some(session))).with("Set-Cookie", &cookie))
    }

    /// The session that a page has after it was loaded again.
    fn session(&mut self, headers: Headers<'_>) -> Reply {
        if self.state.running().is_none() {
            return Reply::text(UNAVAILABLE, "starting");
        }
        Reply::new(OK, JSON, session_json(self.session_of(headers)))
    }

    /// Returns the session of a request, if it has one.
    fn session_of(&mut self, headers: Headers<'_>) -> Option<&Session> {
        let (server, clock) = self.state.running()?;
        let loads = server.auth.as_ref().map_or(0, |auth| auth.refreshes().0);
        self.sessions.find(headers.cookie, loads, seconds(clock.now_ms())).map(|session| &*session)
    }

    /// Returns whether a reply may name keys: they can be secrets of clients, such as names of sessions.
    fn may_name_keys(&mut self, headers: Headers<'_>) -> bool {
        let is_for_all = |(server, _): (&Server, _)| server.settings.names_keys_to_all();
        self.state.running().is_some_and(is_for_all) || self.session_of(headers).is_some()
    }

    fn control(
        &mut self,
        from: From,
        user: &str,
        body: &[u8],
        executor: Executor,
    ) -> Result<Option<Reply>, Reply> {
        let refused = |text: String| Reply::text("400 Bad Request", text);
        let action: Action = serde_json::from_slice(body).map_err(|error| refused(error.to_string()))?;
        let order = action.order(&executor.server.settings).map_err(refused)?;
        let what = format!("{user}: {}", actions::printable(&actions::words(&order)));
        match self.work.begin(from.token, what, order, executor) {
            Some(Ok(())) => Ok(None),
            Some(Err(error)) => Err(Reply::text(UNAVAILABLE, format!("cannot start a thread: {error}"))),
            None => Err(Reply::text("409 Conflict", "another action has not ended")),
        }
    }

    fn note_control(&mut self, what: &str, outcome: &str) {
        if let Some((_, clock)) = self.state.running() {
            self.feed.note_control(what, outcome, seconds(clock.now_ms()));
        }
    }
}

/// Names are printable, tokens are digits; nothing else is told.
fn session_json(session: Option<&Session>) -> String {
    match session {
        None => "{\"user\":null}".into(),
        Some(session) => {
            let user = serde_json::Value::from(session.user.as_str());
            format!("{{\"user\":{user},\"token\":\"{}\"}}", session.token())
        }
    }
}
