//! Collectives (MPI 5.0 chapter 6, neighbourhoods: chapter 8).
//!
//! For each MPI collective, one function makes a [`Collective`] from C's arguments. The three forms of the MPI call run it (blocking),
//! start it (non-blocking), or keep it for later starts (persistent).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use mpi_over_am::datatype::op::{Combine, PredefinedOp, combine_of};
use mpi_over_am::topology::Topology;
use mpi_over_am::{Collective, Error, ErrorClass, Neighbours, Parts, RawBytes, RecvData, SendData};

use crate::constants::{MPI_DATATYPE_NULL, MPI_IN_PLACE, MPI_PROC_NULL, MPI_ROOT};
use crate::data::{count_of, datatype_for, raw_to_receive, raw_to_send, to_receive, to_send};
use crate::errors::on_communicator;
use crate::failure::{Failure, Outcome};
use crate::objects::CommunicatorObject;
use crate::operations::{op_of, predefined};
use crate::requests::keep_request;
use crate::state::Mpi;
use crate::types::{Ints, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request, RecvElements, SendElements};

/// The address of a buffer that is sent or received into.
trait At: Copy {
    /// The data of a part of the buffer.
    type Data;

    /// The data of elements from a displacement in bytes on.
    ///
    /// # Safety
    /// That of [`to_send`] or [`to_receive`].
    unsafe fn data(self, mpi: &Mpi, by: i64, count: i64, datatype: MPI_Datatype) -> Outcome<Self::Data>;
}

impl At for *const c_void {
    type Data = SendData;

    unsafe fn data(self, mpi: &Mpi, by: i64, count: i64, datatype: MPI_Datatype) -> Outcome<SendData> {
        unsafe { to_send(mpi, (self.wrapping_byte_offset(by as isize), count, datatype)) }
    }
}

impl At for *mut c_void {
    type Data = RecvData;

    unsafe fn data(self, mpi: &Mpi, by: i64, count: i64, datatype: MPI_Datatype) -> Outcome<RecvData> {
        unsafe { to_receive(mpi, (self.wrapping_byte_offset(by as isize), count, datatype)) }
    }
}

/// A buffer with a block of elements for each rank.
enum Blocks<P> {
    /// Blocks of this many elements, one after the other.
    Equal((P, i64, MPI_Datatype)),
    /// Counts, and displacements in extents of the type.
    Listed(P, Ints, Ints, MPI_Datatype),
    /// Counts, displacements in bytes, and a type for each block.
    Typed(P, Ints, Ints, *const MPI_Datatype),
}

impl<P: At> Blocks<P> {
    fn at(&self) -> P {
        match *self {
            Self::Equal((at, ..)) | Self::Listed(at, ..) | Self::Typed(at, ..) => at,
        }
    }
}

/// The arguments that all collectives share.
struct Call<'a> {
    mpi: &'a Mpi,
    object: &'a CommunicatorObject,
}

