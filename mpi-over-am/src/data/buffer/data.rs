//! User memory that a datatype describes: the elements of a send, which are gathered, and those of a receive, which are scattered.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which is the same here (am-core asserts it)"
)]

use std::ptr::NonNull;

use am_core::buffer::{Arrived, PacketWriter, RawBuffer, RawBytes};
use am_core::handler::Sink;
use am_core::transfer::Gatherer;

use mpi_datatype::{Block, Datatype, Layout, Predefined, Visit};

/// Memory to send from: `count` elements of a datatype. Its maker has promised that the bytes of the elements stay live and unwritten until
/// the operation that gets the value has ended.
#[derive(Clone, Debug)]
pub struct SendData(Elements);

/// Memory to receive into: `count` elements of a datatype. Its maker has promised that the bytes of the elements stay live, and that
/// nothing else accesses them, until the operation that gets the value has ended.
#[derive(Clone, Debug)]
pub struct RecvData(Elements);

/// An address to which displacements are added; 0 if the displacements are addresses (`MPI_BOTTOM`).
#[derive(Clone, Copy, Debug)]
struct Base(usize);

#[derive(Clone, Debug)]
struct Elements {
    base: Base,
    count: u64,
    datatype: Datatype,
}

impl Base {
    /// The bytes at a displacement.
    ///
    /// # Safety
    /// `len` must not be 0, and the maker's promise must hold for these bytes.
    #[inline(always)]
    unsafe fn bytes(self, at: i64, len: usize) -> RawBytes {
        // SAFETY: this function requires of its caller what `buffer` requires. The range is then only read.
        unsafe { self.buffer(at, len) }.as_bytes()
    }

    /// The memory at a displacement.
    ///
    /// # Safety
    /// `len` must not be 0, and the maker's promise must hold for these bytes.
    #[inline(always)]
    unsafe fn buffer(self, at: i64, len: usize) -> RawBuffer {
        // The provenance was exposed when the value was made, or the program got the address in another way.
        let at: *mut u8 = std::ptr::with_exposed_provenance_mut(self.0.wrapping_add_signed(at as isize));
        // SAFETY: there is at least one byte (this function's contract), and it is live by the maker's promise, so the address is not 0.
        // The promise is the one that `RawBuffer::new` requires.
        unsafe { RawBuffer::new(NonNull::new_unchecked(at), len) }
    }
}

impl Elements {
    #[inline(always)]
    fn packed_len(&self) -> u64 {
        // Saturates if the product exceeds 64 bits: no memory is that long, so the maker's promise was false.
        self.count.saturating_mul(self.datatype.size())
    }

    /// All bytes, if they are contiguous.
    #[inline(always)]
    fn as_buffer(&self) -> Option<RawBuffer> {
        if !self.datatype.is_dense() {
            return self.as_one_block();
        }
        let len = usize::try_from(self.packed_len()).ok()?;
        if len == 0 {
            return Some(RawBuffer::EMPTY);
        }
        let at = if self.datatype.as_predefined().is_some() { 0 } else { self.datatype.true_lower_bound() };
        // SAFETY: `len` is not 0 (checked above). The elements are dense, so these are exactly the bytes that the maker's promise covers.
        Some(unsafe { self.base.buffer(at, len) })
    }

    /// The bytes, if they are one block although the elements are not dense: a single element whose extent is longer than its data, or an
    /// empty message.
    #[inline(never)]
    fn as_one_block(&self) -> Option<RawBuffer> {
        let (base, layout) = self.place();
        if layout.size() == 0 {
            return Some(RawBuffer::EMPTY);
        }
        let at = layout.as_block()?;
        let len = usize::try_from(layout.size()).ok()?;
        // SAFETY: the layout's size is not 0 (checked above), and these are exactly the bytes that the maker's promise covers.
        Some(unsafe { base.buffer(at, len) })
    }

