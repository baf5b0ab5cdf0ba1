//! Network addresses (`VIP_NET_ADDRESS`): a NIC, and a discriminator that distinguishes the endpoints at the NIC.

use std::fmt;

use crate::error::VipError;
use am_via_nic::device::Endpoint;

pub(super) const DISCRIMINATOR_BYTES_MAX: usize = 16;

/// Distinguishes the endpoints at one NIC: a few bytes on which the two programs agree. By default it is empty.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Discriminator {
    len: u8,
    bytes: [u8; DISCRIMINATOR_BYTES_MAX],
}

impl Discriminator {
    /// A discriminator with these bytes.
    ///
    /// # Errors
    /// [`VipError::InvalidParameter`]: more than 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, VipError> {
        let mut padded = [0; DISCRIMINATOR_BYTES_MAX];
        let too_long = VipError::InvalidParameter {
            what: "the number of bytes of a discriminator",
            given: bytes.len() as u64,
            least: 0,
            most: DISCRIMINATOR_BYTES_MAX as u64,
        };
        padded.get_mut(..bytes.len()).ok_or(too_long)?.copy_from_slice(bytes);
        // Checked: at most 16.
        let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        Ok(Self { len, bytes: padded })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

impl fmt::Debug for Discriminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// The destination of a connection request: a NIC, and an endpoint there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetAddress {
    /// The NIC.
    pub host: Endpoint,
    /// The endpoint.
    pub discriminator: Discriminator,
}

impl NetAddress {
    /// Endpoint `discriminator` at NIC `host`.
    #[must_use]
    pub fn new(host: Endpoint, discriminator: Discriminator) -> Self {
        Self { host, discriminator }
    }
}

impl From<Endpoint> for NetAddress {
    /// The endpoint without a discriminator.
    fn from(host: Endpoint) -> Self {
        Self::new(host, Discriminator::default())
    }
}
