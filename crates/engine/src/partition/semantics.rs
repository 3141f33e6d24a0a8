//! Cache or store.

/// Behaviour when memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// Items are evicted (MICA's cache mode: circular logs).
    #[default]
    Cache,
    /// An acknowledged item stays until it is deleted or expires; new items are refused (MICA's
    /// store mode: segregated fits).
    Store,
}

impl Semantics {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Store => "store",
        }
    }
}

impl std::str::FromStr for Semantics {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Cache, Self::Store]
            .into_iter()
            .find(|semantics| semantics.name() == name)
            .ok_or_else(|| format!("unknown semantics '{name}': cache or store"))
    }
}
