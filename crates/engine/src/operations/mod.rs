//! One operation per file, each on a [`crate::writer::Writer`].

mod arithmetic;
mod concatenate;
pub(crate) use concatenate::Side;
mod delete;
mod flush;
pub(crate) mod get;
mod store;
mod touch;
