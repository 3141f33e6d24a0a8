//! Libraries and programs in this build.

use micanite_fabric::PROVIDERS;
use micanite_net::{dpdk, xdp};

use crate::doctor::facts::{Built, Fabric, NoFabric};

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

fn fabric() -> Result<Fabric, NoFabric> {
    let version = micanite_fabric::version().map_err(|error| match micanite_fabric::IS_BUILT {
        true => NoFabric::NotLoaded(error),
        false => NoFabric::NotBuilt,
    })?;
    let providers = PROVIDERS.iter().map(|provider| (provider, provider.probe())).collect();
    Ok(Fabric { version, providers })
}
