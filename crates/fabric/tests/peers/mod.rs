//! Many clients, one after the other.

use micanite_fabric::Provider;

use crate::client::{Client, Server};

const ADDRESSES: u32 = 100;
/// Sets another number, for longer runs.
const ADDRESSES_VARIABLE: &str = "MICANITE_FABRIC_ADDRESSES";
/// Fewer than clients come, so that places of forgotten ones are used again.
const PEERS_MAX: u32 = 64;

/// Proves that an endpoint outlives any number of clients that greet and leave, while one stays.
pub fn addresses_come_and_go(provider: &'static Provider) {
    let addresses = std::env::var(ADDRESSES_VARIABLE).map_or(ADDRESSES, |text| text.parse().unwrap());
    let server = Server::with_peers(provider, PEERS_MAX);
    let mut stays = Client::connect(&server);
    for number in 0..addresses {
        let mut client = Client::connect(&server);
        let message = number.to_le_bytes();
        assert_eq!(client.ask(&message), message);
        assert_eq!(client.ask(b"forget"), b"forgotten");
        if number % 64 == 0 {
            assert_eq!(stays.ask(&message), message);
        }
    }
    assert_eq!(stays.ask(b"last"), b"last");
}
