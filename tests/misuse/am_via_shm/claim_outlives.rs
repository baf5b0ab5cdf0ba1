//! A range of registered memory ends before its registration can.
#![forbid(unsafe_code)]

use am_via_shm::PrivateRegions;
use am_via_shm::regions::Claim;

fn wrong(table: &mut PrivateRegions, claim: Claim) {
    let range = table.claim(claim, 0).unwrap();
    table.remove(claim.region, claim.generation);
    range.zero();
}

fn main() {
    let _ = wrong;
}
