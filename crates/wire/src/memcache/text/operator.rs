//! Commands for operators: told apart here, read by who serves them.

/// Which of them.
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
    /// The one that a line begins with.
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
