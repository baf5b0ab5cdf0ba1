//! Memory to read into.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsFd;

/// Memory that is only written: bytes in which nothing was stored may have no value.
#[derive(Debug)]
pub struct Space<'a>(Bytes<'a>);

#[derive(Debug)]
enum Bytes<'a> {
    WithValues(&'a mut [u8]),
    MaybeWithout(&'a mut [MaybeUninit<u8>]),
}

impl<'a> From<&'a mut [u8]> for Space<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self(Bytes::WithValues(bytes))
    }
}

impl<'a> From<&'a mut [MaybeUninit<u8>]> for Space<'a> {
    fn from(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        Self(Bytes::MaybeWithout(bytes))
    }
}

impl Space<'_> {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::WithValues(bytes) => bytes.len(),
            Bytes::MaybeWithout(bytes) => bytes.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the memory.
    ///
    /// # Panics
    /// The part does not lie inside.
    #[must_use]
    pub fn part(&mut self, part: Range<usize>) -> Space<'_> {
        Space(match &mut self.0 {
            Bytes::WithValues(bytes) => Bytes::WithValues(&mut bytes[part]),
            Bytes::MaybeWithout(bytes) => Bytes::MaybeWithout(&mut bytes[part]),
        })
    }

    /// Stores bytes from byte `at` on.
    ///
    /// # Panics
    /// They do not lie inside.
    pub fn store(&mut self, at: usize, from: &[u8]) {
        match &mut self.0 {
            Bytes::WithValues(bytes) => bytes[at..at + from.len()].copy_from_slice(from),
            Bytes::MaybeWithout(bytes) => {
                for (place, &byte) in bytes[at..at + from.len()].iter_mut().zip(from) {
                    place.write(byte);
                }
            }
        }
    }

    /// Reads bytes of a file from `at` on, as many as the system returns.
    pub(crate) fn read_from(&mut self, file: impl AsFd, at: u64) -> io::Result<usize> {
        Ok(match &mut self.0 {
            Bytes::WithValues(bytes) => rustix::io::pread(file, &mut **bytes, at)?,
            Bytes::MaybeWithout(bytes) => rustix::io::pread(file, &mut **bytes, at)?.0.len(),
        })
    }
}
