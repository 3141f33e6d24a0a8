//! `stats local`: readers on the same host (`--local`).

use super::Lines;
use crate::output::Output;
use crate::shared::Server;

/// Writes it, without the final `END`; nothing where there are to be none.
pub fn local(server: &Server, output: &mut Output<'_>) {
    let (Some(local), Some(settings)) = (&server.shared.local, &server.settings.local) else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("local", settings.path.display());
    lines.stat("local_clients_max", settings.clients_max);
    local.each(|name, count| lines.stat(&format!("local_{name}"), count));
}
