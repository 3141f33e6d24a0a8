//! Published workloads by name.

use std::fmt;
use std::str::FromStr;

use crate::{Items, Pool, Preset};

/// A published workload; `FromStr` and `Display` are each other's inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// `fb-usr`, `fb-app`, `fb-etc`, `fb-var`, `fb-sys`: operations, lengths and locality of a pool.
    Pool(Pool),
    /// `etc-model`: lengths by the published model; operations and popularity are not part of it.
    EtcModel,
    /// `ycsb-a`, `mica-tiny`, `innercache-zipf-90` and others: a choice of laws.
    Preset(Preset),
}

impl Workload {
    /// Keys and values of the workload.
    pub fn items(self) -> Items {
        match self {
            Self::Pool(pool) => Items::Pool(pool),
            Self::EtcModel => Items::EtcModel,
            Self::Preset(preset) => preset.items_of(),
        }
    }

    pub const fn pool(self) -> Option<Pool> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::EtcModel | Self::Preset(_) => None,
        }
    }

    /// The laws, if it is a choice of them.
    pub const fn preset(self) -> Option<Preset> {
        match self {
            Self::Preset(preset) => Some(preset),
            Self::EtcModel | Self::Pool(_) => None,
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "etc-model" {
            return Ok(Self::EtcModel);
        }
        let preset = Preset::ALL.into_iter().find(|preset| preset.name == text);
        if let Some(preset) = preset {
            return Ok(Self::Preset(preset));
        }
        text.parse().map(Self::Pool).map_err(|_| {
            format!(
                "'{text}' is no workload: ycsb-a, -b, -c, -d or -f; mica-tiny, -small, -large or -xlarge; \
                 fb-usr, -app, -etc, -var or -sys; etc-model; innercache-uniform-50, -latest-90, -zipf-10 \
                 and so on, with -512k for large values"
            )
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => pool.fmt(f),
            Self::EtcModel => f.write_str("etc-model"),
            Self::Preset(preset) => f.write_str(preset.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "fb-usr",
            "fb-app",
            "fb-etc",
            "fb-var",
            "fb-sys",
            "etc-model",
            "ycsb-f",
            "innercache-latest-10-512k",
        ] {
            let workload: Workload = name.parse().unwrap();
            assert_eq!(workload.to_string(), name);
        }
        assert!("etc".parse::<Workload>().unwrap_err().contains("etc-model"));
    }
}
