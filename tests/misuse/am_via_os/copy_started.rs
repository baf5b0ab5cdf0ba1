//! A detached copy of the process has lost all files and threads that its code may know.
#![forbid(unsafe_code)]

fn body(_link: std::os::unix::net::UnixStream) {}

fn main() {
    let _ = am_via_os::detached::start(body);
}
