//! The operations: requests and their options, and a file for each operation, on a
//! [`crate::writer::Writer`].

mod concatenate;
mod delete;
mod flush;
pub(crate) mod get;
pub(crate) mod meta;
mod meta_arithmetic;
mod meta_delete;
mod meta_get;
mod meta_store;
mod number;
pub(crate) mod request;
mod store;
mod touch;
mod write;

pub(crate) use concatenate::Side;
pub(crate) use meta_store::Described;
#[cfg(test)]
pub(crate) use store::publish_long;
pub(crate) use store::store_long;
