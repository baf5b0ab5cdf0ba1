//! Access modes (MPI 5.0 section 14.2.1).

use std::ops::BitOr;

/// How a file is opened (`amode`): a set of modes, made by `|`.
///
/// ```
/// use mpi_io::AccessMode;
///
/// let mode = AccessMode::CREATE | AccessMode::WRITE_ONLY;
/// assert!(mode.check().is_ok());
/// assert!((mode | AccessMode::READ_ONLY).check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessMode(u32);

/// A set of modes that no file can be opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the access mode {bits:#x} is not valid: {what}")]
pub struct WrongMode {
    /// The modes, as the standard ABI's bits.
    pub bits: u32,
    /// What is wrong, and what to do.
    pub what: &'static str,
}

impl AccessMode {
    /// All accesses are behind the end of the file when it is opened (`MPI_MODE_APPEND`).
    pub const APPEND: Self = Self(1);
    /// The file is made if it does not exist (`MPI_MODE_CREATE`).
    pub const CREATE: Self = Self(2);
    /// The file is deleted when it is closed (`MPI_MODE_DELETE_ON_CLOSE`).
    pub const DELETE_ON_CLOSE: Self = Self(4);
    /// The file must not exist yet (`MPI_MODE_EXCL`).
    pub const EXCLUSIVE: Self = Self(8);
    /// The file is only read (`MPI_MODE_RDONLY`).
    pub const READ_ONLY: Self = Self(16);
    /// The file is read and written (`MPI_MODE_RDWR`).
    pub const READ_WRITE: Self = Self(32);
    /// The file is only accessed by the shared pointer (`MPI_MODE_SEQUENTIAL`).
    pub const SEQUENTIAL: Self = Self(64);
    /// Nothing else opens the file meanwhile (`MPI_MODE_UNIQUE_OPEN`).
    pub const UNIQUE_OPEN: Self = Self(128);
    /// The file is only written (`MPI_MODE_WRONLY`).
    pub const WRITE_ONLY: Self = Self(256);

    const ALL: u32 = 511;

    /// The modes with these bits of the standard ABI. [`check`](Self::check) rejects unknown bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits of the standard ABI.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all modes of `other` are in this set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the file can be read.
    #[must_use]
    pub const fn reads(self) -> bool {
        !self.has(Self::WRITE_ONLY)
    }

    /// Whether the file can be written.
    #[must_use]
    pub const fn writes(self) -> bool {
        !self.has(Self::READ_ONLY)
    }

    /// Checks that a file can be opened with these modes.
    ///
    /// # Errors
    /// Unknown bits, not exactly one of the modes for reading and writing, or modes that exclude each other.
    pub const fn check(self) -> Result<(), WrongMode> {
        let ways = self.has(Self::READ_ONLY) as u8
            + self.has(Self::READ_WRITE) as u8
            + self.has(Self::WRITE_ONLY) as u8;
        let what = if self.0 & !Self::ALL != 0 {
            "it has unknown bits"
        } else if ways != 1 {
            "exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY must be set"
        } else if self.has(Self::READ_ONLY) && (self.has(Self::CREATE) || self.has(Self::EXCLUSIVE)) {
            "MPI_MODE_CREATE and MPI_MODE_EXCL need a file that can be written"
        } else if self.has(Self::READ_WRITE) && self.has(Self::SEQUENTIAL) {
            "a file with MPI_MODE_SEQUENTIAL can be read or written, but not both"
        } else {
            return Ok(());
        };
        Err(WrongMode { bits: self.0, what })
    }
}

impl BitOr for AccessMode {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_combinations_of_the_standard_are_valid() {
        use AccessMode as M;
        for valid in [
            M::READ_ONLY,
            M::READ_WRITE | M::CREATE,
            M::WRITE_ONLY | M::SEQUENTIAL | M::CREATE | M::EXCLUSIVE,
        ] {
            assert_eq!(valid.check(), Ok(()));
        }
        for wrong in [
            M::CREATE,
            M::READ_ONLY | M::WRITE_ONLY,
            M::READ_ONLY | M::CREATE,
            M::READ_ONLY | M::EXCLUSIVE,
            M::READ_WRITE | M::SEQUENTIAL,
            M::from_bits(16 | 1024),
        ] {
            assert_eq!(wrong.check().unwrap_err().bits, wrong.bits());
        }
    }
}
