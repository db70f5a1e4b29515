//! Classifies addresses as public or not. Everything outside the public internet is refused, whatever name leads to it.
//! A name can be pointed at any address by whoever runs its DNS server, and machines of the host's own network may
//! trust the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns `true` for an address of the public internet. IPv6 forms that embed an IPv4 address never count as public,
/// because the network decides where they lead.
#[must_use]
pub(crate) fn is_public(address: IpAddr) -> bool {
    let bits = bits(address);
    match address {
        IpAddr::V4(_) => !NOT_PUBLIC_V4.iter().any(|block| block.holds(bits)),
        IpAddr::V6(_) => PUBLIC_V6.holds(bits) && !NOT_PUBLIC_V6.iter().any(|block| block.holds(bits)),
    }
}

/// An address of this machine with the size of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub address: IpAddr,
    /// The length of the network prefix in bits.
    pub prefix: u32,
}

/// Returns `true` if an address belongs to this machine or to one of its networks, public or not. Services there may
/// trust every request from this machine.
///
/// A prefix shorter than 8 bits (IPv4) or 32 bits (IPv6) cannot be a single network, so only the address itself counts.
#[must_use]
pub(crate) fn is_local(address: IpAddr, interfaces: &[Interface]) -> bool {
    let (shortest, all) = if address.is_ipv4() { (8, 32) } else { (32, 128) };
    interfaces.iter().filter(|own| own.address.is_ipv4() == address.is_ipv4()).any(|own| {
        let length = if own.prefix < shortest { all } else { own.prefix.min(all) };
        Block { first: bits(own.address), length }.holds(bits(address))
    })
}

/// Asks the kernel for this machine's addresses.
///
/// # Errors
///
/// Fails if `getifaddrs` does.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let all = nix::ifaddrs::getifaddrs()?;
    let read = all.filter_map(|found| {
        let (address, mask) = (found.address?, found.netmask);
        if let Some(address) = address.as_sockaddr_in() {
            let mask = mask.as_ref().and_then(|mask| mask.as_sockaddr_in());
            let prefix = mask.map_or(32, |mask| mask.ip().to_bits().leading_ones());
            return Some(Interface { address: address.ip().into(), prefix });
        }
        let address = address.as_sockaddr_in6()?;
        let mask = mask.as_ref().and_then(|mask| mask.as_sockaddr_in6());
        let prefix = mask.map_or(128, |mask| mask.ip().to_bits().leading_ones());
        Some(Interface { address: address.ip().into(), prefix })
    });
    Ok(read.collect())
}

/// A block of addresses of one family that share their first `length` bits.
struct Block {
    first: u128,
    length: u32,
}

impl Block {
    const fn holds(&self, address: u128) -> bool {
        (address ^ self.first) >> (u128::BITS - self.length) == 0
    }
}

/// Returns an address as a number. The bits of an IPv4 address are the highest, so that prefixes count from the top.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u32) -> Block {
    Block { first: (Ipv4Addr::new(a, b, c, d).to_bits() as u128) << 96, length }
}

const fn v6(first: u16, second: u16, length: u32) -> Block {
    Block { first: Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0).to_bits(), length }
}

const NOT_PUBLIC_V4: [Block; 16] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    // Carrier-grade address translation. Alibaba's metadata service is in it as well.
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    // Azure's metadata service, which has an address in a public block.
    v4(168, 63, 129, 16, 32),
    // Link-local, with the metadata services of most clouds.
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    // Relays into 6to4.
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    // Multicast and everything above it: reserved addresses and broadcast.
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

/// The block of global unicast addresses. Loopback, mapped IPv4, NAT64, unique local, link-local and multicast
/// addresses are outside it.
const PUBLIC_V6: Block = v6(0x2000, 0, 3);

const NOT_PUBLIC_V6: [Block; 4] = [
    // Special-purpose addresses, Teredo among them.
    v6(0x2001, 0, 23),
    v6(0x2001, 0x0db8, 32),
    // 6to4, which embeds an IPv4 address.
    v6(0x2002, 0, 16),
    v6(0x3fff, 0, 20),
];

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
