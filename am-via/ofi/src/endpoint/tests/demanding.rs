//! A provider that asks for what real network cards ask for, over any other provider: local buffers need the descriptor of their
//! registration (FI_MR_LOCAL), the provider chooses the keys (FI_MR_PROV_KEY), peers name memory by its address (FI_MR_VIRT_ADDR), and a
//! registration is bound to its endpoint before its use (FI_MR_ENDPOINT). It carries 32 bits beside a message (`cq_data_size`). A call
//! that forgets one of these is noted as a fault.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::library::Library;
use crate::sys::{
    Domain, DomainOps, Ep, FI_ENABLE, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_RECV, FI_REMOTE_READ, FI_SEND, Fabric, FabricAttr,
    FabricOps, Fid, FidOps, Info, Mr, MrOps, MsgOps, RmaOps,
};

const DEMANDS: c_int = FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT | FI_MR_ALLOCATED;
/// The first key, which no caller would choose.
const FIRST_KEY: u64 = 0x5eed_0000_0000_0001;

/// A registration that the provider below knows by its own descriptor and key.
#[derive(Clone, Copy)]
struct Known {
    mr: *mut Mr,
    descriptor: usize,
    key: u64,
    at: usize,
    len: usize,
    access: u64,
    is_bound: bool,
    is_enabled: bool,
    real_descriptor: *mut c_void,
    real_key: u64,
}

/// The functions of the provider below, and what this one has seen.
struct Seen {
    library: Option<Library>,
    mr_mode: c_int,
    domain: *const FabricOps,
    endpoint: *const DomainOps,
    reg: *const MrOps,
    msg: *const MsgOps,
    rma: *const RmaOps,
    mr: *const FidOps,
    known: Vec<Known>,
    uses: usize,
    faults: Vec<String>,
}

thread_local! {
    static SEEN: RefCell<Seen> = const {
        RefCell::new(Seen {
            library: None,
            mr_mode: 0,
            domain: ptr::null(),
            endpoint: ptr::null(),
            reg: ptr::null(),
            msg: ptr::null(),
            rma: ptr::null(),
            mr: ptr::null(),
            known: Vec::new(),
            uses: 0,
            faults: Vec::new(),
        })
    };
}

fn seen<R>(what: impl FnOnce(&mut Seen) -> R) -> R {
    SEEN.with_borrow_mut(what)
}

/// Number of local buffers that were used with their descriptors, and the faults.
pub(super) fn report() -> (usize, Vec<String>) {
    seen(|seen| (seen.uses, seen.faults.clone()))
}

/// The library, with this provider over the one that it would choose.
pub(super) fn library(library: Library) -> Library {
    seen(|seen| seen.library = Some(library));
    let mut library = library;
    (library.getinfo, library.fabric) = (getinfo, fabric);
    library
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    infos: *mut *mut Info,
) -> c_int {
    let library = seen(|seen| seen.library).expect("the test has set it");
    // SAFETY: the caller's arguments, passed on. What comes back is a list of infos with their parts, which nothing else uses yet.
    unsafe {
        let code = (library.getinfo)(version, node, service, flags, hints, infos);
        let mut info = if code == 0 { *infos } else { ptr::null_mut() };
        while !info.is_null() {
            let mode = &mut (*(*info).domain_attr).mr_mode;
            seen(|seen| seen.mr_mode = *mode);
            *mode = DEMANDS;
            (*(*info).domain_attr).cq_data_size = 4;
            info = (*info).next;
        }
        code
    }
}

/// Replaces the table of functions of a live object with a copy in which the functions `$name` are replaced. `$type` describes the
/// beginning of the table; the field `$old` of [`Seen`] keeps the address of the real table. The copy is never freed.
macro_rules! replace {
    ($table:expr, $old:ident, $type:ident { $($name:ident: $new:expr),* }) => {{
        let real = *(&raw const $table);
        seen(|seen| seen.$old = real);
        let copy = Box::leak(Box::new([0_u64; 64]));
        let bytes = (*real.cast::<usize>()).min(size_of_val(copy));
        real.cast::<u8>().copy_to(copy.as_mut_ptr().cast(), bytes);
        let table = copy.as_mut_ptr().cast::<$type>();
        $((*table).$name = $new;)*
        $table = table;
    }};
}

unsafe extern "C" fn fabric(attr: *mut FabricAttr, fabric: *mut *mut Fabric, context: *mut c_void) -> c_int {
    let library = seen(|seen| seen.library).expect("the test has set it");
    // SAFETY: the caller's arguments, passed on; after a success there is an object, with the tables of its class.
    unsafe {
        let code = (library.fabric)(attr, fabric, context);
        if code == 0 {
            replace!((**fabric).ops, domain, FabricOps { domain: domain });
        }
        code
    }
}

unsafe extern "C" fn domain(
    fabric: *mut Fabric,
    info: *mut Info,
    domain: *mut *mut Domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, passed on, with the mode that the provider below has offered; after a success there is an object,
    // with the tables of its class.
    unsafe {
        (*(*info).domain_attr).mr_mode = seen(|seen| seen.mr_mode);
        let code = ((*seen(|seen| seen.domain)).domain)(fabric, info, domain, context);
        if code == 0 {
            replace!((**domain).ops, endpoint, DomainOps { endpoint: endpoint });
            replace!((**domain).mr, reg, MrOps { reg: reg });
        }
        code
    }
}

