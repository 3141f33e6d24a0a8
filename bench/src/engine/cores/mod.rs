//! Several cores: access modes, routes that change, and writers beside each other.

pub(crate) mod large_writer;
pub(crate) mod mode_grid;
pub(crate) mod modes;
pub(crate) mod scaling;
pub(crate) mod switches;
pub(crate) mod team;
pub(crate) mod threads;
pub(crate) mod write_path;
