//! Certificates and passwords.

use super::super::exposition::{Exposition, Type};
use crate::security::auth::Auth;
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    if let Some(tls) = &server.tls {
        if let Some(ends_s) = tls.ends_s() {
            to.one(
                "micanite_tls_certificate_end_seconds",
                Type::Gauge,
                "When the first certificate of the server's chain expires, unix time.",
                ends_s,
            );
        }
        let help = "Certificates that were read again, by whether that was done or failed.";
        reloads("micanite_tls_reloads_total", help, tls.refreshes(), to);
    }
    if let Some(refreshes) = server.auth.as_ref().map(Auth::refreshes) {
        let help = "Files of users that were read again, by whether that was done or failed.";
        reloads("micanite_authentication_reloads_total", help, refreshes, to);
    }
}

fn reloads(name: &'static str, help: &str, (done, failed): (u32, u32), to: &mut Exposition) {
    to.family(name, Type::Counter, help);
    to.sample(&[("result", &"done")], done);
    to.sample(&[("result", &"failed")], failed);
}
