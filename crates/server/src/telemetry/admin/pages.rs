//! The page of each path.

use super::metrics::metrics;
use super::request::{Request, is_local_name};
use super::state::{Health, State};
use crate::shared::Server;
use crate::shared::clock::seconds;
use crate::telemetry::hot::{self, Hottest};

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
/// The page to look at. It loads nothing but what is served here.
const OVERVIEW: &str = include_str!("overview.html");
const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// A reply of HTTP.
#[derive(Debug)]
pub(super) struct Reply {
    /// Number and words, and further header lines behind them.
    status: &'static str,
    r#type: &'static str,
    body: String,
    is_head: bool,
}

impl Reply {
    fn new(status: &'static str, r#type: &'static str, body: impl Into<String>) -> Self {
        Self { status, r#type, body: body.into(), is_head: false }
    }

    /// Returns the bytes to send.
    pub fn into_bytes(self) -> Vec<u8> {
        let body = if self.is_head { "" } else { &self.body };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; \
             connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'\r\n\
             Connection: close\r\n\r\n{body}",
            self.status,
            self.r#type,
            self.body.len(),
        )
        .into_bytes()
    }
}

/// The reply to a request. `is_loopback`: only this machine can ask.
pub(super) fn reply(state: &State, is_loopback: bool, request: Request<'_>) -> Reply {
    let (path, is_head, host) = match request {
        Request::Bad => return Reply::new("400 Bad Request", TEXT, "no HTTP/1 request\n"),
        Request::TooLong => {
            let status = "431 Request Header Fields Too Large";
            return Reply::new(status, TEXT, "the request is too long\n");
        }
        Request::OtherMethod => {
            let status = "405 Method Not Allowed\r\nAllow: GET, HEAD";
            return Reply::new(status, TEXT, "only GET and HEAD\n");
        }
        Request::Read { path, is_head, host } => (path, is_head, host),
    };
    if is_loopback && !host.is_none_or(is_local_name) {
        let text = "ask for localhost or for an address\n";
        return Reply::new("421 Misdirected Request", TEXT, text);
    }
    Reply { is_head, ..page(state, path) }
}

fn page(state: &State, path: &str) -> Reply {
    let of_server = |body: fn(&Server, u32) -> Reply| match state.running() {
        Some((server, clock)) => body(server, seconds(clock.now_ms())),
        None => Reply::new(UNAVAILABLE, TEXT, "starting\n"),
    };
    match path {
        "/" => Reply::new(OK, HTML, OVERVIEW),
        "/metrics" => Reply::new(OK, METRICS, metrics(state)),
        "/healthz" => health(state.health()),
        "/readyz" => health(state.readiness()),
        "/config" => of_server(|server, _| config(server)),
        "/directory" => of_server(|server, _| Reply::new(OK, JSON, directory(server))),
        "/hotkeys" => of_server(|server, now_s| {
            let hottest = hot::hottest(&server.shared.hot, now_s, hot::KEYS_MAX);
            Reply::new(OK, JSON, hot_keys(&hottest))
        }),
        _ => Reply::new("404 Not Found", TEXT, "nothing here\n"),
    }
}

fn health(health: Health) -> Reply {
    match health {
        Ok(text) => Reply::new(OK, TEXT, format!("{text}\n")),
        Err(text) => Reply::new(UNAVAILABLE, TEXT, format!("{text}\n")),
    }
}

fn config(server: &Server) -> Reply {
    Reply::new(OK, "application/toml", server.settings.public_options().to_string())
}

/// Generation, ports of the workers, and mode and owner of each partition.
fn directory(server: &Server) -> String {
    let cache = &*server.shared.cache;
    let native = server.shared.native.as_ref();
    let generation = native.map_or(cache.generation(), |native| native.generation(cache).into());
    let ports = native.iter().flat_map(|native| native.cores.iter());
    let ports: Vec<_> = ports.map(|core| core.port.to_string()).collect();
    let routes = (0..cache.layout().partitions).filter_map(|partition| cache.route(partition));
    let routes: Vec<_> = routes
        .map(|route| {
            let (mode, owner) = (route.access.name(), route.owner);
            format!(r#"{{"mode":"{mode}","owner":{owner}}}"#)
        })
        .collect();
    format!(
        "{{\"generation\":{generation},\"native_ports\":[{}],\"partitions\":[{}]}}\n",
        ports.join(","),
        routes.join(",")
    )
}

/// Printed keys need no escaping in JSON.
fn hot_keys(hottest: &Hottest) -> String {
    let keys = hottest.keys.iter().map(|hot| {
        let (key, share) = (hot::printed(&hot.key), hot.share);
        format!(r#"{{"key":"{key}","share":{share:.6}}}"#)
    });
    format!(
        "{{\"half_life_seconds\":{},\"samples\":{:.0},\"keys\":[{}]}}\n",
        hot::HALF_LIFE_S,
        hottest.samples,
        keys.collect::<Vec<_>>().join(",")
    )
}
