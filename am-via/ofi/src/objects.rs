//! Objects of libfabric, closed in the reverse order of their creation, and registrations of memory.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use crate::OfiError;
use crate::key::Key;
use crate::library::Library;
use crate::sys::{Domain, Ep, FI_ENABLE, Fid, Mr};

/// The address of a peer, as an endpoint knows it after [`Endpoint::add_peer`](crate::Endpoint::add_peer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// The library's number of the peer.
    pub(crate) number: u64,
    /// The peer's key: it drops messages without it.
    pub(crate) key: Key,
}

/// The library's objects, closed in the reverse order of their creation.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// In the order of their creation.
    made: Vec<NonNull<Fid>>,
}

/// Closes an object of the library.
pub(crate) fn close(fid: NonNull<Fid>) {
    // SAFETY: every object begins with its `fid` (`sys`), was made by the library, and is closed once: `Objects` and `Endpoint::lent`
    // forget what they close, and `Reads::register` returns no object that it closes.
    let code = unsafe { ((*(*fid.as_ptr()).ops).close)(fid.as_ptr()) };
    if code != 0 {
        tracing::debug!(code, "an object of libfabric was not closed");
    }
}

impl Objects {
    /// Keeps an object that the library has made, and returns it.
    pub(crate) fn keep<T>(&mut self, object: *mut T) -> NonNull<T> {
        let object = NonNull::new(object).expect("libfabric returned success without an object");
        self.made.push(object.cast());
        object
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.made.drain(..).rev().for_each(close);
    }
}

/// Registers memory for `access` with a key. A provider that chooses its keys itself ignores `key`.
pub(crate) fn register(
    library: Library,
    domain: NonNull<Domain>,
    (at, len): (*const c_void, usize),
    access: u64,
    key: u64,
) -> Result<NonNull<Mr>, OfiError> {
    let mut mr: *mut Mr = ptr::null_mut();
    // SAFETY: a live domain; memory that outlives the registration: buffers are freed after the endpoint's objects are closed, and what is
    // lent is kept alive by its owner until `end_lend` (`Endpoint::lend`'s contract).
    let code = unsafe {
        let reg = (*domain.as_ref().mr).reg;
        reg(domain.as_ptr().cast(), at, len, access, 0, key, 0, &mut mr, ptr::null_mut())
    };
    library.check("registering memory", code)?;
    NonNull::new(mr).ok_or_else(|| library.failed("registering memory", libc::EINVAL))
}

/// Binds a registration to the endpoint, as some providers require (`FI_MR_ENDPOINT`), and enables it.
pub(crate) fn bind_memory(library: Library, mr: NonNull<Mr>, ep: NonNull<Ep>) -> Result<(), OfiError> {
    // SAFETY: a live registration, and a live, enabled endpoint of its domain; the second command takes no argument.
    let code = unsafe {
        let ops = &*mr.as_ref().fid.ops;
        match (ops.bind)(mr.as_ptr().cast(), ep.as_ptr().cast(), 0) {
            0 => (ops.control)(mr.as_ptr().cast(), FI_ENABLE, ptr::null_mut()),
            code => code,
        }
    };
    library.check("binding buffers", code)
}

/// The descriptor that the library requires with each use of registered memory.
pub(crate) fn descriptor(mr: NonNull<Mr>) -> *mut c_void {
    // SAFETY: a live registration.
    unsafe { mr.as_ref() }.mem_desc
}

pub(crate) fn positive(code: isize) -> c_int {
    c_int::try_from(-code).unwrap_or(libc::EIO)
}
