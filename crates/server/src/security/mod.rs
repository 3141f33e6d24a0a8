//! Users and passwords, and certificates that are read again while the server runs.

pub mod auth;
pub mod tls;
