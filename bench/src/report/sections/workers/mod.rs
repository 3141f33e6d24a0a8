//! Workers beside each other: access modes, and balance of their load.

pub(super) mod balance;
pub(super) mod modes;
