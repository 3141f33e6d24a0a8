//! Checks of a plan, before anything is sent.

use micanite_client::PortName;
use micanite_workload::{DataSet, ITEMS_MAX, Popularity, Workload};

use super::Plan;
use crate::address::{Address, Protocol};

/// Operations that one native client keeps in flight.
const NATIVE_OPERATIONS_MAX: usize = 16_384;
/// Key and value, each rounded up to 8 bytes, beside the headers of datagram and request.
const NATIVE_ITEM_BYTES_MAX: usize = 1472 - 40 - 24;
/// Four bytes each.
const DRAW_AHEAD_MAX: usize = 1 << 26;
/// memcached takes a larger number for a time of the clock.
const EXPIRY_S_MAX: u32 = 30 * 24 * 3600;

impl Plan {
    /// Looks for what cannot be done.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn check(&self) -> Result<(), String> {
        self.check_targets()?;
        self.check_numbers()?;
        self.check_items()?;
        self.check_workload()?;
        self.check_datagrams()?;
        match &self.port {
            Some(port) => self.check_port(port.name()),
            None => Ok(()),
        }
    }

    fn check_targets(&self) -> Result<(), String> {
        let Some(first) = self.targets.first() else {
            return Err("name a target, say memcached://127.0.0.1:11211".to_owned());
        };
        if let Some(other) = self.targets.iter().find(|target| target.protocol() != first.protocol()) {
            return Err(format!(
                "{first} and {other} speak different protocols: load them one after the other"
            ));
        }
        if self.reads.is_some() && self.protocol() != Protocol::Fabric {
            return Err(format!("--reads chooses among the ways of fabric://: {first} has one way"));
        }
        // A native client has all servers.
        let is_client_of_all = self.port.is_some() || self.protocol() == Protocol::Native;
        if !is_client_of_all && self.connections < self.targets.len() {
            let targets = self.targets.len();
            return Err(format!("{targets} targets need at least --connections {targets}"));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), String> {
        let bounds = [
            ("--connections", self.connections, 65_536),
            ("--pipeline", self.pipeline, 4096),
            ("--batch", self.batch, 4096),
            ("--multiget", self.multiget, 1024),
            ("--threads", self.threads, 256),
        ];
        for (option, number, most) in bounds {
            if !(1..=most).contains(&number) {
                return Err(format!("{option} is 1 to {most}, not {number}"));
            }
        }
        if self.threads > self.connections {
            return Err(format!(
                "{} threads have only {} connections: raise --connections",
                self.threads, self.connections
            ));
        }
        if self.batch > self.pipeline {
            return Err(format!(
                "--batch {} does not fit --pipeline {}: raise the pipeline",
                self.batch, self.pipeline
            ));
        }
        if self.expiry_s > EXPIRY_S_MAX {
            return Err(format!(
                "--expiry is at most {EXPIRY_S_MAX} seconds (30 days): memcached takes more for a date"
            ));
        }
        if self.duration.is_zero() {
            return Err("--duration is more than nothing".to_owned());
        }
        if self.operations_max == Some(0) {
            return Err("--operations is more than none".to_owned());
        }
        if self.rate_profile.is_some() && self.rate_ops.is_none() {
            return Err("--rate-profile changes a rate: give --rate too".to_owned());
        }
        Ok(())
    }

    fn check_items(&self) -> Result<(), String> {
        if !(1..=ITEMS_MAX).contains(&self.items) {
            return Err(format!("--items is 1 to {ITEMS_MAX}"));
        }
        let keys = self.data().items_max();
        if self.items > keys {
            return Err(format!(
                "keys of {} bytes tell {keys} items apart, not {}: longer keys or fewer items",
                self.dataset.key_bytes, self.items
            ));
        }
        Ok(())
    }

    fn check_workload(&self) -> Result<(), String> {
        if self.mix_percent.is_some() && self.operations().is_none() {
            return Err(
                "--mix changes the operations of a pool: give --workload too, or use --get".to_owned()
            );
        }
        if self.reads_before_writing && self.multiget > 1 {
            return Err("this workload reads each item before it writes it: leave out --multiget".to_owned());
        }
        if self.demand_fill && self.multiget > 1 {
            return Err("--demand-fill takes one key per GET: leave out --multiget".to_owned());
        }
        if self.draw_ahead > DRAW_AHEAD_MAX {
            return Err(format!("--draw-ahead is at most {DRAW_AHEAD_MAX} items of each thread"));
        }
        let is_drawn =
            self.popularity != Popularity::Latest && self.workload.and_then(Workload::pool).is_none();
        if self.draw_ahead > 0 && !is_drawn {
            return Err("--draw-ahead draws by a law that does not change: leave it out".to_owned());
        }
        if self.tcp_writes && self.protocol() != Protocol::MemcachedUdp {
            return Err("--tcp-writes is for memcached+udp://: the others have one way for all".to_owned());
        }
        Ok(())
    }

    fn check_datagrams(&self) -> Result<(), String> {
        if self.protocol() == Protocol::Native {
            return self.check_native();
        }
        const DATAGRAM_BYTES_MAX: usize = 65_507;
        if self.protocol() != Protocol::MemcachedUdp {
            return Ok(());
        }
        if self.batch > 1 {
            return Err(
                "memcached takes one request per datagram: use --multiget instead of --batch".to_owned()
            );
        }
        let DataSet { key_bytes, value_bytes } = self.data().longest();
        let keys = self.multiget * (key_bytes + 1) + 16;
        let writes = self.mix().gets < 1.0 || self.fill || self.demand_fill;
        let set = key_bytes + value_bytes + 64;
        let longest = keys.max(if writes && !self.tcp_writes { set } else { 0 });
        if longest > DATAGRAM_BYTES_MAX {
            return Err(format!(
                "a request of {longest} bytes does not fit a datagram: use memcached:// for it, or \
                 --tcp-writes if it stores"
            ));
        }
        Ok(())
    }

    /// Returns whether this can be done by a port.
    pub(crate) fn check_port(&self, name: &PortName) -> Result<(), String> {
        let threads = self.threads;
        let others = |target: &&Address| target.protocol() != Protocol::Native;
        if let Some(target) = self.targets.iter().find(others) {
            return Err(format!(
                "--port {name} carries the native protocol only: native://HOST:PORT, not {target}"
            ));
        }
        if self.connections != threads {
            return Err(format!(
                "--port {name} gives each of the {threads} threads one connection, its queue: leave out \
                 --connections, and raise --pipeline for more requests in flight"
            ));
        }
        Ok(())
    }

    fn check_native(&self) -> Result<(), String> {
        let operations = self.pipeline * self.multiget;
        if operations > NATIVE_OPERATIONS_MAX {
            return Err(format!(
                "--pipeline times --multiget is {operations}; a native client has at most \
                 {NATIVE_OPERATIONS_MAX} operations in flight"
            ));
        }
        let DataSet { key_bytes, value_bytes } = self.data().longest();
        let request_bytes = key_bytes.next_multiple_of(8) + value_bytes.next_multiple_of(8);
        if request_bytes > NATIVE_ITEM_BYTES_MAX {
            return Err(format!(
                "keys and values of {request_bytes} bytes do not fit a native datagram \
                 ({NATIVE_ITEM_BYTES_MAX} do): use memcached:// for them"
            ));
        }
        if self.adaptive_batch && self.batch > 1 {
            return Err("--batch and --adaptive exclude each other".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(targets: &[&str]) -> Plan {
        Plan::new(targets.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn refused(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan(&["memcached+udp://x"]);
        plan.check().unwrap();
        change(&mut plan);
        plan.check().unwrap_err()
    }

    #[test]
    fn ways_of_reading_are_those_of_a_fabric() {
        let mut plan = plan(&["fabric://127.0.0.1"]);
        plan.reads = Some(crate::plan::Reads::TwoSided);
        plan.check().unwrap();
        plan.targets = vec!["native://127.0.0.1".parse().unwrap()];
        assert!(plan.check().unwrap_err().contains("fabric://"));
    }

    #[test]
    fn impossible_plans_are_refused_with_a_hint() {
        assert!(plan(&[]).check().is_err());
        assert!(plan(&["redis://x", "memcached://x"]).check().is_err());
        assert!(refused(|plan| plan.connections = 0).contains("--connections"));
        assert!(refused(|plan| plan.threads = 2).contains("raise --connections"));
        assert!(refused(|plan| plan.batch = 2).contains("pipeline"));
        assert!(refused(|plan| plan.items = 0).contains("--items"));
        assert!(refused(|plan| plan.dataset.key_bytes = 1).contains("64 items"));
        assert!(refused(|plan| plan.dataset.value_bytes = 70_000).contains("memcached://"));
        assert!(refused(|plan| plan.rate_profile = "spike:3@1+1".parse().ok()).contains("--rate"));
        let both = |plan: &mut Plan| (plan.batch, plan.pipeline) = (2, 2);
        assert!(refused(both).contains("--multiget"));
    }
}
