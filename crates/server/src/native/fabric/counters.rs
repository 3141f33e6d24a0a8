//! Counters of a worker's fabric port.

use crate::telemetry::table::Counter;
use crate::telemetry::table::group::counter_group;

counter_group! {
    /// The counters of a worker's fabric port.
    FabricCounters {
        /// Clients now.
        clients,
        /// Buffers of clients that went, now.
        buffers_frozen,
        /// Buffers that were registered.
        registrations_made,
        /// Clients that got the buffer of one that went.
        registrations_saved,
        /// Clients that said hello and were let in.
        hellos,
        /// Clients without a login, or with a wrong one.
        hellos_unproven,
        /// Clients that found no buffer.
        hellos_without_buffer,
        /// Clients that went, or were silent for too long.
        clients_gone,
        /// Messages that came from clients, hellos and histories among them.
        messages_received,
        /// Messages sent, hello replies and pushes among them.
        messages_sent,
        /// Transfers that failed.
        transfers_failed,
        /// Messages of pushes.
        pushes,
        /// Entries in them.
        entries_pushed,
        /// Entries that were not pushed, because the client took none.
        entries_dropped,
        /// Bytes of pushes.
        bytes_pushed,
        /// Bytes of the same pushes to each client.
        bytes_of_broadcasts,
        /// Messages of histories.
        histories,
        /// Items in them.
        accesses,
        /// Endpoints that were given up, because a call of the provider stands.
        endpoints_given_up,
    }
}
