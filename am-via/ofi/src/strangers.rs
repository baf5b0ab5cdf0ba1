//! Messages without the receiver's key, and where they come from.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Most addresses that are kept.
const ADDRESSES_MAX: usize = 8;

/// The messages that an endpoint has dropped, because they did not have its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strangers {
    /// Number of these messages.
    pub messages: u64,
    /// The other ends of this process's TCP connections when the first of these messages came, without the peers of the endpoint: at most
    /// 8. The library does not tell the sender of a message.
    pub addresses: BTreeSet<IpAddr>,
}

impl Strangers {
    /// Counts a message. The first one looks for its sender.
    #[cold]
    pub(crate) fn note(&mut self, peers: &BTreeSet<IpAddr>) {
        self.messages += 1;
        if self.messages == 1 {
            self.addresses =
                connected().into_iter().filter(|from| !peers.contains(from)).take(ADDRESSES_MAX).collect();
            tracing::warn!(from = %self, "a message without this endpoint's key is dropped");
        }
    }
}

/// Where the messages came from.
impl fmt::Display for Strangers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.addresses.is_empty() {
            return f.write_str("a host of this job");
        }
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at > 0 { " or " } else { "" })?;
        }
        Ok(())
    }
}

/// The IP address in a socket address of the library; `None` if it is of another kind.
pub(crate) fn ip_of(address: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(address.get(..2)?.try_into().ok()?);
    if i32::from(family) == libc::AF_INET {
        Some(IpAddr::V4(<[u8; 4]>::try_from(address.get(4..8)?).ok()?.into()))
    } else if i32::from(family) == libc::AF_INET6 {
        Some(IpAddr::V6(<[u8; 16]>::try_from(address.get(8..24)?).ok()?.into()).to_canonical())
    } else {
        None
    }
}

/// The other ends of this process's TCP connections.
fn connected() -> BTreeSet<IpAddr> {
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let sockets: BTreeSet<u64> =
        files.filter_map(|file| socket(&fs::read_link(file.ok()?.path()).ok()?)).collect();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    texts.iter().flat_map(|text| remotes(text, &sockets)).collect()
}

/// The number of a socket, from its link in `/proc`.
fn socket(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The remote addresses of these sockets in the kernel's table of connections (proc_pid_net(5), /proc/net/tcp).
fn remotes(table: &str, sockets: &BTreeSet<u64>) -> Vec<IpAddr> {
    const REMOTE: usize = 2;
    const INODE: usize = 9;
    let remote = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode: u64 = fields.get(INODE)?.parse().ok()?;
        let address = fields.get(REMOTE)?.split_once(':')?.0;
        sockets.contains(&inode).then(|| address_of(address)).flatten().filter(|ip| !ip.is_unspecified())
    };
    table.lines().skip(1).filter_map(remote).collect()
}

/// An address as the kernel's table prints it: words of 32 bits in the machine's order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_other_ends_of_connections_are_found_and_peers_are_left_out() {
        let listener = TcpListener::bind("127.0.0.77:0").unwrap();
        let link = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, there) = (link.local_addr().unwrap().ip(), link.peer_addr().unwrap().ip());
        assert!(connected().contains(&there), "{:?}", connected());
        let mut strangers = Strangers::default();
        strangers.note(&BTreeSet::from([here]));
        strangers.note(&BTreeSet::new());
        assert_eq!(strangers.messages, 2);
        assert!(strangers.addresses.contains(&there) && !strangers.addresses.contains(&here));
        assert!(strangers.to_string().contains("127.0.0.77"), "{strangers}");
        assert_eq!(Strangers::default().to_string(), "a host of this job");
    }

    #[test]
    fn addresses_are_read_in_the_forms_of_the_kernel_and_of_the_library() {
        let text = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        assert_eq!(address_of(&text([10, 1, 0, 7])), Some(IpAddr::from([10, 1, 0, 7])));
        let mapped = [text([0; 4]), text([0; 4]), text([0, 0, 0xff, 0xff]), text([10, 1, 0, 7])].concat();
        assert_eq!(address_of(&mapped), Some(IpAddr::from([10, 1, 0, 7])));
        assert_eq!(address_of("0"), None);
        let [low, high] = 2_u16.to_ne_bytes();
        assert_eq!(ip_of(&[low, high, 1, 2, 10, 1, 0, 7]), Some(IpAddr::from([10, 1, 0, 7])));
        assert_eq!(ip_of(b"fi_shm://7"), None);
    }
}
