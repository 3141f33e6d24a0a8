//! The balancing of partitions.

use std::str::FromStr;

/// The party that changes the modes and owners of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// A person.
    #[default]
    Off,
    /// The server, by measured load.
    Auto,
}

impl Balance {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Off];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
        }
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|balance| balance.name() == name);
        found.ok_or_else(|| format!("'{name}' is neither auto nor off"))
    }
}
