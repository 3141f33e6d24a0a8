//! The page of each path that is read.

use super::feed::{Feed, Wanted};
use super::files;
use super::metrics::metrics;
use super::reply::{JSON, OK, Reply, UNAVAILABLE};
use super::state::{Health, State};
use crate::shared::Server;
use crate::shared::clock::seconds;
use crate::telemetry::hot;

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Reply to somebody who may not see names of keys.
const NO_NAMES: &str = "names of keys are for users of the console where -Y or -X keeps items from others: \
     log in there, ask `micanite ctl hotkeys`, or start the server with --admin-names";

/// Returns what is at a path; `None` where nothing is. `may_name`: it may name keys.
pub(super) fn page(
    state: &State,
    feed: &mut Feed,
    (path, query): (&str, &str),
    may_name: bool,
) -> Option<Reply> {
    let of_server = |body: fn(&Server, u32) -> Reply| match state.running() {
        Some((server, clock)) => body(server, seconds(clock.now_ms())),
        None => Reply::text(UNAVAILABLE, "starting"),
    };
    let of_feed = |body: Option<String>| match body {
        Some(body) => Reply::new(OK, JSON, body),
        None => Reply::text(UNAVAILABLE, "starting"),
    };
    Some(match path {
        "/metrics" => Reply::new(OK, METRICS, metrics(state)),
        "/healthz" => health(state.health()),
        "/readyz" => health(state.readiness()),
        "/config" => of_server(|server, _| config(server)),
        "/directory" => of_server(|server, _| Reply::new(OK, JSON, directory(server))),
        "/hotkeys" if !may_name => Reply::text("403 Forbidden", NO_NAMES),
        "/hotkeys" => of_server(|server, now_s| {
            let hottest = hot::hottest(&server.shared.hot, now_s, hot::KEYS_MAX);
            Reply::new(OK, JSON, hottest.json())
        }),
        "/about" => of_feed(feed.about(state)),
        "/state" => of_feed(feed.state(state, Wanted::of(query), may_name)),
        "/history" if !feed.has_step(Wanted::of(query)) => {
            Reply::text("404 Not Found", "there is no such step")
        }
        "/history" => of_feed(feed.history(state, Wanted::of(query))),
        _ => return files::find(path).map(|(r#type, text)| Reply::new(OK, r#type, text)),
    })
}

fn health(health: Health) -> Reply {
    match health {
        Ok(text) => Reply::text(OK, text),
        Err(text) => Reply::text(UNAVAILABLE, text),
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
