//! Two threads cannot copy to and from the same bytes: the copies are plain ones.
#![forbid(unsafe_code)]

fn shared<T: Sync>() {}

fn main() {
    shared::<am_via_shm::PrivateBytes>();
    shared::<am_via_shm::HeapBlock>();
    shared::<am_via_shm::CheckedRange<'static>>();
    shared::<am_via_shm::Connection>();
}
