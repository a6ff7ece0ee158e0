//! Limits the connections, or the calls, of each peer address, so that one address cannot take all
//! places of a server.
//!
//! An IPv6 host may use any address of its /64 network, so all addresses of a /64 count as one. An
//! address has an entry only while it has a place, so the total limit also bounds the table.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits of an IPv6 address that name its host within a network.
const HOST_BITS: u32 = 64;

/// The places of all addresses.
#[derive(Clone, Debug)]
pub(crate) struct AddressPlaces {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address_max: usize,
}

/// One place of an address, until it is dropped.
#[derive(Debug)]
pub(crate) struct AddressPlace {
    places: AddressPlaces,
    network: IpAddr,
}

impl AddressPlaces {
    /// At most `address_max` places for each address.
    pub(crate) fn new(address_max: usize) -> Self {
        Self { taken: Arc::default(), address_max }
    }

    /// A place for `peer`, if its address has one left.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<AddressPlace> {
        let network = network(peer);
        let mut taken = self.lock();
        let count = taken.entry(network).or_default();
        // A count of 0 is below any limit, so no entry without a connection remains.
        if *count >= self.address_max {
            return None;
        }
        *count += 1;
        Some(AddressPlace { places: self.clone(), network })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

/// The address under which connections are counted: the /64 network of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_places_and_no_more_entries_than_connections() {
        let places = AddressPlaces::new(2);
        let take = |address: &str| places.take(address.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let second = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let other = take("192.0.2.2").unwrap();
        assert_eq!(places.lock().len(), 2);
        drop(second);
        let again = take("192.0.2.1").unwrap();
        drop((first, other, again));
        assert!(places.lock().is_empty());
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one() {
        let places = AddressPlaces::new(1);
        let take = |address: &str| places.take(address.parse().unwrap());
        let _place = take("2001:db8:1:2::1").unwrap();
        assert!(take("2001:db8:1:2:ffff:ffff:ffff:ffff").is_none());
        let _other = take("2001:db8:1:3::1").unwrap();
        assert_eq!(places.lock().len(), 2);
    }
}
