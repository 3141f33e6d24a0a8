//! Libraries and programs in this build.

use micanite_net::{dpdk, xdp};

use crate::doctor::facts::Built;

/// Lists what the build has found.
pub fn built() -> Built {
    Built {
        xdp: match xdp::IS_BUILT {
            true => Ok(()),
            false => Err("there was no clang".into()),
        },
        dpdk: dpdk::version().ok_or_else(|| "without the feature dpdk".into()),
    }
}
