//! The option `--numa`.

use std::str::FromStr;

/// The choice of NUMA nodes for the memory of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numa {
    /// Those of their owners.
    #[default]
    Bind,
    /// Those of the threads that touch it first.
    Off,
}

impl Numa {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Off => "off",
        }
    }
}

impl FromStr for Numa {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "bind" => Ok(Self::Bind),
            "off" => Ok(Self::Off),
            _ => Err(format!("'{name}' is neither bind nor off")),
        }
    }
}
