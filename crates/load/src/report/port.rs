//! Part of a report about a port around the kernel.

use micanite_client::{BypassPort, PortCounters};
use serde::Serialize;

/// Counts of a port around the kernel, in the whole run, warm-up included.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    pub name: String,
    /// Description of what was opened.
    pub description: String,
    /// The UDP port of the first thread.
    pub first_udp_port: u16,
    pub received_frames: u64,
    /// Datagrams that were sent in a frame of their own: all that a client sends.
    pub copied_frames: u64,
    /// Datagrams that were sent in the frame that they answer.
    pub reused_frames: u64,
    /// Frames that were lost on arrival for want of room.
    pub lost_frames: u64,
    /// Frames that could not be sent.
    pub unsent_frames: u64,
    /// Frames that were dropped: wrong lengths, checksums or sources, fragments, options.
    pub dropped_frames: u64,
    /// Datagrams that had to wait for a frame.
    pub waits_for_frames: u64,
    /// Datagrams that went by way of the kernel, to find the next hop.
    pub sent_by_kernel: u64,
    /// Replies that the kernel got in place of the port.
    pub received_by_kernel: u64,
    /// Replies that came to the queue of another thread and were passed on.
    pub passed_on: u64,
    /// Replies for another thread for which there was no room.
    pub passed_lost: u64,
}

impl PortReport {
    pub(crate) fn new(port: &BypassPort, counters: &PortCounters) -> Self {
        Self {
            name: port.name().to_string(),
            description: port.description().to_owned(),
            first_udp_port: port.first_port(),
            received_frames: counters.received_frames,
            copied_frames: counters.copied_frames,
            reused_frames: counters.reused_frames,
            lost_frames: counters.lost_frames,
            unsent_frames: counters.unsent_frames,
            dropped_frames: counters.dropped_frames,
            waits_for_frames: counters.no_frame,
            sent_by_kernel: counters.sent_by_kernel,
            received_by_kernel: counters.received_by_kernel,
            passed_on: counters.passed_on,
            passed_lost: counters.passed_lost,
        }
    }

    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{} received, {} copied, {} reused",
            self.received_frames, self.copied_frames, self.reused_frames
        );
        for (number, what) in [
            (self.lost_frames, "lost on arrival"),
            (self.unsent_frames, "not sent"),
            (self.dropped_frames, "dropped"),
            (self.waits_for_frames, "waits for a frame"),
            (self.sent_by_kernel, "sent by the kernel"),
            (self.received_by_kernel, "received by the kernel"),
            (self.passed_on, "passed on to another thread"),
            (self.passed_lost, "lost in passing on"),
        ] {
            if number > 0 {
                line += &format!(", {number} {what}");
            }
        }
        line
    }

    /// Warnings to whoever reads the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let how = match self.name.strip_prefix("xdp:") {
            Some(interface) => format!(
                "on a NIC, ethtool -N {interface} flow-type udp4 dst-port {} action 0, and so on for each \
                 thread (--port-source keeps the ports)",
                self.first_udp_port
            ),
            None => "this device has no flow rules".to_owned(),
        };
        if self.passed_on + self.passed_lost > 0 {
            warnings.push(format!(
                "{} replies came to the queue of another thread and cost more than they should: {how}",
                self.passed_on + self.passed_lost
            ));
        }
        if self.received_by_kernel > self.received_frames / 100 {
            warnings.push(format!(
                "{} replies came by way of the kernel, to queues that no thread has: {how}; or as many \
                 threads as queues (ethtool -l)",
                self.received_by_kernel
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str) -> PortReport {
        PortReport {
            name: name.to_owned(),
            description: String::new(),
            first_udp_port: 50_000,
            received_frames: 7,
            copied_frames: 8,
            reused_frames: 0,
            lost_frames: 0,
            unsent_frames: 1,
            dropped_frames: 0,
            waits_for_frames: 0,
            sent_by_kernel: 0,
            received_by_kernel: 0,
            passed_on: 0,
            passed_lost: 0,
        }
    }

    #[test]
    fn warnings_name_frames_that_went_wrong() {
        let mut report = report("xdp:eth0");
        assert_eq!(report.line(), "7 received, 8 copied, 0 reused, 1 not sent");
        assert!(report.warnings().is_empty());
        (report.passed_on, report.received_by_kernel) = (3, 4);
        let warnings = report.warnings();
        assert_eq!(warnings.len(), 2);
        let rule = "ethtool -N eth0 flow-type udp4 dst-port 50000 action 0";
        assert!(warnings.iter().all(|warning| warning.contains(rule)));
    }
}