unsafe extern "C" fn endpoint(
    domain: *mut Domain,
    info: *mut Info,
    ep: *mut *mut Ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, passed on; after a success there is an object, with the tables of its class.
    unsafe {
        let code = ((*seen(|seen| seen.endpoint)).endpoint)(domain, info, ep, context);
        // Some providers make the endpoints of their connections by the same function.
        if code == 0 && (*(*info).ep_attr).kind == FI_EP_RDM {
            replace!((**ep).msg, msg, MsgOps { recv: recv, senddata: senddata });
            replace!((**ep).rma, rma, RmaOps { read: read });
        }
        code
    }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
    at: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    mr: *mut *mut Mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, passed on; after a success there is an object, whose fields are plain numbers and tables.
    unsafe {
        let code = ((*seen(|seen| seen.reg)).reg)(domain, at, len, access, offset, key, flags, mr, context);
        if code != 0 {
            return code;
        }
        let mr = &mut **mr;
        replace!(mr.fid.ops, mr, FidOps { bind: bind, control: control, close: close });
        seen(|seen| {
            let number = seen.known.len();
            seen.known.push(Known {
                mr,
                descriptor: number + 1,
                key: FIRST_KEY + number as u64,
                at: at.addr(),
                len,
                access,
                is_bound: false,
                is_enabled: false,
                real_descriptor: mr.mem_desc,
                real_key: mr.key,
            });
            // The caller gets descriptor and key when it enables the registration.
            (mr.mem_desc, mr.key) = (ptr::null_mut(), 0);
        });
        0
    }
}

/// The registration `mr`, for its own functions.
fn with_known<R>(mr: *mut Fid, what: impl FnOnce(&mut Known) -> R) -> R {
    seen(|seen| {
        let known = seen.known.iter_mut().rev().find(|known| known.mr.cast() == mr);
        what(known.expect("it was registered"))
    })
}

unsafe extern "C" fn bind(mr: *mut Fid, _ep: *mut Fid, _flags: u64) -> c_int {
    with_known(mr, |known| known.is_bound = true);
    0
}

unsafe extern "C" fn control(mr: *mut Fid, command: c_int, _argument: *mut c_void) -> c_int {
    if command == FI_ENABLE {
        let mr: *mut Mr = mr.cast();
        with_known(mr.cast(), |known| {
            known.is_enabled = known.is_bound;
            // SAFETY: a live registration, which its caller does not use during the call.
            unsafe {
                ((*mr).mem_desc, (*mr).key) = (ptr::without_provenance_mut(known.descriptor), known.key)
            };
        });
    }
    0
}

unsafe extern "C" fn close(mr: *mut Fid) -> c_int {
    with_known(mr, |known| (known.is_enabled, known.mr) = (false, ptr::null_mut()));
    // SAFETY: the caller's argument, passed on.
    unsafe { ((*seen(|seen| seen.mr)).close)(mr) }
}

/// The real descriptor of `len` bytes at `at`, for which `descriptor` must be that of an enabled registration with this access.
fn local(what: &str, at: *const c_void, len: usize, descriptor: *mut c_void, access: u64) -> *mut c_void {
    seen(|seen| {
        seen.uses += 1;
        let holds = |known: &&Known| {
            known.descriptor == descriptor.addr()
                && known.is_enabled
                && known.access & access != 0
                && (known.at..=known.at + known.len).contains(&at.addr())
                && at.addr() + len <= known.at + known.len
        };
        match seen.known.iter().find(holds) {
            Some(known) => known.real_descriptor,
            None => {
                seen.faults.push(format!("{what} of {len} bytes with descriptor {descriptor:?}"));
                ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn recv(
    ep: *mut Ep,
    at: *mut c_void,
    len: usize,
    descriptor: *mut c_void,
    from: u64,
    context: *mut c_void,
) -> isize {
    let descriptor = local("a receive", at, len, descriptor, FI_RECV);
    // SAFETY: the caller's arguments, passed on, with the descriptor of the provider below.
    unsafe { ((*seen(|seen| seen.msg)).recv)(ep, at, len, descriptor, from, context) }
}

unsafe extern "C" fn senddata(
    ep: *mut Ep,
    at: *const c_void,
    len: usize,
    descriptor: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    let descriptor = local("a send", at, len, descriptor, FI_SEND);
    if data >> 32 != 0 {
        seen(|seen| seen.faults.push(format!("{data:#x} beside a message")));
    }
    // SAFETY: as in `recv`.
    unsafe { ((*seen(|seen| seen.msg)).senddata)(ep, at, len, descriptor, data, to, context) }
}

unsafe extern "C" fn read(
    ep: *mut Ep,
    at: *mut c_void,
    len: usize,
    descriptor: *mut c_void,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let descriptor = local("a read", at, len, descriptor, FI_READ);
    let (address, key) = seen(|seen| {
        let holds = |known: &&Known| {
            known.key == key
                && known.is_enabled
                && known.access & FI_REMOTE_READ != 0
                && known.at as u64 <= address
                && address + len as u64 <= (known.at + known.len) as u64
        };
        match seen.known.iter().find(holds) {
            // The provider below counts from the beginning of the memory, unless it asks for addresses itself.
            Some(known) if seen.mr_mode & FI_MR_VIRT_ADDR == 0 => (address - known.at as u64, known.real_key),
            Some(known) => (address, known.real_key),
            None => {
                seen.faults.push(format!("a read of {len} bytes at {address:x} with key {key:x}"));
                (address, key)
            }
        }
    });
    // SAFETY: as in `recv`; the address and the key are those of the provider below.
    unsafe { ((*seen(|seen| seen.rma)).read)(ep, at, len, descriptor, from, address, key, context) }
}
