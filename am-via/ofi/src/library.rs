//! Opening libfabric, and what it offers on this host.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use am_via_os::library;

use crate::sys::{
    DomainAttr, EpAttr, FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_ORDER_SAS, FI_READ, FI_RECV, FI_REMOTE_READ, FI_RM_ENABLED,
    FI_RMA, FI_RX_CQ_DATA, FI_SEND, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_THREAD_DOMAIN, Fabric, FabricAttr,
    Info, RxAttr, TxAttr, VERSION,
};
use crate::{MESSAGE_BYTES_MAX, STREAM_MESSAGE_BYTES_MAX};

/// Why the network cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OfiError {
    /// The library is not installed, or is too old.
    #[error("libfabric.so.1 cannot be used: {why}; install libfabric 1.17 or later (Debian: libfabric1)")]
    NoLibrary {
        /// The loader's text about the error.
        why: String,
    },
    /// No provider offers reliable datagrams in order.
    #[error(
        "libfabric has no provider with reliable, ordered messages{}: `fi_info -t FI_EP_RDM` lists the available ones",
        if .wanted.is_empty() { String::new() } else { format!(" for FI_PROVIDER={}", .wanted) }
    )]
    NoProvider {
        /// What FI_PROVIDER asks for, if it is set.
        wanted: String,
    },
    /// A call failed.
    #[error("libfabric: {doing}: {why} (error {code})")]
    Failed {
        /// The purpose of the call.
        doing: &'static str,
        /// The library's text about the error.
        why: String,
        /// The library's number of the error.
        code: i32,
    },
    /// There is no memory for the buffers.
    #[error("there is no memory for {bytes} bytes of network buffers")]
    NoMemory {
        /// The length that was requested.
        bytes: usize,
    },
}

/// A provider that can carry messages, as [`providers`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// libfabric's name of the provider.
    pub name: String,
    /// The network interface or device.
    pub domain: String,
}

/// The functions that the library exports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    pub(crate) getinfo:
        unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int,
    freeinfo: unsafe extern "C" fn(*mut Info),
    dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(crate) fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

static LIBRARY: OnceLock<Result<Library, OfiError>> = OnceLock::new();

impl Library {
    /// The library, opened by the first call and never closed.
    pub(crate) fn open() -> Result<Self, OfiError> {
        LIBRARY.get_or_init(Self::open_first).clone()
    }

    fn open_first() -> Result<Self, OfiError> {
        let not_usable = |why| OfiError::NoLibrary { why };
        // SAFETY: the library's initialisers run, as those of any library that is linked.
        let library = unsafe { library::Library::open(c"libfabric.so.1") }.map_err(not_usable)?;
        // SAFETY: each symbol is a function of the type that the field has, as <rdma/fabric.h> declares it (`symbol`'s contract).
        unsafe {
            let version: unsafe extern "C" fn() -> u32 = library.symbol(c"fi_version").map_err(not_usable)?;
            let found = version();
            if found < VERSION {
                return Err(not_usable(format!("it is version {}.{}", found >> 16, found & 0xffff)));
            }
            Ok(Self {
                getinfo: library.symbol(c"fi_getinfo").map_err(not_usable)?,
                freeinfo: library.symbol(c"fi_freeinfo").map_err(not_usable)?,
                dupinfo: library.symbol(c"fi_dupinfo").map_err(not_usable)?,
                fabric: library.symbol(c"fi_fabric").map_err(not_usable)?,
                strerror: library.symbol(c"fi_strerror").map_err(not_usable)?,
            })
        }
    }

    /// The outcome of a call that returns 0, or an error as a negative number.
    pub(crate) fn check(self, doing: &'static str, code: c_int) -> Result<(), OfiError> {
        if code == 0 { Ok(()) } else { Err(self.failed(doing, -code)) }
    }

    /// The error `code`, a positive number.
    #[cold]
    pub(crate) fn failed(self, doing: &'static str, code: c_int) -> OfiError {
        // SAFETY: any number is allowed; the answer is a static C string, or one that stays until the next call of this thread.
        let words = unsafe { (self.strerror)(code) };
        // SAFETY: a C string or null (above), read at once.
        let why = unsafe { library::text(words) }.unwrap_or_default();
        OfiError::Failed { doing, why, code }
    }
}

/// A list of `fi_info`, freed on drop.
#[derive(Debug)]
pub(crate) struct Infos {
    library: Library,
    first: NonNull<Info>,
}

impl Drop for Infos {
    fn drop(&mut self) {
        // SAFETY: the list came from `fi_getinfo` or `fi_dupinfo`, and goes back once.
        unsafe { (self.library.freeinfo)(self.first.as_ptr()) };
    }
}

impl Infos {
    /// The providers that can carry messages between hosts, the library's best first: only those that can read memory of peers too, if
    /// there are any.
    pub(crate) fn find(library: Library) -> Result<Self, OfiError> {
        const MESSAGES: u64 = FI_MSG | FI_SEND | FI_RECV;
        Self::with(library, MESSAGES | FI_RMA | FI_READ | FI_REMOTE_READ)
            .or_else(|_| Self::with(library, MESSAGES))
    }

