//! A vector whose elements an operation uses until it has ended.

use std::any::TypeId;
use std::mem::ManuallyDrop;
use std::panic::catch_unwind;
use std::ptr::NonNull;

/// A vector whose element type is erased. Erasing it allocates nothing.
#[derive(Debug)]
pub(crate) struct KeptVec {
    at: NonNull<u8>,
    len: usize,
    capacity: usize,
    element: TypeId,
    free: unsafe fn(NonNull<u8>, usize, usize),
}

impl KeptVec {
    /// Stores a vector. Its elements are not moved.
    pub(crate) fn new<T: Send + 'static>(vector: Vec<T>) -> Self {
        let mut vector = ManuallyDrop::new(vector);
        let at = NonNull::from(vector.as_mut_slice()).cast();
        let (len, capacity) = (vector.len(), vector.capacity());
        Self { at, len, capacity, element: TypeId::of::<T>(), free: free::<T> }
    }

    /// Stores a vector of bytes; also returns their address.
    pub(super) fn with_bytes(vector: Vec<u8>) -> (Self, NonNull<u8>, usize) {
        let kept = Self::new(vector);
        let (at, len) = (kept.at, kept.len);
        (kept, at, len)
    }

    /// The vector, if `T` is its element type; otherwise it is freed.
    pub(crate) fn into_vec<T: 'static>(self) -> Option<Vec<T>> {
        if self.element != TypeId::of::<T>() {
            return None;
        }
        let kept = ManuallyDrop::new(self);
        // SAFETY: `at`, `len` and `capacity` are those of a `Vec<T>` (`new`, and the type was just compared), which `new` has not
        // dropped. `kept` is not dropped either, so this is its only owner.
        Some(unsafe { Vec::from_raw_parts(kept.at.cast().as_ptr(), kept.len, kept.capacity) })
    }
}

// SAFETY: a `KeptVec` owns a vector of Send elements (`new`), and differs from the vector only in its type.
unsafe impl Send for KeptVec {}

impl Drop for KeptVec {
    fn drop(&mut self) {
        // SAFETY: `at`, `len` and `capacity` are those of the vector from which `new` made this value, and `free` is for its element type.
        // Nothing else frees the vector: `into_vec` prevents this drop.
        let freed = catch_unwind(|| unsafe { (self.free)(self.at, self.len, self.capacity) });
        // Elements have destructors of the program, which may run while the engine handles an arrival. Their panics, which the panic hook
        // has reported, must not unwind through the engine.
        std::mem::forget(freed);
    }
}

/// Drops a vector.
///
/// # Safety
/// The parts must be those of a `Vec<T>` that has no other owner.
unsafe fn free<T>(at: NonNull<u8>, len: usize, capacity: usize) {
    // SAFETY: the caller promises that the parts are those of a `Vec<T>` that has no other owner.
    drop(unsafe { Vec::from_raw_parts(at.cast::<T>().as_ptr(), len, capacity) });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_vector_comes_back_as_it_was_and_only_as_what_it_was() {
        let vector = vec![1u64, 2, 3];
        let at = vector.as_ptr();
        let back = KeptVec::new(vector).into_vec::<u64>().unwrap();
        assert_eq!((back.as_ptr(), back), (at, vec![1, 2, 3]));
        assert!(KeptVec::new(vec![1u64]).into_vec::<i64>().is_none());
        assert!(KeptVec::new(Vec::<u8>::new()).into_vec::<u8>().unwrap().is_empty());
    }

    #[test]
    fn elements_are_dropped_once() {
        let element = Arc::new(());
        drop(KeptVec::new(vec![Arc::clone(&element); 3]));
        assert_eq!(Arc::strong_count(&element), 1);
        assert!(KeptVec::new(vec![Arc::clone(&element)]).into_vec::<u8>().is_none());
        assert_eq!(Arc::strong_count(&element), 1);
        let back = KeptVec::new(vec![Arc::clone(&element)]).into_vec::<Arc<()>>().unwrap();
        assert_eq!((Arc::strong_count(&element), back.len()), (2, 1));
    }
}
