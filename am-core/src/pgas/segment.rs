//! Segments: elements in every task.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use bytemuck::Pod;

use super::GlobalPointer;
use super::common::Common;
use crate::buffer::{ExposedRange, RemoteAddress};
use crate::error::{Error, Result};
use crate::task::{Endpoint, TaskId};

/// `count` elements of type `T` in every task: an allocation of a [`SymmetricHeap`](super::SymmetricHeap).
///
/// This task's own part is accessed by copies and atomics, which handlers may use, too (an `Arc` shares the segment with them). There are
/// no references to plain elements, because peers may write to them at any time.
pub struct Segment<T> {
    memory: Arc<Common>,
    /// Bytes from the start of the heap.
    offset: u64,
    count: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Segment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, kind) = (self.memory.num_tasks(), std::any::type_name::<T>());
        write!(f, "{} x {kind} in each of {tasks} tasks at {:#x} of their heap", self.count, self.offset)
    }
}

impl<T: Pod> Segment<T> {
    pub(super) fn within(memory: Arc<Common>, offset: u64, count: u64) -> Self {
        Self { memory, offset, count, kind: PhantomData }
    }

    pub(super) fn memory(&self) -> &Arc<Common> {
        &self.memory
    }

    /// Offset and length in the heap, in bytes.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.offset, self.count * size_of::<T>() as u64)
    }

    /// Elements in each task.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Elements in all tasks together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.count * self.memory.num_tasks()
    }

    /// Element `index` of `task`'s part.
    ///
    /// # Errors
    /// No such task, or an index beyond the end.
    #[inline(always)]
    pub fn at(&self, task: TaskId, index: u64) -> Result<GlobalPointer<T>> {
        match self.memory.part(task) {
            Some((base, mapped)) => {
                let mapped = mapped.elements(self.offset, self.count);
                GlobalPointer::new(base.plus(self.offset), self.count, mapped).plus(index)
            }
            None => Err(self.no_task(task)),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_task(&self, task: TaskId) -> Error {
        let endpoint = Endpoint::new(task, Default::default());
        Error::UnknownTask { endpoint, num_tasks: self.memory.num_tasks() as u32 }
    }

    /// Element `index` of all tasks' parts, distributed cyclically: element i is in the task with number i modulo the number of tasks.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn cyclic(&self, index: u64) -> Result<GlobalPointer<T>> {
        let tasks = self.memory.num_tasks();
        self.at(TaskId(self.memory.first().0 + (index % tasks) as u32), index / tasks)
    }

    /// Element `index` of all tasks' parts, distributed in blocks: the first `count` are in the first task.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn blocked(&self, index: u64) -> Result<GlobalPointer<T>> {
        let count = self.count.max(1);
        let task = u32::try_from(index / count).unwrap_or(u32::MAX);
        self.at(TaskId(self.memory.first().0.saturating_add(task)), index % count)
    }

    /// Element `index` of this task's part.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn get(&self, index: u64) -> Result<T> {
        let mut value = T::zeroed();
        self.read(index, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Sets element `index` of this task's part.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn set(&self, index: u64, value: T) -> Result<()> {
        self.write(index, std::slice::from_ref(&value))
    }

    /// Copies elements of this task's part, from `index` on, to `to`. A concurrent write of a peer may be seen half done.
    ///
    /// # Errors
    /// The elements do not all lie in this task's part.
    #[inline]
    pub fn read(&self, index: u64, to: &mut [T]) -> Result<()> {
        let offset = self.check(index, to.len() as u64)?;
        self.memory.own().read(offset, bytemuck::cast_slice_mut(to))
    }

    /// Copies `from` into this task's part, from `index` on.
    ///
    /// # Errors
    /// The elements do not all lie in this task's part.
    #[inline]
    pub fn write(&self, index: u64, from: &[T]) -> Result<()> {
        let offset = self.check(index, from.len() as u64)?;
        self.memory.own().write(offset, bytemuck::cast_slice(from))
    }

    /// A copy of this task's part.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        let mut values = vec![T::zeroed(); self.count as usize];
        self.read(0, &mut values).expect("the length is that of the segment");
        values
    }

    /// Elements `index..index + count` of this task's part as the destination of a message, to be returned by a header handler.
    ///
    /// # Errors
    /// The elements do not all lie in this task's part.
    pub fn range(&self, index: u64, count: u64) -> Result<ExposedRange> {
        let offset = self.check(index, count)?;
        self.memory.own().range(offset, count * size_of::<T>() as u64)
    }

    /// The address of this task's part, for am-core's calls.
    #[must_use]
    pub fn address(&self) -> RemoteAddress {
        self.memory.own().address(self.offset)
    }

    /// Checks that `count` elements from `index` on lie in this task's part; returns their offset in its region.
    #[inline(always)]
    fn check(&self, index: u64, count: u64) -> Result<u64> {
        let size = size_of::<T>() as u64;
        if index <= self.count && count <= self.count - index {
            Ok(self.offset + index * size)
        } else {
            Err(Error::LocalRange {
                offset: index.saturating_mul(size),
                len: count.saturating_mul(size),
                region_len: self.count * size,
            })
        }
    }
}

impl Segment<u64> {
    /// Element `index` of this task's part as an atomic, which peers may update at the same time.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn atomic(&self, index: u64) -> Result<&AtomicU64> {
        let offset = self.check(index, 1)?;
        self.memory.own().atomic_u64(offset)
    }
}

impl Segment<u32> {
    /// Element `index` of this task's part as an atomic, which peers may update at the same time.
    ///
    /// # Errors
    /// An index beyond the end.
    #[inline]
    pub fn atomic(&self, index: u64) -> Result<&AtomicU32> {
        let offset = self.check(index, 1)?;
        self.memory.own().atomic_u32(offset)
    }
}