impl Call<'_> {
    /// The number of parts: one for each rank of the group that the data come from or go to.
    fn ranks(&self) -> u64 {
        let communicator = &self.object.communicator;
        communicator.remote_size().unwrap_or_else(|_| communicator.size()).into()
    }

    fn rank(&self) -> u32 {
        self.object.communicator.rank()
    }

    fn root(&self, root: c_int) -> Outcome<u32> {
        match root {
            MPI_ROOT => Ok(mpi_over_am::ROOT),
            MPI_PROC_NULL => Ok(mpi_over_am::PROC_NULL),
            root => u32::try_from(root)
                .map_err(|_| Failure::new(ErrorClass::Root, format!("root {root} does not exist"))),
        }
    }

    /// Whether this task takes no part: the root is another task of its group of an inter-communicator. Its buffers are not significant
    /// (MPI 5.0 section 6.2.3).
    fn is_idle(&self, root: c_int) -> bool {
        root == MPI_PROC_NULL && self.object.communicator.is_inter()
    }

    /// Whether this task is the root, which sends or receives the data of all tasks.
    fn is_root(&self, root: c_int) -> bool {
        if self.object.communicator.is_inter() {
            root == MPI_ROOT
        } else {
            u32::try_from(root) == Ok(self.rank())
        }
    }

    unsafe fn send(&self, elements: SendElements) -> Outcome<Option<SendData>> {
        if elements.0.addr() == MPI_IN_PLACE {
            return Ok(None);
        }
        unsafe { to_send(self.mpi, elements) }.map(Some)
    }

    /// What this task sends to the root; `None` if it sends nothing, or is a root that has its own elements in place.
    unsafe fn send_to(&self, root: c_int, elements: SendElements) -> Outcome<Option<SendData>> {
        if root == MPI_ROOT || self.is_idle(root) { Ok(None) } else { unsafe { self.send(elements) } }
    }

    unsafe fn recv(&self, elements: RecvElements) -> Outcome<RecvData> {
        unsafe { to_receive(self.mpi, elements) }
    }

    /// The unit of displacements. Also accepts `MPI_DATATYPE_NULL`, which [`to_send`] and [`to_receive`] refuse unless the count is 0.
    fn extent_of(&self, datatype: MPI_Datatype) -> Outcome<i64> {
        datatype_for(self.mpi, datatype, i64::from(datatype != MPI_DATATYPE_NULL))
            .map(|datatype| datatype.extent())
    }

    /// The parts of a buffer, one for each of `ranks` ranks.
    unsafe fn parts<P: At>(&self, blocks: Blocks<P>, ranks: u64) -> Outcome<Parts<P::Data>> {
        let mpi = self.mpi;
        match blocks {
            Blocks::Equal((at, count, datatype)) => {
                let all = unsafe { at.data(mpi, 0, all_of(count, ranks)?, datatype) }?;
                Ok(Parts::Equal { all, count: count_of(count)? })
            }
            Blocks::Listed(at, counts, displacements, datatype) => {
                check_arrays(ranks, counts.is_null() || displacements.is_null())?;
                let extent = self.extent_of(datatype)?;
                listed(ranks, |index| unsafe {
                    let by = displacements.at(index).wrapping_mul(extent);
                    at.data(mpi, by, counts.at(index), datatype)
                })
            }
            Blocks::Typed(at, counts, displacements, datatypes) => {
                check_arrays(ranks, counts.is_null() || displacements.is_null() || datatypes.is_null())?;
                listed(ranks, |index| unsafe {
                    at.data(mpi, displacements.at(index), counts.at(index), *datatypes.add(index))
                })
            }
        }
    }

    fn neighbours(&self) -> Outcome<Neighbours> {
        let communicator = &self.object.communicator;
        let topology = communicator.topology().ok_or_else(|| {
            Failure::new(
                ErrorClass::Topology,
                "the communicator has no topology, which a neighbourhood collective needs",
            )
        })?;
        let (sources, destinations) = topology.neighbors(communicator.rank());
        Ok(Neighbours { sources, destinations, is_grid: matches!(topology, Topology::Cartesian(_)) })
    }
}

