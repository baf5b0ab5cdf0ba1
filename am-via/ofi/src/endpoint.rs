//! One endpoint with its queues and buffers.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::time::Duration;

use am_via_os::poll;
use am_via_shm::{CheckedRange, HeldRange};

use crate::buffers::Buffers;
use crate::key::{self, Key};
use crate::library::{Infos, Library, message_bytes_max, provider};
use crate::objects::{self, Objects, PeerAddress, bind_memory, close, descriptor, positive};
use crate::reads::{READS_MAX, Reads};
use crate::strangers::{Strangers, ip_of};
use crate::sys::{
    AGAIN, Av, AvAttr, Cq, CqAttr, CqEntry, CqError, Domain, ERROR_AVAILABLE, Ep, FI_ADDR_UNSPEC,
    FI_AV_TABLE, FI_CQ_FORMAT_DATA, FI_ENABLE, FI_GETWAIT, FI_MR_ENDPOINT, FI_RECV, FI_RMA, FI_SEND,
    FI_TRANSMIT, FI_WAIT_FD, FI_WAIT_NONE, Fabric, Fid, Info, Mr,
};
use crate::{ADDRESS_BYTES_MAX, OfiError};

/// Maximum number of posted receives. [`RECEIVES_BYTES`] limits their memory, so that the buffers, which the provider fills in turn, stay
/// in the processor's own cache: copies from there are faster.
const RECEIVES: usize = 64;
const RECEIVES_BYTES: usize = 1 << 20;
/// Maximum number of sends that have not left their buffer.
const SENDS: usize = 64;
/// What messages are shorter than buffers if their keys are behind their bytes: lengths stay multiples of a cache line.
const KEY_SPACE_BYTES: usize = 64;
/// Minimum number of posted receives, if the provider takes that many.
const RECEIVES_MIN: usize = 16;
/// Maximum number of entries that one call reads from the completion queue. Each read lets ofi_rxm take up to 32 messages from the network,
/// and ofi_rxm keeps those for which no receive is posted in buffers of their own, without a limit: a sender that respects no credits would
/// fill this process's memory if a read returned fewer messages than it takes.
const READ_AT_ONCE: usize = 64;

/// A buffer for one message, which its holder writes before the message is sent. Only the endpoint that it belongs to takes it.
#[derive(Debug)]
pub struct Reserved {
    index: usize,
    /// The address of the endpoint's send buffers, which no other endpoint that exists has.
    buffers: usize,
}

/// A reliable-datagram endpoint, used by one thread at a time.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) library: Library,
    fabric: NonNull<Fabric>,
    ep: NonNull<Ep>,
    cq: NonNull<Cq>,
    av: NonNull<Av>,
    send_memory: *mut c_void,
    receive_memory: *mut c_void,
    /// Registrations of memory that peers read, closed before the other objects.
    pub(crate) lent: Vec<NonNull<Mr>>,
    /// Dropped before the buffers, so that the network no longer uses the buffers when they are freed.
    pub(crate) objects: Objects,
    /// `None` if the provider has no reads.
    pub(crate) reads: Option<Reads>,
    receives: Buffers,
    sends: Buffers,
    /// Destination of each send in flight, by the index of its buffer.
    going_to: Vec<PeerAddress>,
    free_sends: Vec<usize>,
    /// Receives that the provider has not taken yet: each poll offers them again.
    unposted: Vec<usize>,
    /// Maximum length of a message that the provider copies during the call (inject).
    inject_bytes: usize,
    /// Messages without this key are dropped.
    key: Key,
    /// Whether the provider carries a word and a key beside a message. If not, the key is behind the bytes of the message.
    keys_beside: bool,
    strangers: Strangers,
    /// The hosts of the peers.
    peer_hosts: BTreeSet<IpAddr>,
    address: Vec<u8>,
    provider: String,
    wait_fd: Option<c_int>,
}