    /// The layout of the elements, and the address that its displacements are relative to.
    #[inline(always)]
    fn place(&self) -> (Base, Layout) {
        if self.packed_len() == u64::MAX {
            return (self.base, Layout::EMPTY);
        }
        // Only an address of a section is below zero; the displacements of these elements are addresses.
        if self.base.0.cast_signed() < 0 && self.datatype.is_in_sections() {
            return (Base(0), self.datatype.layout_in_section(self.base.0 as i64, self.count));
        }
        (self.base, self.datatype.layout(self.count))
    }

    fn part(&self, first: i64, count: u64) -> Self {
        let by = first.wrapping_mul(self.datatype.extent());
        let base = Base(self.base.0.wrapping_add_signed(by as isize));
        Self { base, count, datatype: self.datatype.clone() }
    }
}

impl Elements {
    /// The same bytes as numbers of a predefined type. Elements that are not bytes, or do not fill whole numbers, are left as they are.
    fn called(self, basic: Predefined) -> Self {
        let are_bytes = self.datatype.as_predefined() == Some(Predefined::Byte);
        if !are_bytes || !self.count.is_multiple_of(basic.size()) {
            return self;
        }
        Self { base: self.base, count: self.count / basic.size(), datatype: basic.into() }
    }
}

impl SendData {
    /// `count` elements of `datatype`, with displacements relative to `at` (null if displacements are addresses).
    ///
    /// # Safety
    /// All bytes of the elements must be readable, and nothing may write them, until the last operation that gets the value or a clone has
    /// ended. Each call that takes the value is such an operation.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: *const u8, count: u64, datatype: &Datatype) -> Self {
        Self(Elements { base: Base(at.expose_provenance()), count, datatype: datatype.clone() })
    }

    /// The same bytes as numbers of a predefined type. Elements that are not bytes, or do not fill whole numbers, are left as they are.
    pub(crate) fn called(self, basic: Predefined) -> Self {
        Self(self.0.called(basic))
    }

    /// Contiguous bytes; the maker of `bytes` has given the promise.
    #[must_use]
    pub fn from_bytes(bytes: RawBytes) -> Self {
        let base = Base(bytes.at().as_ptr().expose_provenance());
        let datatype = Datatype::predefined(Predefined::Byte);
        Self(Elements { base, count: bytes.len() as u64, datatype })
    }

    /// The address that displacements are relative to.
    #[must_use]
    pub fn at(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.0.base.0)
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// The elements' type.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.0.datatype
    }

    /// Bytes of the message.
    #[inline(always)]
    #[must_use]
    pub fn packed_len(&self) -> u64 {
        self.0.packed_len()
    }

    /// All bytes, if they are contiguous.
    #[inline(always)]
    #[must_use]
    pub fn as_bytes(&self) -> Option<RawBytes> {
        self.0.as_buffer().map(|buffer| buffer.as_bytes())
    }

    /// `count` elements, starting `first` extents further on. The promise must cover their memory.
    #[must_use]
    pub(crate) fn part(&self, first: i64, count: u64) -> Self {
        Self(self.0.part(first, count))
    }

    /// Copies the packed bytes from `offset` on to `to`, as many as both have (`MPI_Pack`, in parts); returns their number.
    pub fn pack(&self, offset: u64, to: &mut [u8]) -> usize {
        self.gather().pack(offset, to)
    }

    /// A gatherer of the elements, for data that are not contiguous.
    pub(crate) fn gather(&self) -> Gather {
        let (base, layout) = self.0.place();
        Gather { base, layout }
    }
}

impl RecvData {
    /// Like [`SendData::called`].
    pub(crate) fn called(self, basic: Predefined) -> Self {
        Self(self.0.called(basic))
    }

