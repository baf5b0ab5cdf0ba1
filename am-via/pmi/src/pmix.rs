//! PMIx, by a library that comes with the launcher and is opened at run time, since the protocol between library and launcher is private to
//! them and changes.
//!
//! The structures are those of the PMIx standard, version 4, to which `libpmix.so.2` keeps.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::ptr::{self, NonNull};

use am_via_os::library;

use crate::{Launcher, wrong};

/// The name of a process: its job, as a C string, and its number in the job.
#[repr(C)]
struct Process {
    namespace: [c_char; 256],
    rank: u32,
}

/// All processes of a job, or the job itself, instead of a number.
const RANK_WILDCARD: u32 = u32::MAX - 1;

/// A value: its kind and 24 bytes, which hold a pointer to text, or a number in the first bytes.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    text: *mut c_char,
    number: u32,
    flag: bool,
    _all: [u64; 3],
}

/// An instruction for a call.
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

impl Info {
    /// Makes a fence give the values of all processes to all servers. Otherwise a server fetches a process's values at the first request,
    /// and answers `NOT-FOUND` for a value that the process stored after that.
    fn collect_data() -> Self {
        let mut key = [0; 512];
        for (to, from) in key.iter_mut().zip(c"pmix.collect".to_bytes()) {
            // C's `char` is signed on x86-64 and unsigned on aarch64.
            *to = *from as c_char;
        }
        Self { key, flags: 0, value: Value { kind: BOOL, data: Data { flag: true } } }
    }
}

const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;
const SUCCESS: c_int = 0;
/// Values are for all processes of the job.
const GLOBAL: u8 = 3;
const JOB_SIZE: &CStr = c"pmix.job.size";

type Init = unsafe extern "C" fn(*mut Process, *mut c_void, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int;
type Get =
    unsafe extern "C" fn(*const Process, *const c_char, *const c_void, usize, *mut *mut Value) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Process, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions of the library that are used here.
#[derive(Clone, Copy, Debug)]
struct Library {
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    abort: Abort,
    error_string: ErrorString,
}

/// The launcher that the library talks to.
pub(super) struct Pmix {
    library: Library,
    own: Process,
    num_tasks: u32,
    is_finalized: bool,
    /// While this socket has its name, programs that this process starts do not join as the same task, although they inherit the launcher's
    /// variables.
    _taken: UnixListener,
}

impl std::fmt::Debug for Pmix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pmix")
            .field("rank", &self.own.rank)
            .field("num_tasks", &self.num_tasks)
            .finish_non_exhaustive()
    }
}

impl Pmix {
    /// Joins the launcher that the environment names; `None` if it names none, if the job has one process, or if another process has joined
    /// as the same task.
    pub(super) fn find() -> io::Result<Option<Self>> {
        let (Ok(namespace), Ok(rank)) = (std::env::var("PMIX_NAMESPACE"), std::env::var("PMIX_RANK")) else {
            return Ok(None);
        };
        // SAFETY: no arguments, and the call cannot fail.
        let own_user = unsafe { libc::geteuid() };
        let Some(taken) = take_name(&format!("am-pmix-{namespace}-{rank}"), own_user)? else {
            tracing::warn!(
                namespace,
                rank,
                "another process has joined as this task of PMIx: this process is a job of one"
            );
            return Ok(None);
        };
        let library = Library::open()?;
        let mut own = Process { namespace: [0; 256], rank: 0 };
        // SAFETY: the library writes the process's name into `own`; no further information is given.
        library.check("PMIx_Init", unsafe { (library.init)(&raw mut own, ptr::null_mut(), 0) })?;
        let mut new = Self { library, own, num_tasks: 1, is_finalized: false, _taken: taken };
        new.num_tasks = new.value(RANK_WILDCARD, JOB_SIZE, |value| match value.kind {
            // SAFETY: the kind says that the value is this number.
            UINT32 => Ok(unsafe { value.data.number }),
            kind => {
                Err(wrong(format!("PMIx gives the number of tasks as a value of the unknown kind {kind}")))
            }
        })?;
        if new.num_tasks < 2 {
            new.finalize()?;
            return Ok(None);
        }
        Ok(Some(new))
    }

    /// A value of process `rank`, converted by `read`.
    fn value<T>(&self, rank: u32, key: &CStr, read: impl FnOnce(&Value) -> io::Result<T>) -> io::Result<T> {
        let of = Process { namespace: self.own.namespace, rank };
        let mut found: *mut Value = ptr::null_mut();
        // SAFETY: the call gets a process and a C string, both live during the call, no further information, and a variable for the answer.
        let code = unsafe { (self.library.get)(&raw const of, key.as_ptr(), ptr::null(), 0, &raw mut found) };
        self.library.check("PMIx_Get", code)?;
        let Some(found) = NonNull::new(found) else {
            return Err(wrong("PMIx_Get returned no value".to_owned()));
        };
        // SAFETY: the library has made the value for this caller only.
        let value = unsafe { found.as_ref() };
        let result = read(value);
        // SAFETY: the text, if the value is one, and the value were allocated by malloc (strdup, PMIX_VALUE_CREATE), belong to this caller,
        // and are not used again.
        unsafe {
            if value.kind == STRING {
                libc::free(value.data.text.cast());
            }
            libc::free(found.as_ptr().cast());
        }
        result
    }

    fn check_open(&self) -> io::Result<()> {
        if self.is_finalized {
            Err(wrong("PMIx: this process has already told the launcher that it ends".to_owned()))
        } else {
            Ok(())
        }
    }
}