// SAFETY: the library is asked for FI_THREAD_DOMAIN, which allows any thread to use an endpoint and its queues, one thread at a time: every
// call of the library takes `&mut self`, and no other endpoint has this domain. The buffers are plain memory of the endpoint.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens an endpoint of the provider that FI_PROVIDER names, or else of the library's first provider that crosses hosts (of its first
    /// one if none does).
    ///
    /// # Errors
    /// There is no library, no provider or no memory, or a call of the library failed.
    pub fn open() -> Result<Self, OfiError> {
        Self::open_by(Library::open()?)
    }

    fn open_by(library: Library) -> Result<Self, OfiError> {
        let infos = Infos::find(library)?;
        let info = infos.best().ok_or_else(|| OfiError::NoProvider { wanted: String::new() })?;
        let name = provider(info);
        let (tx_size, rx_size, inject_bytes, mr_mode) = sizes(info);
        // SAFETY: an element of `infos`, which is live, with its parts.
        let (can_read, key_bytes, data_bytes) = unsafe {
            let domain = &*info.as_ref().domain_attr;
            (info.as_ref().caps & FI_RMA != 0, domain.mr_key_size, domain.cq_data_size)
        };
        let bytes = message_bytes_max(info);
        let num_receives = (RECEIVES_BYTES / bytes).clamp(RECEIVES_MIN, RECEIVES).min(rx_size.max(1));
        let num_sends = SENDS.min(tx_size.max(1));
        let (receives, sends) = (Buffers::new(num_receives, bytes)?, Buffers::new(num_sends, bytes)?);

        let mut objects = Objects::default();
        let info = info.as_ptr();
        let mut fabric: *mut Fabric = ptr::null_mut();
        // SAFETY: the attributes belong to the live list `infos`; the variable for the object is live.
        let code = unsafe { (library.fabric)((*info).fabric_attr, &mut fabric, ptr::null_mut()) };
        library.check("opening the fabric", code)?;
        let fabric = objects.keep(fabric);

        let mut domain: *mut Domain = ptr::null_mut();
        // SAFETY: a fabric that was just opened with this info, whose table has the function since version 1.0.
        let code =
            unsafe { ((*fabric.as_ref().ops).domain)(fabric.as_ptr(), info, &mut domain, ptr::null_mut()) };
        library.check("opening the domain", code)?;
        let domain = objects.keep(domain);

        // The registrations and the queues are made before the endpoint, so that they are closed after it.
        let receive_mr = register(library, domain, &mut objects, &receives, FI_RECV)?;
        let send_mr = register(library, domain, &mut objects, &sends, FI_SEND)?;
        let (cq, wait_fd) =
            open_cq(library, domain, &mut objects, num_receives + num_sends + READS_MAX + READ_AT_ONCE)?;
        let av = open_av(library, domain, &mut objects)?;

        let mut ep: *mut Ep = ptr::null_mut();
        // SAFETY: the domain was opened with this info.
        let code =
            unsafe { ((*domain.as_ref().ops).endpoint)(domain.as_ptr(), info, &mut ep, ptr::null_mut()) };
        library.check("making the endpoint", code)?;
        let ep = objects.keep(ep);
        for (fid, flags) in [(av.cast::<Fid>(), 0), (cq.cast::<Fid>(), FI_TRANSMIT | FI_RECV)] {
            // SAFETY: live objects of one domain; an endpoint may be bound to both before it is enabled.
            let code = unsafe { ((*ep.as_ref().fid.ops).bind)(ep.as_ptr().cast(), fid.as_ptr(), flags) };
            library.check("binding the endpoint", code)?;
        }
        // SAFETY: the endpoint is bound to its queue and its address vector; this command takes no argument.
        let code =
            unsafe { ((*ep.as_ref().fid.ops).control)(ep.as_ptr().cast(), FI_ENABLE, ptr::null_mut()) };
        library.check("enabling the endpoint", code)?;

        if mr_mode & FI_MR_ENDPOINT != 0 {
            [receive_mr, send_mr].into_iter().try_for_each(|mr| bind_memory(library, mr, ep))?;
        }
        let key = Key::random();
        let mut address = name_of(library, ep)?;
        address.extend(key.to_bytes());
        let keys_beside = data_bytes >= size_of::<u64>();
        tracing::debug!(
            provider = name.name,
            domain = name.domain,
            inject_bytes,
            keys_beside,
            "an endpoint is open"
        );
        let mut endpoint = Self {
            library,
            fabric,
            ep,
            cq,
            av,
            send_memory: descriptor(send_mr),
            receive_memory: descriptor(receive_mr),
            lent: Vec::new(),
            objects,
            reads: can_read.then(|| Reads::new(library, domain, ep, mr_mode, key_bytes)),
            receives,
            sends,
            going_to: vec![PeerAddress { number: FI_ADDR_UNSPEC, key }; num_sends],
            free_sends: (0..num_sends).collect(),
            unposted: (0..num_receives).collect(),
            inject_bytes,
            key,
            keys_beside,
            strangers: Strangers::default(),
            peer_hosts: BTreeSet::new(),
            address,
            provider: name.name,
            wait_fd,
        };
        endpoint.post_receives()?;
        Ok(endpoint)
    }

    /// The address by which peers reach this endpoint, at most [`ADDRESS_BYTES_MAX`] bytes. It contains the endpoint's key: it is for
    /// peers only.
    #[must_use]
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// libfabric's name of the provider.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Longest message that the endpoint sends and receives, in bytes. All endpoints of a provider have the same value.
    #[must_use]
    pub fn message_bytes_max(&self) -> usize {
        self.sends.bytes() - if self.keys_beside { 0 } else { KEY_SPACE_BYTES }
    }

    /// The messages that were dropped because they did not have this endpoint's key.
    #[must_use]
    pub fn strangers(&self) -> &Strangers {
        &self.strangers
    }

    /// Makes the endpoint of this address a peer.
    ///
    /// # Errors
    /// It is not the address of an endpoint.
    pub fn add_peer(&mut self, address: &[u8]) -> Result<PeerAddress, OfiError> {
        // The library reads as many bytes as its own addresses have, whatever the length of `address`.
        let mut padded = [0; ADDRESS_BYTES_MAX];
        let parts = address.split_last_chunk().filter(|(address, _)| address.len() <= padded.len());
        let (address, &key) =
            parts.ok_or_else(|| self.library.failed("adding a peer's address", libc::EINVAL))?;
        padded[..address.len()].copy_from_slice(address);
        self.peer_hosts.extend(ip_of(address));
        let mut found = FI_ADDR_UNSPEC;
        // SAFETY: one address of at most `ADDRESS_BYTES_MAX` bytes (`name_of` refuses longer ones), and a variable for the answer.
        let count = unsafe {
            let insert = (*self.av.as_ref().ops).insert;
            insert(self.av.as_ptr(), padded.as_ptr().cast(), 1, &mut found, 0, ptr::null_mut())
        };
        match count {
            1 => Ok(PeerAddress { number: found, key: Key::of_bytes(key) }),
            code => Err(self
                .library
                .failed("adding a peer's address", if code < 0 { -code } else { libc::EINVAL })),
        }
    }

    /// Sends `len` bytes, which `fill` writes, with `word`. Returns `false` if the network takes no message now: poll and try again.
    ///
    /// # Errors
    /// The network refuses the message, and polling would not help.
    ///
    /// # Panics
    /// `len` is above [`message_bytes_max`](Self::message_bytes_max).
    pub fn send(
        &mut self,
        to: PeerAddress,
        word: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, OfiError> {
        self.send_by(to, word, len, len + self.key_bytes() <= self.inject_bytes, fill)
    }

    /// Like [`send`](Self::send), but the endpoint is not [idle](Self::is_idle) until the message has left the provider. An endpoint that
    /// closes loses the messages that its provider has accepted but not yet sent. `send` counts a short message as gone once the provider
    /// has accepted it.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_to_the_end(
        &mut self,
        to: PeerAddress,
        word: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, OfiError> {
        self.send_by(to, word, len, false, fill)
    }

    fn send_by(
        &mut self,
        to: PeerAddress,
        word: u32,
        len: usize,
        injects: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, OfiError> {
        let Some(&index) = self.free_sends.last() else { return Ok(false) };
        fill(self.send_buffer(index, len));
        let is_sent = self.send_from(index, to, word, len, injects)?;
        if is_sent && !injects {
            self.free_sends.pop();
        }
        Ok(is_sent)
    }

    /// Reserves a buffer of [`message_bytes_max`](Self::message_bytes_max) bytes for a message, and returns its memory, which lives as long
    /// as the endpoint and is left to the caller until the buffer is sent or given back. The endpoint is not [idle](Self::is_idle) until
    /// the message has been sent or the buffer given back. `None`: half of
    /// the buffers are in use; the others are kept for messages that are not prepared.
    pub fn reserve(&mut self) -> Option<(Reserved, HeldRange)> {
        if self.free_sends.len() <= self.going_to.len().div_ceil(2) {
            return None;
        }
        let index = self.free_sends.pop()?;
        let at = NonNull::new(self.sends.at(index))?;
        // SAFETY: a buffer of this length, which lives as long as the endpoint, and which nothing else touches until it is in `free_sends`
        // again or is sent.
        let memory = unsafe { CheckedRange::new(at, self.message_bytes_max()) };
        let buffers = self.sends.whole().0.addr();
        Some((Reserved { index, buffers }, HeldRange::hold(memory)))
    }

    /// Sends the first `len` bytes of a reserved buffer, in which `fill` writes what is missing. Returns `false`, and leaves the buffer
    /// reserved, if the network takes no message now. The memory must not be used afterwards if the message was sent, or if there is an
    /// error.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    ///
    /// # Panics
    /// `len` is above [`message_bytes_max`](Self::message_bytes_max), or nothing is reserved, or by another endpoint.
    pub fn send_reserved(
        &mut self,
        to: PeerAddress,
        word: u32,
        len: usize,
        reserved: &mut Option<Reserved>,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, OfiError> {
        let index = self.index_of(reserved.as_ref().expect("a buffer is reserved"));
        fill(self.send_buffer(index, len));
        let sent = self.send_from(index, to, word, len, false);
        match sent {
            Ok(true) => *reserved = None,
            Ok(false) => {}
            Err(_) => self.give_back(reserved),
        }
        sent
    }

    /// Gives a reserved buffer back. Its memory must not be used afterwards.
    ///
    /// # Panics
    /// Another endpoint has reserved the buffer.
    pub fn give_back(&mut self, reserved: &mut Option<Reserved>) {
        let index = reserved.take().map(|reserved| self.index_of(&reserved));
        self.free_sends.extend(index);
    }

    /// The index of a reserved buffer.
    fn index_of(&self, reserved: &Reserved) -> usize {
        assert!(reserved.buffers == self.sends.whole().0.addr(), "another endpoint has reserved this buffer");
        reserved.index
    }

    /// The first `len` bytes of a send buffer that is free, or reserved and not used otherwise now.
    fn send_buffer(&mut self, index: usize, len: usize) -> &mut [u8] {
        let max = self.message_bytes_max();
        assert!(len <= max, "a message of {len} bytes, above {max}");
        // SAFETY: `len` is at most the buffer's length (just checked against what the buffers were made for). Nothing else touches the
        // buffer: it is free, or its holder does not use it during the call.
        unsafe { std::slice::from_raw_parts_mut(self.sends.at(index), len) }
    }

    /// Length of the key in a message.
    fn key_bytes(&self) -> usize {
        if self.keys_beside { 0 } else { Key::BYTES }
    }

    /// Writes the receiver's key behind the `len` bytes of a message in a buffer that is free or reserved.
    fn append_key(&mut self, index: usize, len: usize, key: Key) {
        debug_assert!(len <= self.message_bytes_max());
        // SAFETY: messages are [`KEY_SPACE_BYTES`] shorter than buffers here (`message_bytes_max`, which `send_buffer` has checked), so
        // that the key is in the buffer, which nothing else touches (`send_buffer`).
        unsafe { self.sends.at(index).add(len).cast::<[u8; Key::BYTES]>().write_unaligned(key.to_bytes()) };
    }

    /// Sends the first `len` bytes of a buffer. If the call returns true, the network has the buffer unless it `injects`.
    fn send_from(
        &mut self,
        index: usize,
        to: PeerAddress,
        word: u32,
        len: usize,
        injects: bool,
    ) -> Result<bool, OfiError> {
        let (at, mut len, mut data, ep) = (self.sends.at(index), len, to.key.beside(word), self.ep.as_ptr());
        if !self.keys_beside {
            self.append_key(index, len, to.key);
            (len, data) = (len + Key::BYTES, u64::from(word));
        }
        // SAFETY: the endpoint is enabled; its table has both functions, which read `len` bytes at `at`: `injectdata` during the call,
        // `senddata` until the completion that names `context`. Until then the buffer is not in `free_sends`: the callers take it out. The
        // descriptor is that of the buffer's registration, and `context` is this buffer's own.
        let code = unsafe {
            let msg = &*(*ep).msg;
            if injects {
                (msg.injectdata)(ep, at.cast(), len, data, to.number)
            } else {
                let context = self.sends.context(index);
                (msg.senddata)(ep, at.cast(), len, self.send_memory, data, to.number, context)
            }
        };
        match code {
            0 => {
                if !injects {
                    self.going_to[index] = to;
                }
                Ok(true)
            }
            AGAIN => Ok(false),
            code => Err(self.library.failed("sending", positive(code))),
        }
    }

    /// Makes progress, and calls `take` with each message that has arrived and the word sent with it. Returns the number of these messages.
    /// Adds to `broken` each peer to which a send, or from which a read, has failed.
    ///
    /// # Errors
    /// The endpoint itself is broken.
    pub fn poll(
        &mut self,
        broken: &mut Vec<PeerAddress>,
        mut take: impl FnMut(u32, &[u8]),
    ) -> Result<usize, OfiError> {
        self.post_receives()?;
        let mut entries = [const { MaybeUninit::<CqEntry>::uninit() }; READ_AT_ONCE];
        // SAFETY: a queue of this format, and memory for this number of entries.
        let count = unsafe {
            let read = (*self.cq.as_ref().ops).read;
            read(self.cq.as_ptr(), entries.as_mut_ptr().cast(), READ_AT_ONCE)
        };
        match count {
            AGAIN | 0 => return Ok(0),
            ERROR_AVAILABLE => {
                self.read_error(broken)?;
                return Ok(0);
            }
            code if code < 0 => return Err(self.library.failed("polling", positive(code))),
            _ => {}
        }
        let mut arrived = 0;
        for entry in &entries[..usize::try_from(count).unwrap_or(0).min(READ_AT_ONCE)] {
            // SAFETY: the library has written the first `count` entries.
            let entry = unsafe { entry.assume_init_ref() };
            if let Some(index) = self.sends.index_of(entry.op_context) {
                self.free_sends.push(index);
            } else if let Some(index) = self.receives.index_of(entry.op_context) {
                let len = entry.len.min(self.receives.bytes());
                // SAFETY: the receive has ended, so that the buffer is the endpoint's alone until it is posted again below, after the last
                // use of the slice; `len` is at most its length.
                let bytes = unsafe { std::slice::from_raw_parts(self.receives.at(index), len) };
                self.unposted.push(index);
                arrived += 1;
                let (word, key) = key::parts(entry.data);
                let message = if self.keys_beside { Some((key, bytes)) } else { taken_apart(bytes) };
                match message {
                    Some((key, bytes)) if key == self.key => take(word, bytes),
                    _ => self.strangers.note(&self.peer_hosts),
                }
            } else if let Some(reads) = &mut self.reads {
                reads.note_end(entry.op_context, true);
            }
        }
        // The next poll posts these receives again, which delays no message that has arrived.
        Ok(arrived)
    }

    /// Takes the error that the completion queue holds, and handles the end of the operation that failed.
    #[cold]
    fn read_error(&mut self, broken: &mut Vec<PeerAddress>) -> Result<(), OfiError> {
        // SAFETY: the structure holds numbers and pointers, for which all zeros are a valid value. An `err_data_size` of 0 asks for no
        // details.
        let mut error: CqError = unsafe { std::mem::zeroed() };
        // SAFETY: a live queue, and memory for one entry.
        let count = unsafe { ((*self.cq.as_ref().ops).readerr)(self.cq.as_ptr(), &mut error, 0) };
        if count < 1 {
            return Ok(());
        }
        let why = self.library.failed("a message", error.err);
        if let Some(index) = self.sends.index_of(error.op_context) {
            tracing::warn!(%why, "a send failed");
            broken.push(self.going_to[index]);
            self.free_sends.push(index);
        } else if let Some(index) = self.receives.index_of(error.op_context) {
            tracing::warn!(%why, "a receive failed");
            self.unposted.push(index);
        } else if let Some(reads) = &mut self.reads {
            tracing::warn!(%why, "a read failed");
            broken.extend(reads.peer_of(error.op_context));
            reads.note_end(error.op_context, false);
        } else {
            tracing::warn!(%why, "an operation failed");
        }
        Ok(())
    }

    /// Posts the receives that have a free buffer, as far as the provider takes them.
    fn post_receives(&mut self) -> Result<(), OfiError> {
        while let Some(&index) = self.unposted.last() {
            let (ep, at) = (self.ep.as_ptr(), self.receives.at(index));
            // SAFETY: the endpoint is enabled; the buffer has that length, is registered by this descriptor, and is left to the network
            // until the completion that names its context: it stays in `unposted` until the provider has taken it.
            let code = unsafe {
                let context = self.receives.context(index);
                let bytes = self.receives.bytes();
                ((*(*ep).msg).recv)(ep, at.cast(), bytes, self.receive_memory, FI_ADDR_UNSPEC, context)
            };
            match code {
                0 => self.unposted.pop(),
                AGAIN => return Ok(()),
                code => return Err(self.library.failed("posting a receive", positive(code))),
            };
        }
        Ok(())
    }

    /// Whether every message has left its buffer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.free_sends.len() == self.going_to.len()
    }

    /// The file that becomes readable when a poll would find an event, if the caller may sleep on it. `None`: an event is ready now, a
    /// receive has yet to be posted, or the provider has no such file.
    pub fn file_to_sleep_on(&mut self) -> Option<BorrowedFd<'_>> {
        let fd = self.wait_fd?;
        // A provider may keep an event back until a receive is posted. If this fails, so does the next poll, with the error.
        if self.post_receives().is_err() || !self.unposted.is_empty() {
            return None;
        }
        let mut fids = [self.cq.as_ptr().cast::<Fid>()];
        // SAFETY: a live fabric, and one live queue of it.
        let code =
            unsafe { ((*self.fabric.as_ref().ops).trywait)(self.fabric.as_ptr(), fids.as_mut_ptr(), 1) };
        // SAFETY: the queue owns the file, and outlives the borrow of `self`.
        (code == 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether a caller can sleep until a message arrives: the provider has a file to sleep on, which is not readable while nothing
    /// arrives. The endpoint sends itself a message, since the file of some providers stays readable for ever after the first message.
    /// Meanwhile it discards what arrives: for an endpoint without peers.
    ///
    /// # Errors
    /// The endpoint is broken.
    pub fn can_wake_a_sleeper(&mut self) -> Result<bool, OfiError> {
        const MOST_POLLS: u32 = 100_000;
        let own = self.address.clone();
        let to = self.add_peer(&own)?;
        let (mut was_sent, mut arrived) = (false, 0);
        for _ in 0..MOST_POLLS {
            was_sent = was_sent || self.send(to, 0, 1, |bytes| bytes.fill(0))?;
            arrived += self.poll(&mut Vec::new(), |_, _| {})?;
            if arrived > 0 && self.is_idle() {
                break;
            }
        }
        // An error only means that the caller polls.
        let is_readable = |file| poll::poll(&[file], Some(Duration::ZERO)).map_or(true, |ready| ready[0]);
        Ok(self.file_to_sleep_on().is_some_and(|file| !is_readable(file)))
    }

    /// The provider's file to sleep on, if it has one. A caller may sleep on it after [`file_to_sleep_on`](Self::file_to_sleep_on) has
    /// returned it.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue owns the file, and outlives the borrow of `self`.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.lent.drain(..).for_each(|mr| close(mr.cast()));
    }
}

fn open_cq(
    library: Library,
    domain: NonNull<Domain>,
    objects: &mut Objects,
    size: usize,
) -> Result<(NonNull<Cq>, Option<c_int>), OfiError> {
    let open = |wait_obj| {
        let mut attr = CqAttr {
            size,
            flags: 0,
            format: FI_CQ_FORMAT_DATA,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        let mut cq: *mut Cq = ptr::null_mut();
        // SAFETY: a live domain, whole attributes, and a variable for the object.
        let code =
            unsafe { ((*domain.as_ref().ops).cq_open)(domain.as_ptr(), &mut attr, &mut cq, ptr::null_mut()) };
        (cq, code)
    };
    let (mut cq, mut code) = open(FI_WAIT_FD);
    let can_wait = code == 0;
    if !can_wait {
        (cq, code) = open(FI_WAIT_NONE);
    }
    library.check("opening the completion queue", code)?;
    let cq = objects.keep(cq);
    let mut fd: c_int = -1;
    // SAFETY: for a queue with FI_WAIT_FD this command writes one int.
    let has_fd = can_wait
        && unsafe {
            ((*cq.as_ref().fid.ops).control)(cq.as_ptr().cast(), FI_GETWAIT, (&raw mut fd).cast()) == 0
        };
    Ok((cq, (has_fd && fd >= 0).then_some(fd)))
}

fn open_av(
    library: Library,
    domain: NonNull<Domain>,
    objects: &mut Objects,
) -> Result<NonNull<Av>, OfiError> {
    let mut attr = AvAttr {
        kind: FI_AV_TABLE,
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: ptr::null(),
        map_addr: ptr::null_mut(),
        flags: 0,
    };
    let mut av: *mut Av = ptr::null_mut();
    // SAFETY: a live domain, whole attributes, and a variable for the object.
    let code =
        unsafe { ((*domain.as_ref().ops).av_open)(domain.as_ptr(), &mut attr, &mut av, ptr::null_mut()) };
    library.check("opening the address vector", code)?;
    Ok(objects.keep(av))
}

/// Registers buffers for `access`, even if the provider does not require it, so that all providers are treated alike. The kind of access
/// serves as key, since it differs between the two registrations; no peer gets the key.
fn register(
    library: Library,
    domain: NonNull<Domain>,
    objects: &mut Objects,
    buffers: &Buffers,
    access: u64,
) -> Result<NonNull<Mr>, OfiError> {
    let whole = buffers.whole();
    let mr = objects::register(library, domain, (whole.0.cast_const(), whole.1), access, access)?;
    Ok(objects.keep(mr.as_ptr()))
}

fn name_of(library: Library, ep: NonNull<Ep>) -> Result<Vec<u8>, OfiError> {
    let mut address = [0_u8; ADDRESS_BYTES_MAX - Key::BYTES];
    let mut len = address.len();
    // SAFETY: an enabled endpoint, and memory for `len` bytes.
    let code =
        unsafe { ((*ep.as_ref().cm).getname)(ep.as_ptr().cast(), address.as_mut_ptr().cast(), &mut len) };
    library.check("asking for the endpoint's address", code)?;
    let whole = address
        .get(..len)
        .ok_or_else(|| library.failed("asking for the endpoint's address", libc::EMSGSIZE))?;
    Ok(whole.to_vec())
}

/// Sizes of the queues, the longest message that the provider copies during the call, and the mode of registration.
fn sizes(info: NonNull<Info>) -> (usize, usize, usize, c_int) {
    // SAFETY: an element of a live list with its parts.
    unsafe {
        let info = info.as_ref();
        let (tx, rx) = (&*info.tx_attr, &*info.rx_attr);
        (tx.size, rx.size, tx.inject_size, (*info.domain_attr).mr_mode)
    }
}

/// Key and bytes of a message whose key is behind its bytes. `None`: the message is too short for a key.
fn taken_apart(bytes: &[u8]) -> Option<(Key, &[u8])> {
    let (bytes, &key) = bytes.split_last_chunk()?;
    Some((Key::of_bytes(key), bytes))
}

#[cfg(test)]
mod tests;
