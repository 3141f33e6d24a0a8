//! The client: GETs as frames, writes over TCP, checks of the replies, and counts.

pub(crate) mod client;
pub(crate) mod replies;
pub(crate) mod requests;
pub(crate) mod tally;
pub(crate) mod writers;
