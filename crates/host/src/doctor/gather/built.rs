//! Libraries and programs in this build.

use micanite_fabric::PROVIDERS;
use micanite_net::{dpdk, xdp};

use crate::doctor::facts::{Built, Fabric};

/// Lists what the build has found.
pub fn built() -> Built {
    Built {
        xdp: match xdp::IS_BUILT {
            true => Ok(()),
            false => Err("there was no clang".into()),
        },
        dpdk: dpdk::version().ok_or_else(|| "without the feature dpdk".into()),
        fabric: fabric(),
    }
}

fn fabric() -> Result<Fabric, String> {
    let version = micanite_fabric::version().map_err(|_| "without the feature libfabric")?;
    let providers = PROVIDERS.iter().map(|provider| (provider, provider.probe())).collect();
    Ok(Fabric { version, providers })
}
