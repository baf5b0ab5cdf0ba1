//! The part of libfabric's binary interface (version 1.17) that is used here. Later versions add fields only at the end of these
//! structures. Each structure is made by the library, or is passed to the library with its size or version.

use std::ffi::{c_char, c_int, c_void};

/// `FI_VERSION(1, 17)`: the version that is requested.
pub(crate) const VERSION: u32 = 1 << 16 | 17;

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_RMA: u64 = 1 << 2;
pub(crate) const FI_READ: u64 = 1 << 8;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_REMOTE_READ: u64 = 1 << 12;
pub(crate) const FI_TRANSMIT: u64 = FI_SEND;
pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;
pub(crate) const FI_RX_CQ_DATA: u64 = 1 << 56;
pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;
pub(crate) const FI_EP_RDM: c_int = 3;
pub(crate) const FI_AV_TABLE: c_int = 2;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_RM_ENABLED: c_int = 2;
pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(crate) const FI_MR_ENDPOINT: c_int = 1 << 9;
pub(crate) const FI_CQ_FORMAT_DATA: c_int = 3;
pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;
pub(crate) const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub(crate) const FI_SOCKADDR_IN: u32 = 2;
pub(crate) const FI_SOCKADDR_IN6: u32 = 3;

/// `-FI_EAGAIN`: the call has to be repeated later.
pub(crate) const AGAIN: isize = -11;
/// `-FI_EAVAIL`: the queue's next entry is an error.
pub(crate) const ERROR_AVAILABLE: isize = -259;

/// A function that is not called here.
type Unused = Option<unsafe extern "C" fn()>;

/// `struct fi_tx_attr`.
#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    mode: u64,
    op_flags: u64,
    pub(crate) msg_order: u64,
    comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    iov_limit: usize,
    rma_iov_limit: usize,
    tclass: u32,
}

/// `struct fi_rx_attr`.
#[repr(C)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    mode: u64,
    op_flags: u64,
    pub(crate) msg_order: u64,
    comp_order: u64,
    total_buffered_recv: usize,
    pub(crate) size: usize,
    iov_limit: usize,
}

/// `struct fi_ep_attr`.
#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) kind: c_int,
    protocol: u32,
    protocol_version: u32,
    pub(crate) max_msg_size: usize,
    rest: [u64; 9],
}

/// `struct fi_domain_attr`.
#[repr(C)]
pub(crate) struct DomainAttr {
    domain: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    control_progress: c_int,
    data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    rest: [u64; 17],
}

/// `struct fi_fabric_attr`.
#[repr(C)]
pub(crate) struct FabricAttr {
    fabric: *mut c_void,
    name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    prov_version: u32,
    api_version: u32,
}

/// `struct fi_info`.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    dest_addr: *mut c_void,
    handle: *mut c_void,
    pub(crate) tx_attr: *mut TxAttr,
    pub(crate) rx_attr: *mut RxAttr,
    pub(crate) ep_attr: *mut EpAttr,
    pub(crate) domain_attr: *mut DomainAttr,
    pub(crate) fabric_attr: *mut FabricAttr,
    nic: *mut c_void,
}

/// `struct fi_cq_attr`.
#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

/// `struct fi_av_attr`.
#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

/// `struct fi_cq_data_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CqEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
}

/// `struct fi_cq_err_entry`.
#[repr(C)]
pub(crate) struct CqError {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    len: usize,
    buf: *mut c_void,
    data: u64,
    tag: u64,
    olen: usize,
    pub(crate) err: c_int,
    prov_errno: c_int,
    err_data: *mut c_void,
    err_data_size: usize,
}

/// `struct fi_context2`: the library's state of an operation in flight.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OpContext {
    pub(crate) internal: [*mut c_void; 8],
}

/// `struct fid`: the head of every object.
#[repr(C)]
pub(crate) struct Fid {
    fclass: usize,
    context: *mut c_void,
    pub(crate) ops: *const FidOps,
}

/// `struct fi_ops`.
#[repr(C)]
pub(crate) struct FidOps {
    size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// `struct fid_fabric`.
#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FabricOps,
}