    /// Like [`SendData::new`].
    ///
    /// # Safety
    /// All bytes of the elements must be writable, no two elements may overlap, and nothing else may read or write them, until the last
    /// operation that gets the value or a clone has ended. Each call that takes the value is such an operation.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: *mut u8, count: u64, datatype: &Datatype) -> Self {
        Self(Elements { base: Base(at.expose_provenance()), count, datatype: datatype.clone() })
    }

    /// Contiguous bytes; the maker of `buffer` has given the promise.
    #[must_use]
    pub fn from_buffer(buffer: RawBuffer) -> Self {
        let base = Base(buffer.at().as_ptr().expose_provenance());
        let datatype = Datatype::predefined(Predefined::Byte);
        Self(Elements { base, count: buffer.len() as u64, datatype })
    }

    /// The address that displacements are relative to.
    #[must_use]
    pub fn at(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0.base.0)
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// The elements' type.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.0.datatype
    }

    /// Bytes of a message that fills all elements.
    #[inline(always)]
    #[must_use]
    pub fn packed_len(&self) -> u64 {
        self.0.packed_len()
    }

    /// All bytes, if they are contiguous.
    #[inline(always)]
    #[must_use]
    pub fn as_buffer(&self) -> Option<RawBuffer> {
        self.0.as_buffer()
    }

    /// `count` elements, starting `first` extents further on. The promise must cover their memory.
    #[must_use]
    pub(crate) fn part(&self, first: i64, count: u64) -> Self {
        Self(self.0.part(first, count))
    }

    /// The same memory, to send from.
    #[must_use]
    pub(crate) fn as_send(&self) -> SendData {
        SendData(self.0.clone())
    }

    /// Stores `bytes` as the packed bytes from `offset` on, as many as fit (`MPI_Unpack`, in parts); returns their number.
    pub fn unpack(&self, offset: u64, bytes: &[u8]) -> usize {
        self.scatter().place(offset, Arrived::private(bytes))
    }

    /// A sink for the elements, for data that are not contiguous.
    pub(crate) fn scatter(&self) -> Scatter {
        let (base, layout) = self.0.place();
        Scatter { base, first: 0, end: layout.size(), layout }
    }

    /// The destination of the packed bytes `offset..offset + len`, as far as they exist.
    pub(crate) fn window(&self, offset: u64, len: u64) -> Window {
        let scatter = self.scatter();
        let first = offset.min(scatter.end);
        let end = offset.saturating_add(len).min(scatter.end);
        match self.as_buffer() {
            Some(buffer) => {
                Window::Bytes(buffer.part(first as usize, (end - first) as usize).unwrap_or(RawBuffer::EMPTY))
            }
            None => Window::Layout(Scatter { first, end, ..scatter }),
        }
    }
}

impl SendData {
    /// Copies the elements to those of `to`, as many bytes as fit; returns the number of bytes. The elements of both must not overlap.
    #[inline]
    pub(crate) fn copy_to(&self, to: &RecvData) -> u64 {
        match (self.as_bytes(), to.as_buffer()) {
            (Some(from), Some(to)) => {
                from.copy_to_buffer(to);
                from.len().min(to.len()) as u64
            }
            (from, memory) => self.copy_elements_to(from, to, memory),
        }
    }

    /// The rest of [`copy_to`](Self::copy_to): at least one side is not contiguous. There is no intermediate copy if the other side is
    /// contiguous, or if both have the same layout.
    fn copy_elements_to(&self, from: Option<RawBytes>, to: &RecvData, memory: Option<RawBuffer>) -> u64 {
        let len = self.packed_len().min(to.packed_len());
        if let Some(from) = from {
            // SAFETY: the bytes stay readable as long as this value is used (`SendData::new`).
            let arrived = unsafe { Arrived::shared(from.at(), from.len()) };
            return to.scatter().place(0, arrived) as u64;
        }
        let mut gather = self.gather();
        if let Some(memory) = memory {
            // SAFETY: the bytes are writable, and nothing else accesses them while `to` is used (`RecvData::new`).
            let mut writer = unsafe { PacketWriter::new(memory.at(), memory.len()) };
            gather.gather(0, len as usize, &mut writer);
            return len;
        }
        let are_equal = (self.0.count, &self.0.datatype) == (to.0.count, &to.0.datatype);
        if are_equal && !self.0.datatype.is_in_sections() {
            // Each piece has the same displacement on both sides.
            gather.layout.visit(0, len, &mut Across { from: self.0.base, to: to.0.base });
            return len;
        }
        let scatter = to.scatter();
        let mut piece = [0; COPY_PIECE_BYTES];
        let mut offset = 0;
        while offset < len {
            let take = usize::try_from(len - offset).unwrap_or(usize::MAX).min(piece.len());
            let packed = gather.pack(offset, &mut piece[..take]);
            scatter.place(offset, Arrived::private(&piece[..packed]));
            offset += packed as u64;
        }
        len
    }
}