/// Takes the name of a task, until the socket is closed. `None`: another process of this user has it. Every user can take any abstract
/// name, and a task whose name is another user's must not go on as a job of one.
fn take_name(name: &str, own_user: libc::uid_t) -> io::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(name)?;
    match UnixListener::bind_addr(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound.map(Some),
    }
    let whose = UnixStream::connect_addr(&address).and_then(|holder| user_of(&holder));
    match whose {
        Ok(user) if user == own_user => Ok(None),
        Ok(user) => Err(wrong(format!(
            "user {user} has the socket @{name}, by which this task of PMIx would be known on this machine: end that user's process, and \
             start the job again"
        ))),
        Err(error) => Err(wrong(format!(
            "an unknown process has the socket @{name}, by which this task of PMIx would be known on this machine ({error}): end that \
             process (`ss -xap` lists it), and start the job again"
        ))),
    }
}

/// The user whose process listens at the other end.
fn user_of(link: &UnixStream) -> io::Result<libc::uid_t> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // SAFETY: a live socket, and memory for a `ucred` with its length (unix(7), SO_PEERCRED).
    let code = unsafe {
        let (at, option) = ((&raw mut found).cast(), libc::SO_PEERCRED);
        libc::getsockopt(link.as_raw_fd(), libc::SOL_SOCKET, option, at, &raw mut len)
    };
    if code == 0 { Ok(found.uid) } else { Err(io::Error::last_os_error()) }
}

impl Launcher for Pmix {
    fn task(&self) -> u32 {
        self.own.rank
    }

    fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    fn put(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.check_open()?;
        let (key, text) = (c_string(&format!("am-{key}"))?, c_string(value)?);
        let mut value = Value { kind: STRING, data: Data { text: text.as_ptr().cast_mut() } };
        // SAFETY: the key is a C string, and the value contains one. Both live during the call; the library copies them and writes neither.
        let code = unsafe { (self.library.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", code)
    }

    fn fence(&mut self) -> io::Result<()> {
        self.check_open()?;
        // SAFETY: no arguments.
        self.library.check("PMIx_Commit", unsafe { (self.library.commit)() })?;
        let collect = Info::collect_data();
        // SAFETY: no processes are named, which means all of the job; the one instruction is live during the call, and the library only
        // reads it.
        let code = unsafe { (self.library.fence)(ptr::null(), 0, &raw const collect, 1) };
        self.library.check("PMIx_Fence", code)
    }

    fn get(&mut self, task: u32, key: &str) -> io::Result<String> {
        self.check_open()?;
        self.value(task, &c_string(&format!("am-{key}"))?, |value| match value.kind {
            // SAFETY: the kind says that the value is a C string, which the library has allocated.
            STRING => Ok(unsafe { library::text(value.data.text) }.unwrap_or_default()),
            kind => Err(wrong(format!("task {task} has stored a value of kind {kind} as {key}"))),
        })
    }

    fn finalize(&mut self) -> io::Result<()> {
        self.check_open()?;
        self.is_finalized = true;
        // SAFETY: no further information is given.
        self.library.check("PMIx_Finalize", unsafe { (self.library.finalize)(ptr::null(), 0) })
    }

    fn abort(&mut self, code: i32) {
        if !self.is_finalized {
            // SAFETY: the text is a C string; no processes are named, which means all of the job. If the call fails, the launcher sees the
            // end of this process.
            unsafe { (self.library.abort)(code, c"the program ends its job".as_ptr(), ptr::null_mut(), 0) };
        }
    }
}

impl Library {
    fn open() -> io::Result<Self> {
        // SAFETY: the library's initialisers may run now, like those of any library that is linked.
        let library = unsafe { library::Library::open(c"libpmix.so.2") }.map_err(not_usable)?;
        // SAFETY: each symbol is a function of the type that the field has, as <pmix.h> declares it.
        unsafe {
            Ok(Self {
                init: library.symbol(c"PMIx_Init").map_err(not_usable)?,
                finalize: library.symbol(c"PMIx_Finalize").map_err(not_usable)?,
                put: library.symbol(c"PMIx_Put").map_err(not_usable)?,
                commit: library.symbol(c"PMIx_Commit").map_err(not_usable)?,
                fence: library.symbol(c"PMIx_Fence").map_err(not_usable)?,
                get: library.symbol(c"PMIx_Get").map_err(not_usable)?,
                abort: library.symbol(c"PMIx_Abort").map_err(not_usable)?,
                error_string: library.symbol(c"PMIx_Error_string").map_err(not_usable)?,
            })
        }
    }

    fn check(self, doing: &str, code: c_int) -> io::Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for; the answer is a static C string.
        let why = unsafe { library::text((self.error_string)(code)) }.unwrap_or_default();
        Err(wrong(format!("{doing}: {why} ({code})")))
    }
}

fn not_usable(why: String) -> io::Error {
    let what = "the launcher speaks PMIx, and its library cannot be opened (LD_LIBRARY_PATH names its folder; Debian: libpmix2)";
    io::Error::new(io::ErrorKind::NotFound, format!("{what}: {why}"))
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_user_has_is_an_error_and_no_job_of_one() {
        let name = |which: &str| format!("am-pmix-test-{}-{which}", std::process::id());
        // SAFETY: no arguments, and the call cannot fail.
        let own_user = unsafe { libc::geteuid() };
        let taken = take_name(&name("own"), own_user).unwrap();
        assert!(taken.is_some());
        assert!(take_name(&name("own"), own_user).unwrap().is_none(), "this user's own process has it");
        let told = take_name(&name("own"), own_user + 1).unwrap_err().to_string();
        assert!(told.starts_with(&format!("user {own_user} has the socket @am-pmix-test-")), "{told}");
        drop(taken);
        assert!(take_name(&name("own"), own_user).unwrap().is_some());
    }
}
