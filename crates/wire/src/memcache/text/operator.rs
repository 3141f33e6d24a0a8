//! Names of commands for operators. The server parses their arguments.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `cache_memlimit`.
    CacheMemlimit,
    /// `lru`.
    Lru,
    /// `lru_crawler`.
    LruCrawler,
    /// `slabs`.
    Slabs,
    /// `watch`.
    Watch,
}

impl Operator {
    /// Returns the command that `verb` names.
    pub(super) fn of(verb: &[u8]) -> Option<Self> {
        Some(match verb {
            b"cache_memlimit" => Self::CacheMemlimit,
            b"lru" => Self::Lru,
            b"lru_crawler" => Self::LruCrawler,
            b"slabs" => Self::Slabs,
            b"watch" => Self::Watch,
            _ => return None,
        })
    }
}
