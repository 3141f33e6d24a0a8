//! `stats kernel`: what the program in the kernel has done (`--kernel-get`).

use super::Lines;
use crate::output::Output;
use crate::shared::Server;

/// Writes it, without the final `END`; nothing where there is to be no such program.
pub fn kernel(server: &Server, output: &mut Output<'_>) {
    let Some(state) = &server.kernel_get else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("kernel_get", state.text());
    lines.stat("kernel_get_paused", u8::from(state.is_paused()));
    state.counters().each(|name, count| {
        lines.stat(&format!("kernel_get_{name}"), count);
    });
}
