//! What this program was built with.

use super::facts::Built;

/// What the build has found.
pub fn built() -> Built {
    Built {
        xdp: Err("not built in".into()),
        dpdk: Err("not built in".into()),
    }
}
