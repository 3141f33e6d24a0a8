//! Builds without libfabric.
#![cfg(not(feature = "libfabric"))]

use micanite_fabric::{Endpoint, EndpointOptions, FabricAddress, PROVIDERS, version};

/// Proves that a caller that asks for a fabric learns the package and the feature.
#[test]
fn what_is_missing_is_named() {
    let address: FabricAddress = "net;ofi_rxm,127.0.0.1:0".parse().unwrap();
    let opened = Endpoint::listen(&address, &EndpointOptions::default()).unwrap_err().to_string();
    let probed = PROVIDERS.iter().map(|provider| provider.probe().unwrap_err());
    for error in probed.chain([opened, version().unwrap_err()]) {
        assert!(error.contains("libfabric-dev") && error.contains("--features libfabric"), "{error}");
    }
}
