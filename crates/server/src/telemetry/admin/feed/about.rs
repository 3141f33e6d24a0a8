//! `/about`: what does not change while the server runs, the configuration included.

use super::{Feed, json, sample};
use crate::limits::CONSOLE_STEPS;
use crate::shared::Server;
use crate::telemetry::admin::state::State;

impl Feed {
    /// Returns it as JSON; `None` before the server runs.
    pub fn about(&self, state: &State) -> Option<String> {
        let (server, _) = state.running()?;
        let settings = &server.settings;
        let names: Vec<_> = sample::names().map(|name| format!("\"{name}\"")).collect();
        let steps = CONSOLE_STEPS.map(|(step_s, samples)| format!("[{step_s},{samples}]"));
        Some(format!(
            "{{\"boot\":{},\"series\":{},\"version\":\"{}\",\"started\":{},\"address\":{},\"workers\":{},\
             \"partitions\":{},\"connections_max\":{},\"controls\":{},\"files\":{},\
             \"flush\":{},\"steps\":[{}],\"names\":[{}],\"options\":[{}]}}",
            self.boot,
            self.series,
            env!("CARGO_PKG_VERSION"),
            server.started_s,
            json::text(&name(server)),
            settings.threads,
            server.shared.cache.layout().partitions,
            settings.connections_max,
            server.auth.is_some(),
            settings.admin_files.is_some(),
            !settings.switches.no_flush,
            steps.join(","),
            names.join(","),
            options(server),
        ))
    }
}

/// Returns what tells this server from others in a title.
fn name(server: &Server) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_string();
    match server.tcp_port() {
        0 => host,
        port => format!("{host}:{port}"),
    }
}

/// Each option as its name, its value, and where that came from.
fn options(server: &Server) -> String {
    let options = server.settings.public_options();
    let rows = options.values().into_iter().filter(|value| value.is_said()).map(|value| {
        let (name, words) = (json::text(&value.declared.path), json::text(&value.words().join(",")));
        format!("[{name},{words},\"{}\"]", value.origin().name())
    });
    rows.collect::<Vec<_>>().join(",")
}
