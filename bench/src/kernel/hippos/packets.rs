//! The reply in the packet of its request, beside a new packet (figure 3.6 of the dissertation). A program of
//! XDP has no other packet; at the ingress of traffic control both can be done.

use super::super::servers::Kind;
use super::super::sides::{METRIC, Side, UNIT, measure};
use super::super::{Bench, Options, tiny};
use super::{CASE, Place};
use crate::Result;
use crate::results::measurement::Measurement;

const ITEMS: u64 = 1 << 16;
const KINDS: [Kind; 3] = [Kind::Sink(Place::ReturnSame), Kind::Sink(Place::ReturnNew), Kind::Reflect];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let case = format!("{CASE}/packet");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let mut servers = bench.start(&KINDS, 64, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        let ring = tiny::gets(server, ITEMS, 1 << 16)?;
        server.process.pause();
        sides.push(Side::new(at, server.kind.name(), ring));
    }
    measure(&case, &mut servers, &mut sides, tiny::rounds(options))?;
    for side in &sides {
        side.report(&case, report);
    }
    let [same, new, reflect] = &sides[..] else {
        return Err("a server is missing".into());
    };
    for (other, name) in [(new, "new packet"), (reflect, "reflect")] {
        let (ours, theirs) = (same.by_thread_time(), other.by_thread_time());
        report.beside((&case, "replies_by_thread_time", UNIT), &ours, name, &theirs);
        report.beside((&case, METRIC, UNIT), &same.per_core_second(), name, &other.per_core_second());
    }
    Ok(())
}
