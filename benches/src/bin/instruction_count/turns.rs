//! Lets the two tasks of a count alternate through two pipes, outside the library, so that a message is in the ring before the call that
//! receives it starts, and that call polls once.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use am_examples::Failure;

/// The folder of the pipes, which is removed when this value is dropped.
pub(crate) struct Pipes(PathBuf);

impl Pipes {
    pub(crate) fn make() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("am-instruction-count-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Input(format!("cannot make {}: {error}", folder.display())))?;
        let pipes = Self(folder);
        let made = Command::new("mkfifo").args([0, 1].map(|rank| pipes.of(rank))).status();
        if made.is_ok_and(|status| status.success()) {
            return Ok(pipes);
        }
        Err(Failure::Input(format!("mkfifo could not make pipes in {}", pipes.0.display())))
    }

    fn of(&self, rank: u32) -> PathBuf {
        self.0.join(format!("turn.{rank}"))
    }

    /// A file in the same folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The argument for the tasks: the pipes' common name, without the rank at its end.
    pub(crate) fn name(&self) -> PathBuf {
        self.0.join("turn")
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // Remaining temporary files are harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One task's ends of the pipes.
pub(crate) struct Turns {
    own: File,
    peer: File,
}

impl Turns {
    /// Opens the pipes that begin with `name`, as task `rank` of the two.
    pub(crate) fn open(name: &Path, rank: u32) -> Result<Self, Failure> {
        let open = |of: u32| {
            let name = format!("{}.{of}", name.display());
            // Opened for both directions, so that neither task waits in open.
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(&name)
                .map_err(|error| Failure::Input(format!("cannot open {name}: {error}")))
        };
        Ok(Self { own: open(rank)?, peer: open(1 - rank)? })
    }

    pub(crate) fn peer_may_go(&mut self) -> Result<(), Failure> {
        self.peer.write_all(b"x").map_err(|error| Failure::Wrong(format!("the peer's pipe: {error}")))
    }

    pub(crate) fn wait(&mut self) -> Result<(), Failure> {
        self.own.read_exact(&mut [0]).map_err(|error| Failure::Wrong(format!("this task's pipe: {error}")))
    }
}