    fn with(library: Library, caps: u64) -> Result<Self, OfiError> {
        // SAFETY: a null argument makes an empty structure, all its parts included.
        let hints = unsafe { (library.dupinfo)(ptr::null()) };
        let hints = NonNull::new(hints).ok_or(OfiError::NoMemory { bytes: size_of::<Info>() })?;
        let hints = Self { library, first: hints };
        // SAFETY: just made, not shared, and complete (fi_allocinfo(3)): the five parts are there until the list is given back.
        unsafe {
            let info = hints.first.as_ptr();
            (*info).caps = caps;
            // FI_RX_CQ_DATA: a word beside a message uses up a receive, as all messages do here.
            (*info).mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
            let (tx, rx): (&mut TxAttr, &mut RxAttr) = (&mut *(*info).tx_attr, &mut *(*info).rx_attr);
            (tx.msg_order, rx.msg_order) = (FI_ORDER_SAS, FI_ORDER_SAS);
            let ep: &mut EpAttr = &mut *(*info).ep_attr;
            (ep.kind, ep.max_msg_size) = (FI_EP_RDM, MESSAGE_BYTES_MAX);
            let domain: &mut DomainAttr = &mut *(*info).domain_attr;
            domain.mr_mode =
                FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
            domain.threading = FI_THREAD_DOMAIN;
            domain.resource_mgmt = FI_RM_ENABLED;
            domain.cq_data_size = 4;
        }
        let mut found = ptr::null_mut();
        // SAFETY: no node and no service, live hints, and a variable for the answer.
        let code = unsafe {
            (library.getinfo)(VERSION, ptr::null(), ptr::null(), 0, hints.first.as_ptr(), &mut found)
        };
        match NonNull::new(found) {
            Some(first) if code == 0 => Ok(Self { library, first }),
            _ => Err(OfiError::NoProvider { wanted: wanted().unwrap_or_default() }),
        }
    }

    fn iter(&self) -> impl Iterator<Item = NonNull<Info>> {
        // SAFETY: a list that ends with null, and is live as long as `self`.
        std::iter::successors(Some(self.first), |info| NonNull::new(unsafe { info.as_ref() }.next))
    }

    /// The element to use: the first one whose address other hosts can reach, or else the first one. Elements of [`NOT_BY_THEMSELVES`] are
    /// left out, unless the user names a provider. `None` if no element remains.
    pub(crate) fn best(&self) -> Option<NonNull<Info>> {
        let is_asked_for = wanted().is_some();
        let candidates = || {
            self.iter().filter(move |&info| {
                let name = provider(info).name;
                is_asked_for
                    || !NOT_BY_THEMSELVES.iter().any(|word| name.split(';').any(|part| part == *word))
            })
        };
        candidates().find(|&info| crosses_hosts(info)).or_else(|| candidates().next())
    }
}

/// Providers that are used only if FI_PROVIDER names them: one that stays within a host, one that loses messages, and those that the
/// library's authors advise against.
const NOT_BY_THEMSELVES: [&str; 5] = ["shm", "udp", "sockets", "net", "ofi_rxd"];

fn wanted() -> Option<String> {
    std::env::var("FI_PROVIDER").ok().filter(|name| !name.is_empty())
}

/// Whether other hosts can reach the source address: it is neither a loopback nor a link-local address.
fn crosses_hosts(info: NonNull<Info>) -> bool {
    // SAFETY: an element of a live list (`Infos::iter`).
    let info = unsafe { info.as_ref() };
    if info.src_addr.is_null() || info.src_addrlen == 0 {
        return true;
    }
    // SAFETY: `src_addrlen` bytes that belong to the element.
    let address = unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) };
    match info.addr_format {
        FI_SOCKADDR_IN => address.get(4) != Some(&127),
        FI_SOCKADDR_IN6 => address.get(8..24).is_some_and(|ip| {
            let is_loopback = ip[..15].iter().all(|&byte| byte == 0) && ip[15] == 1;
            !is_loopback && (ip[0], ip[1] & 0xc0) != (0xfe, 0x80)
        }),
        _ => true,
    }
}

/// Longest message of an element, in bytes: a multiple of a cache line.
pub(crate) fn message_bytes_max(info: NonNull<Info>) -> usize {
    // SAFETY: an element of a live list with its parts.
    let offered = unsafe { (*info.as_ref().ep_attr).max_msg_size };
    // `net` of version 1.17 is `tcp` of version 1.18 and later. A provider that is layered over them has its own rules for long messages.
    let is_stream = ["tcp", "net"].contains(&&*provider(info).name);
    if is_stream && offered >= STREAM_MESSAGE_BYTES_MAX {
        STREAM_MESSAGE_BYTES_MAX
    } else {
        MESSAGE_BYTES_MAX
    }
}

/// Name and domain of an element.
pub(crate) fn provider(info: NonNull<Info>) -> Provider {
    // SAFETY: an element of a live list with its parts; names are C strings or null.
    unsafe {
        let info = info.as_ref();
        let name = |at: *mut c_char| library::text(at).unwrap_or_default();
        Provider { name: name((*info.fabric_attr).prov_name), domain: name((*info.domain_attr).name) }
    }
}

/// The provider that an endpoint would use, and the names of all that could carry messages.
///
/// # Errors
/// There is no library, or no provider.
pub fn providers() -> Result<(Provider, Vec<String>), OfiError> {
    let infos = Infos::find(Library::open()?)?;
    let mut names: Vec<String> = Vec::new();
    for name in infos.iter().map(|info| provider(info).name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let best = infos.best().ok_or_else(|| OfiError::NoProvider { wanted: wanted().unwrap_or_default() })?;
    Ok((provider(best), names))
}