/// Size of the intermediate buffer of a copy between scattered elements, in bytes: small enough to stay in the cache.
const COPY_PIECE_BYTES: usize = 8 << 10;

/// A visitor with a loop over blocks of one length that is known at compile time, so that each copy is a load and a store.
trait Equal: Visit + Sized {
    /// Moves the value into a variable to which nothing points, so that a loop keeps its state in registers. `self` must not be used until
    /// the value is stored back.
    fn moved(&mut self) -> Self;

    /// Visits `count` blocks of `LEN` bytes.
    #[inline(always)]
    fn equal<const LEN: usize>(&mut self, count: usize, at: impl Fn(usize) -> i64) {
        (0..count).for_each(|index| self.block(at(index), LEN as u64));
    }
}

/// Visits `count` blocks of `len` bytes.
#[inline(always)]
fn equal_blocks(visitor: &mut impl Equal, len: u64, count: usize, at: impl Fn(usize) -> i64) {
    let mut own = visitor.moved();
    match len {
        4 => own.equal::<4>(count, at),
        8 => own.equal::<8>(count, at),
        16 => own.equal::<16>(count, at),
        24 => own.equal::<24>(count, at),
        32 => own.equal::<32>(count, at),
        _ => (0..count).for_each(|index| own.block(at(index), len)),
    }
    *visitor = own;
}

/// The loops of a visitor that is [`Equal`].
macro_rules! loops {
    () => {
        fn strided(&mut self, at: i64, len: u64, stride: i64, count: u64) {
            equal_blocks(self, len, count as usize, |index| {
                at.wrapping_add((index as i64).wrapping_mul(stride))
            });
        }

        fn even(&mut self, base: i64, len: u64, at: &[i64]) {
            equal_blocks(self, len, at.len(), |index| base.wrapping_add(at[index]));
        }

        fn blocks(&mut self, base: i64, blocks: &[Block]) {
            let mut own = self.moved();
            blocks.iter().for_each(|block| own.block(base.wrapping_add(block.at), block.len));
            *self = own;
        }
    };
}

/// Copies pieces between elements of the same layout.
#[derive(Clone, Copy)]
struct Across {
    from: Base,
    to: Base,
}

impl Visit for Across {
    #[inline(always)]
    fn block(&mut self, at: i64, len: u64) {
        // SAFETY: a piece is not empty (`Visit`). It belongs to the elements on either side, whose makers have promised that they are
        // readable and writable, respectively.
        let (from, to) = unsafe { (self.from.bytes(at, len as usize), self.to.buffer(at, len as usize)) };
        from.copy_to_buffer(to);
    }

    loops!();
}

impl Equal for Across {
    fn moved(&mut self) -> Self {
        *self
    }
}

/// Sends elements directly from their memory.
#[derive(Debug)]
pub(crate) struct Gather {
    base: Base,
    layout: Layout,
}

impl Gatherer for Gather {
    fn len(&self) -> u64 {
        self.layout.size()
    }

    fn gather(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) {
        let end = offset.saturating_add(len as u64).min(self.layout.size());
        let own = std::mem::replace(writer, PacketWriter::over(&mut []));
        let mut writing = Writing { base: self.base, writer: own };
        self.layout.visit(offset.min(end), end, &mut writing);
        *writer = writing.writer;
    }
}

