//! One operation per file, each on a [`crate::writer::Writer`].

mod arithmetic;
mod concatenate;
pub(crate) use concatenate::Side;
mod delete;
mod flush;
pub(crate) mod get;
mod meta_arithmetic;
mod meta_delete;
mod meta_get;
mod meta_store;
pub(crate) use meta_store::Described;
mod store;
mod touch;