/// `struct fi_ops_fabric`.
#[repr(C)]
pub(crate) struct FabricOps {
    size: usize,
    pub(crate) domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    passive_ep: Unused,
    eq_open: Unused,
    wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
}

/// `struct fid_domain`.
#[repr(C)]
pub(crate) struct Domain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const DomainOps,
    pub(crate) mr: *const MrOps,
}

/// `struct fi_ops_domain`.
#[repr(C)]
pub(crate) struct DomainOps {
    size: usize,
    pub(crate) av_open: unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub(crate) cq_open: unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub(crate) endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

/// `struct fi_ops_mr`.
#[repr(C)]
pub(crate) struct MrOps {
    size: usize,
    pub(crate) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
}

/// `struct fid_mr`.
#[repr(C)]
pub(crate) struct Mr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

/// `struct fid_av`.
#[repr(C)]
pub(crate) struct Av {
    pub(crate) fid: Fid,
    pub(crate) ops: *const AvOps,
}

/// `struct fi_ops_av`.
#[repr(C)]
pub(crate) struct AvOps {
    size: usize,
    pub(crate) insert:
        unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

/// `struct fid_cq`.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const CqOps,
}

/// `struct fi_ops_cq`.
#[repr(C)]
pub(crate) struct CqOps {
    size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    readfrom: Unused,
    pub(crate) readerr: unsafe extern "C" fn(*mut Cq, *mut CqError, u64) -> isize,
}

/// `struct fid_ep`.
#[repr(C)]
pub(crate) struct Ep {
    pub(crate) fid: Fid,
    ops: *const c_void,
    pub(crate) cm: *const CmOps,
    pub(crate) msg: *const MsgOps,
    pub(crate) rma: *const RmaOps,
}

/// `struct fi_ops_rma`.
#[repr(C)]
pub(crate) struct RmaOps {
    size: usize,
    pub(crate) read:
        unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
}

/// `struct fi_ops_cm`.
#[repr(C)]
pub(crate) struct CmOps {
    size: usize,
    setname: Unused,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

/// `struct fi_ops_msg`.
#[repr(C)]
pub(crate) struct MsgOps {
    size: usize,
    pub(crate) recv:
        unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    recvv: Unused,
    recvmsg: Unused,
    send: Unused,
    sendv: Unused,
    sendmsg: Unused,
    inject: Unused,
    pub(crate) senddata:
        unsafe extern "C" fn(*mut Ep, *const c_void, usize, *mut c_void, u64, u64, *mut c_void) -> isize,
    pub(crate) injectdata: unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64, u64) -> isize,
}

// The layout that a C compiler gives these structures with the headers of version 1.17.
const _: () = {
    assert!(size_of::<TxAttr>() == 80 && std::mem::offset_of!(TxAttr, inject_size) == 40);
    assert!(size_of::<RxAttr>() == 64 && std::mem::offset_of!(RxAttr, size) == 48);
    assert!(size_of::<EpAttr>() == 96);
    assert!(size_of::<DomainAttr>() == 192 && std::mem::offset_of!(DomainAttr, mr_mode) == 36);
    assert!(std::mem::offset_of!(DomainAttr, cq_data_size) == 48);
    assert!(size_of::<FabricAttr>() == 32);
    assert!(size_of::<Info>() == 120 && std::mem::offset_of!(Info, fabric_attr) == 104);
    assert!(size_of::<CqAttr>() == 40 && size_of::<AvAttr>() == 48);
    assert!(size_of::<CqEntry>() == 40 && size_of::<CqError>() == 80);
    assert!(std::mem::offset_of!(DomainOps, endpoint) == 24 && std::mem::offset_of!(CmOps, getname) == 16);
    assert!(std::mem::offset_of!(MsgOps, injectdata) == 72 && std::mem::offset_of!(FabricOps, trywait) == 40);
    assert!(std::mem::offset_of!(Ep, rma) == 48 && std::mem::offset_of!(Mr, key) == 32);
    assert!(std::mem::offset_of!(Ep, msg) == 40 && std::mem::offset_of!(Domain, mr) == 32);
};