impl Gather {
    /// Copies the packed bytes from `offset` on to `to`, as many as both have; returns their number.
    pub(crate) fn pack(&mut self, offset: u64, to: &mut [u8]) -> usize {
        let len = to.len().min(self.layout.size().saturating_sub(offset) as usize);
        self.gather(offset, len, &mut PacketWriter::over(to));
        len
    }
}

/// Copies pieces, from the front, into a NIC's buffer or private memory.
struct Writing<'r> {
    base: Base,
    writer: PacketWriter<'r>,
}

impl Visit for Writing<'_> {
    #[inline(always)]
    fn block(&mut self, at: i64, len: u64) {
        // SAFETY: a piece is not empty (`Visit`). It belongs to the elements, whose maker has promised that they are readable.
        self.writer.put(unsafe { self.base.bytes(at, len as usize) });
    }

    loops!();
}

impl Equal for Writing<'_> {
    #[inline(always)]
    fn moved(&mut self) -> Self {
        let writer = std::mem::replace(&mut self.writer, PacketWriter::over(&mut []));
        Self { base: self.base, writer }
    }

    /// Checks the free space once for all blocks.
    #[inline(always)]
    fn equal<const LEN: usize>(&mut self, count: usize, at: impl Fn(usize) -> i64) {
        let base = self.base;
        // SAFETY: as in `block`.
        self.writer.put_equal::<LEN>(count, |index| unsafe { base.bytes(at(index), LEN) });
    }
}

/// Receives elements directly into their memory.
#[derive(Debug)]
pub(crate) struct Scatter {
    base: Base,
    layout: Layout,
    /// The position of the first packed byte that is accepted.
    first: u64,
    end: u64,
}

/// The destination of a part of the elements.
#[derive(Debug)]
pub(crate) enum Window {
    /// Contiguous.
    Bytes(RawBuffer),
    /// Not contiguous.
    Layout(Scatter),
}

impl Scatter {
    /// Capacity in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.end - self.first
    }

    /// Stores bytes of the message, as many as fit; returns their number.
    pub(crate) fn place(&self, offset: u64, bytes: Arrived<'_>) -> usize {
        let start = self.first.saturating_add(offset).min(self.end);
        let end = start.saturating_add(bytes.len() as u64).min(self.end);
        self.layout.visit(start, end, &mut PieceWriter { base: self.base, bytes });
        (end - start) as usize
    }
}

impl Sink for Scatter {
    fn take(&mut self, offset: u64, bytes: Arrived<'_>) {
        self.place(offset, bytes);
    }
}

/// Copies pieces to user memory.
#[derive(Clone, Copy)]
struct PieceWriter<'a> {
    base: Base,
    bytes: Arrived<'a>,
}

impl Visit for PieceWriter<'_> {
    #[inline(always)]
    fn block(&mut self, at: i64, len: u64) {
        // SAFETY: a piece is not empty (`Visit`). It belongs to the elements, whose maker has promised that they are writable and that
        // nothing else accesses them.
        self.bytes.copy_to_buffer(unsafe { self.base.buffer(at, len as usize) });
        self.bytes = self.bytes.skip(len as usize);
    }

    loops!();
}

impl Equal for PieceWriter<'_> {
    #[inline(always)]
    fn moved(&mut self) -> Self {
        *self
    }

    #[inline(always)]
    fn equal<const LEN: usize>(&mut self, count: usize, at: impl Fn(usize) -> i64) {
        let (base, mut done) = (self.base, 0);
        for (at, bytes) in (0..count).map(at).zip(self.bytes.equal::<LEN>()) {
            // SAFETY: as in `block`.
            bytes.copy_to_buffer(unsafe { base.buffer(at, LEN) });
            done += LEN;
        }
        self.bytes = self.bytes.skip(done);
    }
}
