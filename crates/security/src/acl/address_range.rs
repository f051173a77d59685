//! Ranges of addresses as hosts of entries (from metadata.version 4.4-IV1 on).

use std::net::{AddrParseError, IpAddr};
use std::num::ParseIntError;
use std::str::FromStr;

/// All addresses with the same leading bits, such as `10.1.0.0/16` or `2001:db8::/32`. Any address
/// of the range may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    /// Number of the leading bits that count.
    bits: u32,
}

/// The reason why a text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRangeError {
    /// The text has no slash.
    #[error("it has no prefix length")]
    NoLength,
    /// The part before the slash is no address.
    #[error(transparent)]
    Address(#[from] AddrParseError),
    /// The part after the slash is no number.
    #[error("the prefix length is not a number: {0}")]
    Length(#[from] ParseIntError),
    /// The address has fewer bits.
    #[error("the prefix length {bits} is above {most}")]
    TooLong {
        /// Prefix length of the text.
        bits: u32,
        /// Bits of the address.
        most: u32,
    },
}

impl AddressRange {
    /// True if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(u32::BITS - self.bits).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(u128::BITS - self.bits).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let (address, bits) = text.split_once('/').ok_or(AddressRangeError::NoLength)?;
        let (address, bits) = (address.parse::<IpAddr>()?, bits.parse()?);
        let most = if address.is_ipv4() { u32::BITS } else { u128::BITS };
        if bits > most { Err(AddressRangeError::TooLong { bits, most }) } else { Ok(Self { address, bits }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_addresses_with_their_leading_bits() {
        for (range, inside, outside) in [
            ("10.1.2.3/16", &["10.1.0.0", "10.1.255.255"][..], &["10.2.0.0", "::ffff:10.1.0.0"][..]),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::1"]),
            ("127.0.0.1/32", &["127.0.0.1"], &["127.0.0.2"]),
            ("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::1", "10.0.0.1"]),
            ("::/0", &["::1"], &["127.0.0.1"]),
            ("::1/128", &["::1"], &["::2"]),
        ] {
            let range: AddressRange = range.parse().unwrap();
            let contains = |text: &&str| range.contains(text.parse().unwrap());
            assert!(inside.iter().all(contains), "{range:?}");
            assert!(!outside.iter().any(contains), "{range:?}");
        }
    }

    #[test]
    fn invalid_address_ranges_are_refused() {
        let parse = |text: &str| text.parse::<AddressRange>();
        assert_eq!(parse("10.0.0.1"), Err(AddressRangeError::NoLength));
        assert_eq!(parse("10.0.0.1/33"), Err(AddressRangeError::TooLong { bits: 33, most: 32 }));
        assert_eq!(parse("::1/129"), Err(AddressRangeError::TooLong { bits: 129, most: 128 }));
        assert!(matches!(parse("10.0.0/8"), Err(AddressRangeError::Address(_))));
        assert!(matches!(parse("10.0.0.0/"), Err(AddressRangeError::Length(_))));
        assert!(matches!(parse("10.0.0.0/-1"), Err(AddressRangeError::Length(_))));
    }
}
