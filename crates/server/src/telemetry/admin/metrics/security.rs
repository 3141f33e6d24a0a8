//! Certificates and passwords.

use super::super::exposition::Exposition;
use super::families;
use crate::security::auth::Auth;
use crate::shared::Server;
use crate::telemetry::table::Family;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    if let Some(tls) = &server.tls {
        if let Some(ends_s) = tls.ends_s() {
            to.one(&families::CERTIFICATE_END, ends_s);
        }
        reloads(&families::TLS_RELOADS, tls.refreshes(), to);
    }
    if let Some(refreshes) = server.auth.as_ref().map(Auth::refreshes) {
        reloads(&families::AUTHENTICATION_RELOADS, refreshes, to);
    }
}

fn reloads(family: &Family, (done, failed): (u32, u32), to: &mut Exposition) {
    to.family(family);
    to.sample(&[("result", &"done")], done);
    to.sample(&[("result", &"failed")], failed);
}