/// The collectives that have several forms, which differ in how they describe the blocks of the ranks.
impl Call<'_> {
    unsafe fn gather(
        &self,
        send: SendElements,
        recv: Blocks<*mut c_void>,
        root: c_int,
    ) -> Outcome<Collective> {
        let is_equal = matches!(recv, Blocks::Equal(_));
        let send = unsafe { self.send_to(root, send) }?;
        let recv = if self.is_root(root) { Some(unsafe { self.parts(recv, self.ranks()) }?) } else { None };
        Ok(Collective::Gather { is_equal, send, recv, root: self.root(root)? })
    }

    unsafe fn scatter(
        &self,
        send: Blocks<*const c_void>,
        recv: RecvElements,
        root: c_int,
    ) -> Outcome<Collective> {
        let is_equal = matches!(send, Blocks::Equal(_));
        let send = if self.is_root(root) { Some(unsafe { self.parts(send, self.ranks()) }?) } else { None };
        let recv = if recv.0.addr() == MPI_IN_PLACE || root == MPI_ROOT || self.is_idle(root) {
            None
        } else {
            Some(unsafe { self.recv(recv) }?)
        };
        Ok(Collective::Scatter { is_equal, send, recv, root: self.root(root)? })
    }

    unsafe fn allgather(&self, send: SendElements, recv: Blocks<*mut c_void>) -> Outcome<Collective> {
        let send = unsafe { self.send(send) }?;
        Ok(Collective::Allgather { send, recv: unsafe { self.parts(recv, self.ranks()) }? })
    }

    unsafe fn alltoall(&self, send: Blocks<*const c_void>, recv: Blocks<*mut c_void>) -> Outcome<Collective> {
        let is_in_place = send.at().addr() == MPI_IN_PLACE;
        let send = if is_in_place { None } else { Some(unsafe { self.parts(send, self.ranks()) }?) };
        Ok(Collective::Alltoall { send, recv: unsafe { self.parts(recv, self.ranks()) }? })
    }

    unsafe fn neighbour_allgather(
        &self,
        send: SendElements,
        recv: Blocks<*mut c_void>,
    ) -> Outcome<Collective> {
        let neighbours = self.neighbours()?;
        let send = unsafe { to_send(self.mpi, send) }?;
        let recv = unsafe { self.parts(recv, neighbours.sources.len() as u64) }?;
        Ok(Collective::NeighbourAllgather { send, recv, neighbours })
    }

    unsafe fn neighbour_alltoall(
        &self,
        send: Blocks<*const c_void>,
        recv: Blocks<*mut c_void>,
    ) -> Outcome<Collective> {
        let neighbours = self.neighbours()?;
        let send = unsafe { self.parts(send, neighbours.destinations.len() as u64) }?;
        let recv = unsafe { self.parts(recv, neighbours.sources.len() as u64) }?;
        Ok(Collective::NeighbourAlltoall { send, recv, neighbours })
    }
}

