//! Rounds over datagrams that are written here, without sockets.

mod fabric;
mod frames;
mod kernel;
mod lengths;
mod operations;
mod order;
mod owners;
mod ports;
mod turns;
mod twin;

pub(super) use micanite_wire::native::{Opcode, Status};

pub(super) use super::testing::{Answer, Arrival, NativeBench, Requester, check};
