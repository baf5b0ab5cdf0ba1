//! TEMPORARY
#![allow(missing_docs)]
use crate::shm::{layout::*, os::memory, segment::*};
use std::fs::File;
use std::io;
use std::os::fd::*;
use std::sync::Arc;
#[derive(Debug)]
pub struct Job {
    task: u32,
    n: u32,
    control: Vec<File>,
    heap: Vec<File>,
    pids: Shared<Pids>,
    heap_bytes: u64,
}
#[repr(C)]
#[derive(Debug)]
pub struct Pids([crate::shm::atomics::AtomicU32; 64]);
// SAFETY: atomics
unsafe impl SharedAtomics for Pids {}
#[derive(Debug)]
pub struct Failure {
    pub task: u32,
}
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "x")
    }
}
impl Job {
    pub fn create_env(n: u32, packet: u32) -> String {
        let l = ControlLayout { num_tasks: n, packet_bytes: packet };
        let mut v = vec![];
        for _ in 0..n {
            let f = memory::create("c", l.file_bytes()).unwrap();
            let m = Mapping::new(f.as_fd(), 0, 4096).unwrap();
            let h: Shared<ControlHeader> = m.atomics(0).unwrap();
            l.write(&h);
            v.push(f.into_raw_fd());
        }
        for _ in 0..n {
            v.push(memory::create("h", 1 << 36).unwrap().into_raw_fd());
        }
        v.push(memory::create("p", 4096).unwrap().into_raw_fd());
        format!("{n}:{}", v.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(","))
    }
    pub fn attach() -> io::Result<Arc<Job>> {
        let e = std::env::var("AM_TMP").unwrap_or_else(|_| Self::create_env(1, 8192));
        let t: u32 = std::env::var("AM_TASK").unwrap_or("0".into()).parse().unwrap();
        let (n, f) = e.split_once(':').unwrap();
        let n: u32 = n.parse().unwrap();
        // SAFETY: tmp
        let fs: Vec<File> = f.split(',').map(|x| unsafe { File::from_raw_fd(x.parse().unwrap()) }).collect();
        let mut fs = fs;
        let pf = fs.pop().unwrap();
        let heap = fs.split_off(n as usize);
        let pids: Shared<Pids> = Mapping::new(pf.as_fd(), 0, 4096)?.atomics(0).unwrap();
        pids.0[t as usize].store(std::process::id(), crate::shm::atomics::Ordering::Relaxed);
        Ok(Arc::new(Job { task: t, n, control: fs, heap, pids, heap_bytes: 1 << 36 }))
    }
    pub fn task(&self) -> u32 {
        self.task
    }
    pub fn num_tasks(&self) -> u32 {
        self.n
    }
    pub fn control_file(&self, t: u32) -> io::Result<BorrowedFd<'_>> {
        Ok(self.control[t as usize].as_fd())
    }
    pub fn heap_file(&self, t: u32) -> io::Result<BorrowedFd<'_>> {
        Ok(self.heap[t as usize].as_fd())
    }
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }
    pub fn pid(&self, t: u32) -> i32 {
        self.pids.0[t as usize].load(crate::shm::atomics::Ordering::Relaxed) as i32
    }
    #[inline(always)]
    pub fn failure_epoch(&self) -> u32 {
        self.pids.0[63].load(crate::shm::atomics::Ordering::Relaxed)
    }
    pub fn is_failed(&self, _t: u32) -> bool {
        false
    }
    pub fn failure(&self) -> Option<Failure> {
        None
    }
    pub fn set_last_words(&self, _w: &str) {}
}