/// Fast paths for short calls with contiguous elements. `None`, for instance if the root is negative: nothing has happened, and the caller
/// takes the general path.
impl Call<'_> {
    #[inline(always)]
    unsafe fn short_broadcast(&self, buffer: RecvElements, root: c_int) -> Option<Result<(), Error>> {
        let buffer = unsafe { raw_to_receive(self.mpi, buffer) }?;
        self.object.communicator.try_broadcast_bytes(buffer, root.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn short_reduce(
        &self,
        send: SendElements,
        recv: RecvElements,
        op: MPI_Op,
        root: c_int,
    ) -> Option<Result<(), Error>> {
        let combine = self.combine(op, send.2)?;
        let own = match send.0.addr() {
            MPI_IN_PLACE => None,
            _ => Some(unsafe { raw_to_send(self.mpi, send) }?),
        };
        let into = self.at_root(root, |_| unsafe { raw_to_receive(self.mpi, recv) })?;
        self.object.communicator.try_reduce_bytes(own, into, combine, root.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn short_allreduce(
        &self,
        send: SendElements,
        recv: RecvElements,
        op: MPI_Op,
    ) -> Option<Result<(), Error>> {
        let combine = self.combine(op, send.2)?;
        let into = unsafe { raw_to_receive(self.mpi, recv) }?;
        let own = match send.0.addr() {
            MPI_IN_PLACE => into.as_bytes(),
            _ => unsafe { raw_to_send(self.mpi, send) }?,
        };
        self.object.communicator.try_allreduce_of_two(own, into, combine)
    }

    #[inline(always)]
    unsafe fn short_gather(
        &self,
        send: SendElements,
        (at, count, datatype): RecvElements,
        root: c_int,
    ) -> Option<Result<(), Error>> {
        let own = unsafe { self.not_in_place(send) }?;
        let into = self.at_root(root, |size| unsafe {
            raw_to_receive(self.mpi, (at, count.checked_mul(size)?, datatype))
        })?;
        self.object.communicator.try_gather_bytes(own, into, root.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn short_scatter(
        &self,
        (at, count, datatype): SendElements,
        recv: RecvElements,
        root: c_int,
    ) -> Option<Result<(), Error>> {
        if recv.0.addr() == MPI_IN_PLACE {
            return None;
        }
        let into = unsafe { raw_to_receive(self.mpi, recv) }?;
        let from = self.at_root(root, |size| unsafe {
            raw_to_send(self.mpi, (at, count.checked_mul(size)?, datatype))
        })?;
        self.object.communicator.try_scatter_bytes(from, into, root.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn short_allgather(
        &self,
        send: SendElements,
        (at, count, datatype): RecvElements,
    ) -> Option<Result<(), Error>> {
        let own = unsafe { self.not_in_place(send) }?;
        let into = unsafe { raw_to_receive(self.mpi, (at, count.checked_mul(2)?, datatype)) }?;
        self.object.communicator.try_allgather_of_two(own, into)
    }

    #[inline(always)]
    unsafe fn short_alltoall(&self, send: SendElements, recv: RecvElements) -> Option<Result<(), Error>> {
        let from = unsafe { self.not_in_place((send.0, send.1.checked_mul(2)?, send.2)) }?;
        let into = unsafe { raw_to_receive(self.mpi, (recv.0, recv.1.checked_mul(2)?, recv.2)) }?;
        self.object.communicator.try_alltoall_of_two(from, into)
    }

    /// How a predefined operation combines elements of a predefined type, for a short reduction; `None` for all others.
    #[inline(always)]
    fn combine(&self, op: MPI_Op, datatype: MPI_Datatype) -> Option<Combine> {
        let op = predefined(op).filter(|op| !matches!(op, PredefinedOp::Replace | PredefinedOp::NoOp))?;
        combine_of(op, self.mpi.predefined_kind(datatype)?)
    }

    /// A value that only the root has: `make` computes it from the number of tasks. `Some(None)` at the other tasks; `None` if `make`
    /// returns `None`.
    #[inline(always)]
    fn at_root<T>(&self, root: c_int, make: impl FnOnce(i64) -> Option<T>) -> Option<Option<T>> {
        if self.rank() != root.cast_unsigned() {
            return Some(None);
        }
        make(self.object.communicator.size().into()).map(Some)
    }

    /// The bytes of elements to send; `None` for `MPI_IN_PLACE`, and in the cases of [`raw_to_send`].
    #[inline(always)]
    unsafe fn not_in_place(&self, elements: SendElements) -> Option<RawBytes> {
        if elements.0.addr() == MPI_IN_PLACE { None } else { unsafe { raw_to_send(self.mpi, elements) } }
    }
}

/// Refuses null arrays that must have elements.
fn check_arrays(parts: u64, are_null: bool) -> Outcome<()> {
    if parts > 0 && are_null {
        let what = format!("an array with an element for each of {parts} ranks is null");
        return Err(Failure::new(ErrorClass::Argument, what));
    }
    Ok(())
}

fn listed<D>(parts: u64, part: impl FnMut(usize) -> Outcome<D>) -> Outcome<Parts<D>> {
    (0..parts as usize).map(part).collect::<Outcome<_>>().map(Parts::Listed)
}

fn all_of(count: i64, parts: u64) -> Outcome<i64> {
    let all = count_of(count)?.checked_mul(parts).and_then(|all| i64::try_from(all).ok());
    all.ok_or_else(|| Failure::from(Error::TooLarge { call: "a collective" }))
}

/// Makes the three forms of a collective from its arguments and a function of a [`Call`]. The blocking form tries `short` first.
macro_rules! collectives {
    ($(
        $name:literal $started:literal $blocking:ident $start:ident $keep:ident ($($argument:ident: $kind:ty),* $(,)?)
        $(short $short:block)? |$call:ident| $make:expr;
    )*) => { $(
        pub(crate) unsafe fn $blocking($($argument: $kind,)* comm: MPI_Comm) -> c_int {
            on_communicator(concat!("MPI_", $name), comm, |mpi, object| {
                let $call = Call { mpi, object };
                $(if let Some(done) = unsafe { $short } {
                    return Ok(done?);
                })?
                #[allow(unused_unsafe, reason = "a barrier has no pointers")]
                let collective = unsafe { $make };
                Ok(collective.run(&object.communicator)?)
            })
        }

        pub(crate) unsafe fn $start($($argument: $kind,)* comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
            on_communicator(concat!("MPI_", $started), comm, |mpi, object| {
                let $call = Call { mpi, object };
                #[allow(unused_unsafe, reason = "a barrier has no pointers")]
                let collective = unsafe { $make };
                let id = collective.start(&object.communicator)?;
                unsafe { *request = keep_request(&object.communicator, id) };
                Ok(())
            })
        }

        pub(crate) unsafe fn $keep(
            $($argument: $kind,)*
            comm: MPI_Comm,
            _info: MPI_Info,
            request: *mut MPI_Request,
        ) -> c_int {
            on_communicator(concat!("MPI_", $name, "_init"), comm, |mpi, object| {
                let $call = Call { mpi, object };
                #[allow(unused_unsafe, reason = "a barrier has no pointers")]
                let collective = unsafe { $make };
                let id = collective.keep(&object.communicator)?;
                unsafe { *request = keep_request(&object.communicator, id) };
                Ok(())
            })
        }
    )* };
}

collectives! {
    "Barrier" "Ibarrier"
    mpi_barrier mpi_ibarrier mpi_barrier_init
    () |_call| Collective::Barrier;

    "Bcast" "Ibcast"
    mpi_bcast_c mpi_ibcast_c mpi_bcast_init_c
    (buffer: RecvElements, root: c_int)
    short { call.short_broadcast(buffer, root) }
    |call| {
        let count = if call.is_idle(root) { 0 } else { buffer.1 };
        Collective::Broadcast { data: call.recv((buffer.0, count, buffer.2))?, root: call.root(root)? }
    };

    "Gather" "Igather"
    mpi_gather_c mpi_igather_c mpi_gather_init_c
    (send: SendElements, recv: RecvElements, root: c_int)
    short { call.short_gather(send, recv, root) }
    |call| call.gather(send, Blocks::Equal(recv), root)?;

    "Gatherv" "Igatherv"
    mpi_gatherv_c mpi_igatherv_c mpi_gatherv_init_c
    (send: SendElements, recv: *mut c_void, counts: Ints, displacements: Ints, datatype: MPI_Datatype, root: c_int)
    |call| call.gather(send, Blocks::Listed(recv, counts, displacements, datatype), root)?;

    "Scatter" "Iscatter"
    mpi_scatter_c mpi_iscatter_c mpi_scatter_init_c
    (send: SendElements, recv: RecvElements, root: c_int)
    short { call.short_scatter(send, recv, root) }
    |call| call.scatter(Blocks::Equal(send), recv, root)?;

    "Scatterv" "Iscatterv"
    mpi_scatterv_c mpi_iscatterv_c mpi_scatterv_init_c
    (send: *const c_void, counts: Ints, displacements: Ints, datatype: MPI_Datatype, recv: RecvElements, root: c_int)
    |call| call.scatter(Blocks::Listed(send, counts, displacements, datatype), recv, root)?;

    "Allgather" "Iallgather"
    mpi_allgather_c mpi_iallgather_c mpi_allgather_init_c
    (send: SendElements, recv: RecvElements)
    short { call.short_allgather(send, recv) }
    |call| call.allgather(send, Blocks::Equal(recv))?;

    "Allgatherv" "Iallgatherv"
    mpi_allgatherv_c mpi_iallgatherv_c mpi_allgatherv_init_c
    (send: SendElements, recv: *mut c_void, counts: Ints, displacements: Ints, datatype: MPI_Datatype)
    |call| call.allgather(send, Blocks::Listed(recv, counts, displacements, datatype))?;

    "Alltoall" "Ialltoall"
    mpi_alltoall_c mpi_ialltoall_c mpi_alltoall_init_c
    (send: SendElements, recv: RecvElements)
    short { call.short_alltoall(send, recv) }
    |call| call.alltoall(Blocks::Equal(send), Blocks::Equal(recv))?;

    "Alltoallv" "Ialltoallv"
    mpi_alltoallv_c mpi_ialltoallv_c mpi_alltoallv_init_c
    (send: *const c_void, sendcounts: Ints, sdispls: Ints, sendtype: MPI_Datatype, recv: *mut c_void,
     recvcounts: Ints, rdispls: Ints, recvtype: MPI_Datatype)
    |call| call.alltoall(
        Blocks::Listed(send, sendcounts, sdispls, sendtype),
        Blocks::Listed(recv, recvcounts, rdispls, recvtype),
    )?;

    "Alltoallw" "Ialltoallw"
    mpi_alltoallw_c mpi_ialltoallw_c mpi_alltoallw_init_c
    (send: *const c_void, sendcounts: Ints, sdispls: Ints, sendtypes: *const MPI_Datatype, recv: *mut c_void,
     recvcounts: Ints, rdispls: Ints, recvtypes: *const MPI_Datatype)
    |call| call.alltoall(
        Blocks::Typed(send, sendcounts, sdispls, sendtypes),
        Blocks::Typed(recv, recvcounts, rdispls, recvtypes),
    )?;

    "Reduce" "Ireduce"
    mpi_reduce_c mpi_ireduce_c mpi_reduce_init_c
    (send: *const c_void, recv: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, root: c_int)
    short { call.short_reduce((send, count, datatype), (recv, count, datatype), op, root) }
    |call| Collective::Reduce {
        send: call.send_to(root, (send, count, datatype))?,
        recv: if call.is_root(root) { Some(call.recv((recv, count, datatype))?) } else { None },
        op: op_of(call.mpi, op)?,
        root: call.root(root)?,
    };

    "Allreduce" "Iallreduce"
    mpi_allreduce_c mpi_iallreduce_c mpi_allreduce_init_c
    (send: *const c_void, recv: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op)
    short { call.short_allreduce((send, count, datatype), (recv, count, datatype), op) }
    |call| Collective::Allreduce {
        send: call.send((send, count, datatype))?,
        recv: call.recv((recv, count, datatype))?,
        op: op_of(call.mpi, op)?,
    };

    "Reduce_scatter_block" "Ireduce_scatter_block"
    mpi_reduce_scatter_block_c mpi_ireduce_scatter_block_c mpi_reduce_scatter_block_init_c
    (send: *const c_void, recv: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op)
    |call| {
        let all = all_of(count, call.object.communicator.size().into())?;
        let send = call.send((send, all, datatype))?;
        let recv = call.recv((recv, if send.is_some() { count } else { all }, datatype))?;
        Collective::ReduceScatterBlock { send, recv, count: count_of(count)?, op: op_of(call.mpi, op)? }
    };

    "Reduce_scatter" "Ireduce_scatter"
    mpi_reduce_scatter_c mpi_ireduce_scatter_c mpi_reduce_scatter_init_c
    (send: *const c_void, recv: *mut c_void, counts: Ints, datatype: MPI_Datatype, op: MPI_Op)
    |call| {
        check_arrays(call.ranks(), counts.is_null())?;
        let counts: Vec<u64> = (0..call.object.communicator.size() as usize)
            .map(|rank| count_of(counts.at(rank)))
            .collect::<Outcome<_>>()?;
        let all = counts.iter().try_fold(0u64, |all, &count| all.checked_add(count));
        let all = all.and_then(|all| i64::try_from(all).ok());
        let all = all.ok_or_else(|| Failure::from(Error::TooLarge { call: "reduce_scatter" }))?;
        let send = call.send((send, all, datatype))?;
        let own = counts[call.rank() as usize] as i64;
        let recv = call.recv((recv, if send.is_some() { own } else { all }, datatype))?;
        Collective::ReduceScatter { send, recv, counts, op: op_of(call.mpi, op)? }
    };

    "Scan" "Iscan"
    mpi_scan_c mpi_iscan_c mpi_scan_init_c
    (send: *const c_void, recv: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op)
    |call| Collective::Scan {
        send: call.send((send, count, datatype))?,
        recv: call.recv((recv, count, datatype))?,
        op: op_of(call.mpi, op)?,
    };

    "Exscan" "Iexscan"
    mpi_exscan_c mpi_iexscan_c mpi_exscan_init_c
    (send: *const c_void, recv: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op)
    |call| Collective::ExclusiveScan {
        send: call.send((send, count, datatype))?,
        recv: call.recv((recv, count, datatype))?,
        op: op_of(call.mpi, op)?,
    };

    "Neighbor_allgather" "Ineighbor_allgather"
    mpi_neighbor_allgather_c mpi_ineighbor_allgather_c mpi_neighbor_allgather_init_c
    (send: SendElements, recv: RecvElements)
    |call| call.neighbour_allgather(send, Blocks::Equal(recv))?;

    "Neighbor_allgatherv" "Ineighbor_allgatherv"
    mpi_neighbor_allgatherv_c mpi_ineighbor_allgatherv_c mpi_neighbor_allgatherv_init_c
    (send: SendElements, recv: *mut c_void, counts: Ints, displacements: Ints, datatype: MPI_Datatype)
    |call| call.neighbour_allgather(send, Blocks::Listed(recv, counts, displacements, datatype))?;

    "Neighbor_alltoall" "Ineighbor_alltoall"
    mpi_neighbor_alltoall_c mpi_ineighbor_alltoall_c mpi_neighbor_alltoall_init_c
    (send: SendElements, recv: RecvElements)
    |call| call.neighbour_alltoall(Blocks::Equal(send), Blocks::Equal(recv))?;

    "Neighbor_alltoallv" "Ineighbor_alltoallv"
    mpi_neighbor_alltoallv_c mpi_ineighbor_alltoallv_c mpi_neighbor_alltoallv_init_c
    (send: *const c_void, sendcounts: Ints, sdispls: Ints, sendtype: MPI_Datatype, recv: *mut c_void,
     recvcounts: Ints, rdispls: Ints, recvtype: MPI_Datatype)
    |call| call.neighbour_alltoall(
        Blocks::Listed(send, sendcounts, sdispls, sendtype),
        Blocks::Listed(recv, recvcounts, rdispls, recvtype),
    )?;

    "Neighbor_alltoallw" "Ineighbor_alltoallw"
    mpi_neighbor_alltoallw_c mpi_ineighbor_alltoallw_c mpi_neighbor_alltoallw_init_c
    (send: *const c_void, sendcounts: Ints, sdispls: *const i64, sendtypes: *const MPI_Datatype, recv: *mut c_void,
     recvcounts: Ints, rdispls: *const i64, recvtypes: *const MPI_Datatype)
    |call| call.neighbour_alltoall(
        Blocks::Typed(send, sendcounts, sdispls.into(), sendtypes),
        Blocks::Typed(recv, recvcounts, rdispls.into(), recvtypes),
    )?;
}
