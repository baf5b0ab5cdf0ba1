//! Files of this machine.

use std::fs;
use std::io;

use mpi_io::{AccessMode, Disk, LocalFile, LockKind, Space};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[test]
fn files_are_made_read_locked_and_limited() {
    let path = std::env::temp_dir().join(format!("mpi-io-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    let read_write = AccessMode::READ_WRITE | AccessMode::CREATE;
    let missing = LocalFile::open(&path, AccessMode::READ_ONLY, true).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    // Only the task that makes the file does so.
    assert_eq!(LocalFile::open(&path, read_write, false).unwrap_err().kind(), io::ErrorKind::NotFound);
    let file = LocalFile::open(&path, read_write | AccessMode::EXCLUSIVE, true).unwrap();
    let exists = LocalFile::open(&path, read_write | AccessMode::EXCLUSIVE, true).unwrap_err();
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
    assert!(LocalFile::open(&std::env::temp_dir(), AccessMode::READ_ONLY, true).is_err());

    assert_eq!((file.write_at(b"abc", 10).unwrap(), file.len().unwrap()), (3, 13));
    file.allocate(5000).unwrap();
    assert_eq!(file.len().unwrap(), 5000);
    file.allocate(100).unwrap();
    assert_eq!(file.len().unwrap(), 5000);
    file.set_len(12).unwrap();
    let mut bytes = [7; 20];
    assert_eq!(file.read_at(&mut Space::from(&mut bytes[..]), 9).unwrap(), 3);
    assert_eq!(&bytes[..4], b"\0ab\x07");
    file.sync().unwrap();

    let other = LocalFile::open(&path, AccessMode::READ_WRITE, false).unwrap();
    file.lock(&(0..10), LockKind::Shared).unwrap();
    other.lock(&(0..10), LockKind::Shared).unwrap();
    file.unlock(&(0..10)).unwrap();
    other.unlock(&(0..10)).unwrap();
    file.lock(&(0..10), LockKind::Exclusive).unwrap();
    // Other bytes are free. That the same bytes are not is seen by the thread, which gets them only after the lock is released.
    other.lock(&(10..20), LockKind::Exclusive).unwrap();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| {
            other.lock(&(5..6), LockKind::Exclusive).unwrap();
            let mut byte = [0];
            other.read_at(&mut Space::from(&mut byte[..]), 5).unwrap();
            byte[0]
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        file.write_at(b"x", 5).unwrap();
        file.unlock(&(0..10)).unwrap();
        assert_eq!(waiting.join().unwrap(), b'x');
    });

    // The last step, since the limit holds for the process. Beyond it, a write would end the process by a signal.
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 100, hard).unwrap();
    assert_eq!(file.write_at(&[1; 50], 80).unwrap(), 20);
    let error = file.write_at(&[1; 50], 100).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(file.set_len(101).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(file.allocate(101).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    assert_eq!(file.len().unwrap(), 100);
    fs::remove_file(&path).unwrap();
}
