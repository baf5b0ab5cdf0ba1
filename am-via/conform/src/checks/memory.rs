//! Protection tags and registered memory.

use std::rc::Rc;

use crate::pair::{Outcome, Pair, ensure, refused, same};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::{MemAttributes, MemHandle};
use am_via_vipl::{AddressSegment, Descriptor, Posted, Status, VipReturn};

table! {
    EarlyAdopter {
        memory_is_registered_and_deregistered: "VipRegisterMem, VipDeregisterMem";
        memory_of_no_bytes_is_not_registered: "VipRegisterMem: VIP_INVALID_PARAMETER";
        memory_beyond_its_end_is_not_registered: "VipRegisterMem: VIP_INVALID_PARAMETER";
        memory_registered_twice_has_two_handles: "VipRegisterMem: overlapping regions";
        memory_deregistered_twice_is_refused: "VipDeregisterMem: VIP_INVALID_PARAMETER";
        memory_handles_are_not_used_again: "VIP_MEM_HANDLE";
        memory_used_after_deregistration_is_a_protection_error: "VIP_STATUS_PROTECTION_ERROR";
        memory_lives_as_long_as_its_registration: "VipRegisterMem: pinned memory";
        memory_of_the_process_itself_moves_too: "VipRegisterMem: any memory of the process";
    }
    Functional {
        tag_is_created_and_destroyed: "VipCreatePtag, VipDestroyPtag";
        tag_destroyed_is_refused: "VIP_INVALID_PTAG";
        tag_of_memory_is_not_destroyed: "VipDestroyPtag: VIP_ERROR_RESOURCE";
        tag_of_a_vi_is_not_destroyed: "VipDestroyPtag: VIP_ERROR_RESOURCE";
        tag_of_another_nic_is_refused: "VIP_INVALID_PTAG";
        tags_have_a_limit: "VIP_NIC_ATTRIBUTES: MaxPtags, and one beyond";
        memory_tells_its_attributes: "VipQueryMem";
        memory_changes_its_attributes: "VipSetMemAttributes";
        memory_attributes_need_a_tag_that_exists: "VipSetMemAttributes: VIP_INVALID_PTAG";
        memory_handle_that_is_unknown_is_refused: "VipQueryMem, VipSetMemAttributes: VIP_INVALID_PARAMETER";
        memory_has_a_limit_of_regions: "VIP_NIC_ATTRIBUTES: MaxRegisterRegions, and one beyond";
        memory_has_a_limit_of_bytes: "VIP_NIC_ATTRIBUTES: MaxRegisterBytes, MaxRegisterBlockBytes, and one beyond";
        memory_handle_of_another_nic_is_refused: "VIP_INVALID_PARAMETER, VIP_STATUS_PROTECTION_ERROR: a foreign memory handle";
        memory_of_another_tag_is_a_protection_error: "protection tags of VI and memory";
        memory_is_not_freed_under_a_peer: "VipDeregisterMem while a peer copies";
    }
}

const NO_RIGHTS: MemAttributes = MemAttributes { ptag: 0, rdma_write: false, rdma_read: false };
const NOWHERE: MemHandle = MemHandle { region: 0x00ff_ffff, generation: 77 };

fn memory_is_registered_and_deregistered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for len in [1, 63, 4096, 100_000] {
        let region = pair.region(len)?;
        same(pair.nic.query_mem(region.handle)?.1, len, "the length")?;
        pair.deregister(region.handle)?;
    }
    Ok(())
}

fn memory_of_no_bytes_is_not_registered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let memory = pair.nic.alloc(64)?;
    for offset in [0, 64, usize::MAX] {
        refused(
            pair.nic.register_mem(&memory, (offset, 0), pair.tag, NO_RIGHTS),
            VipReturn::InvalidParameter,
        )?;
    }
    Ok(())
}

fn memory_beyond_its_end_is_not_registered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let memory = pair.nic.alloc(64)?;
    for range in [(0, 65), (64, 1), (1, 64), (usize::MAX, 2), (1, usize::MAX)] {
        refused(pair.nic.register_mem(&memory, range, pair.tag, NO_RIGHTS), VipReturn::InvalidParameter)?;
    }
    Ok(())
}

fn memory_registered_twice_has_two_handles<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let first = pair.region(100)?;
    let second = pair.register(&first.memory, (50, 50), pair.tag, NO_RIGHTS)?;
    ensure(first.handle != second.handle, "both registrations have one handle")?;
    pair.deregister(first.handle)?;
    same(pair.nic.query_mem(second.handle)?.1, 50, "the length of the second")?;
    pair.deregister(second.handle)
}

fn memory_deregistered_twice_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    pair.deregister(region.handle)?;
    refused(pair.nic.deregister_mem(region.handle), VipReturn::InvalidParameter)?;
    refused(pair.nic.deregister_mem(NOWHERE), VipReturn::InvalidParameter)
}

fn memory_handles_are_not_used_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut seen = Vec::new();
    for _ in 0..100 {
        let region = pair.region(8)?;
        ensure(!seen.contains(&region.handle), "two registrations have the same handle")?;
        seen.push(region.handle);
        pair.deregister(region.handle)?;
    }
    Ok(())
}

fn memory_used_after_deregistration_is_a_protection_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let region = pair.region(8)?;
    pair.deregister(region.handle)?;
    pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, 8)))?;
    same(pair.sent(vi)?.status().errors(), Status::PROTECTION_ERROR, "the send")
}

fn memory_lives_as_long_as_its_registration<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(256)?;
    region.fill(1)?;
    let handle = region.handle;
    drop(region);
    let others = pair.nic.alloc(256)?;
    others.write(0, &[0xff; 256]);
    let to = pair.region(256)?;
    pair.post_recv(vi, Descriptor::receive().with_segment(to.segment(0, 256)))?;
    pair.sync()?;
    let segment = am_via_vipl::DataSegment { handle, offset: 0, length: 256 };
    pair.post_send(vi, Descriptor::send().with_segment(segment))?;
    pair.received_well(vi)?;
    to.must_hold(0, 256, 1, 0)?;
    Ok(())
}

fn memory_of_the_process_itself_moves_too<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let len = 20_000;
    let (from, to) = (pair.nic.alloc_private(len)?, pair.nic.alloc_private(len)?);
    let rights = Pair::<D>::all_rights();
    let from = pair.register(&from, (0, len), pair.tag, rights)?;
    let to = pair.register(&to, (0, len), pair.tag, rights)?;
    from.fill(2)?;
    let handle = pair.swap_handle(to.handle)?;
    let place = AddressSegment { handle, offset: 0 };
    let length = 20_000;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    let write = Descriptor::rdma_write(place).with_segment(from.segment(0, length)).with_immediate(1);
    pair.post_send(vi, write)?;
    pair.received_well(vi)?;
    pair.sent_well(vi)?;
    to.must_hold(0, len, 2, 0)?;
    Ok(())
}

fn tag_is_created_and_destroyed<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (first, second) = (pair.nic.create_ptag()?, pair.nic.create_ptag()?);
    ensure(first != second, "both tags are the same")?;
    pair.nic.destroy_ptag(first)?;
    pair.nic.destroy_ptag(second)?;
    Ok(())
}

fn tag_destroyed_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let tag = pair.nic.create_ptag()?;
    pair.nic.destroy_ptag(tag)?;
    refused(pair.nic.destroy_ptag(tag), VipReturn::InvalidPtag)?;
    let memory = pair.nic.alloc(8)?;
    refused(pair.nic.register_mem(&memory, (0, 8), tag, NO_RIGHTS), VipReturn::InvalidPtag)?;
    refused(pair.nic.create_vi(am_via_vipl::ViAttributes::new(tag), None, None), VipReturn::InvalidPtag)
}

fn tag_of_memory_is_not_destroyed<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let tag = pair.nic.create_ptag()?;
    let region = pair.region_with(8, tag, NO_RIGHTS)?;
    refused(pair.nic.destroy_ptag(tag), VipReturn::ErrorResource)?;
    pair.deregister(region.handle)?;
    Ok(pair.nic.destroy_ptag(tag)?)
}

fn tag_of_a_vi_is_not_destroyed<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let tag = pair.nic.create_ptag()?;
    let vi = pair.vi(am_via_vipl::ViAttributes::new(tag))?;
    refused(pair.nic.destroy_ptag(tag), VipReturn::ErrorResource)?;
    pair.nic.destroy_vi(vi)?;
    Ok(pair.nic.destroy_ptag(tag)?)
}

fn tag_of_another_nic_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut other = pair.open(11)?;
    let foreign = other.create_ptag()?;
    let memory = pair.nic.alloc(8)?;
    refused(pair.nic.register_mem(&memory, (0, 8), foreign, NO_RIGHTS), VipReturn::InvalidPtag)?;
    refused(pair.nic.create_vi(am_via_vipl::ViAttributes::new(foreign), None, None), VipReturn::InvalidPtag)?;
    refused(pair.nic.destroy_ptag(foreign), VipReturn::InvalidPtag)
}

fn tags_have_a_limit<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limit = pair.nic.limits().ptags_max as usize;
    let mut tags = Vec::new();
    let mut refusal = None;
    while tags.len() <= limit && refusal.is_none() {
        match pair.nic.create_ptag() {
            Ok(tag) => tags.push(tag),
            Err(error) => refusal = Some(error.vip_return()),
        }
    }
    let made = tags.len();
    for tag in tags {
        pair.nic.destroy_ptag(tag)?;
    }
    // One tag is used by the helper functions.
    same(
        (made + 1, refusal),
        (limit, Some(VipReturn::ErrorResource)),
        "number of tags, and the refusal of one more",
    )
}

fn memory_tells_its_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for (rdma_write, rdma_read) in [(false, false), (true, false), (false, true), (true, true)] {
        let rights = MemAttributes { ptag: 0, rdma_write, rdma_read };
        let region = pair.region_with(77, pair.tag, rights)?;
        let expected = MemAttributes { ptag: pair.tag.number(), ..rights };
        same(pair.nic.query_mem(region.handle)?, (expected, 77), "attributes and length")?;
    }
    Ok(())
}

fn memory_changes_its_attributes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    let other = pair.nic.create_ptag()?;
    pair.nic.set_mem_attributes(region.handle, other, NO_RIGHTS)?;
    let expected = MemAttributes { ptag: other.number(), ..NO_RIGHTS };
    same(pair.nic.query_mem(region.handle)?, (expected, 8), "attributes and length")?;
    refused(pair.nic.destroy_ptag(other), VipReturn::ErrorResource)?;
    pair.deregister(region.handle)?;
    Ok(pair.nic.destroy_ptag(other)?)
}

fn memory_attributes_need_a_tag_that_exists<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    let before = pair.nic.query_mem(region.handle)?;
    let gone = pair.nic.create_ptag()?;
    pair.nic.destroy_ptag(gone)?;
    refused(pair.nic.set_mem_attributes(region.handle, gone, NO_RIGHTS), VipReturn::InvalidPtag)?;
    same(pair.nic.query_mem(region.handle)?, before, "attributes after the refusal")
}

fn memory_handle_that_is_unknown_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    refused(pair.nic.query_mem(NOWHERE), VipReturn::InvalidParameter)?;
    refused(pair.nic.set_mem_attributes(NOWHERE, pair.tag, NO_RIGHTS), VipReturn::InvalidParameter)
}

fn memory_has_a_limit_of_regions<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limit = pair.nic.limits().regions_max as usize;
    let memory = pair.nic.alloc(8)?;
    let mut handles = Vec::new();
    let mut refusal = None;
    while handles.len() <= limit && refusal.is_none() {
        match pair.nic.register_mem(&memory, (0, 8), pair.tag, NO_RIGHTS) {
            Ok(handle) => handles.push(handle),
            Err(error) => refusal = Some(error.vip_return()),
        }
    }
    let made = handles.len();
    for handle in handles {
        pair.deregister(handle)?;
    }
    same(
        (made, refusal),
        (limit, Some(VipReturn::ErrorResource)),
        "number of regions, and the refusal of one more",
    )?;
    let again = pair.nic.register_mem(&memory, (0, 8), pair.tag, NO_RIGHTS)?;
    pair.deregister(again)
}

fn memory_has_a_limit_of_bytes<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut nic = pair.open(1)?.with_registered_bytes_max(1000);
    let limits = nic.limits();
    same((limits.register_bytes_max, limits.register_block_bytes_max), (1000, 1000), "the limits")?;
    let tag = nic.create_ptag()?;
    let memory = nic.alloc(2000)?;
    let too_much = |nic: &mut am_via_vipl::UserAgent<D>, len| {
        refused(nic.register_mem(&memory, (0, len), tag, NO_RIGHTS), VipReturn::ErrorResource)
    };
    too_much(&mut nic, 1001)?;
    let whole = nic.register_mem(&memory, (0, 1000), tag, NO_RIGHTS)?;
    too_much(&mut nic, 1)?;
    same(nic.deregister_mem(whole)?, Posted::Done, "the end of the registration")?;
    // Memory registered twice counts twice.
    for _ in 0..2 {
        nic.register_mem(&memory, (0, 500), tag, NO_RIGHTS)?;
    }
    too_much(&mut nic, 1)
}

fn memory_handle_of_another_nic_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let mut other = pair.open(2)?;
    let tag = other.create_ptag()?;
    let memory = other.alloc(8)?;
    let handle = other.register_mem(&memory, (0, 8), tag, Pair::<D>::all_rights())?;
    refused(pair.nic.query_mem(handle), VipReturn::InvalidParameter)?;
    refused(pair.nic.set_mem_attributes(handle, pair.tag, NO_RIGHTS), VipReturn::InvalidParameter)?;
    refused(pair.nic.deregister_mem(handle), VipReturn::InvalidParameter)?;
    let segment = am_via_vipl::DataSegment { handle, offset: 0, length: 8 };
    pair.post_send(vi, Descriptor::send().with_segment(segment))?;
    same(pair.sent(vi)?.status().errors(), Status::PROTECTION_ERROR, "the send")?;
    same(other.query_mem(handle)?.1, 8, "the length, at its own NIC")?;
    pair.sync()
}

fn memory_of_another_tag_is_a_protection_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let other = pair.nic.create_ptag()?;
    let region = pair.region_with(8, other, Pair::<D>::all_rights())?;
    pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, 8)))?;
    same(pair.sent(vi)?.status().errors(), Status::PROTECTION_ERROR, "the send")?;
    pair.sync()?;
    pair.deregister(region.handle)?;
    Ok(pair.nic.destroy_ptag(other)?)
}

fn memory_is_not_freed_under_a_peer<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let len = 1 << 20;
    for round in 0..20 {
        let region = pair.region(len)?;
        let handle = pair.swap_handle(region.handle)?;
        if pair.is_a() {
            let place = AddressSegment { handle, offset: 0 };
            pair.post_send(vi, Descriptor::rdma_write(place).with_segment(region.segment(0, 1 << 20)))?;
            let status = pair.sent(vi)?.status();
            pair.swap(&[u64::from(status.is_success())])?;
            if !status.is_success() {
                return ensure(status.contains(Status::RDMA_PROT_ERROR), "not a protection error");
            }
        } else {
            let watched = Rc::clone(&region.memory);
            // In later rounds, the registration ends later in the RDMA write.
            for _ in 0..round * 50 {
                std::hint::spin_loop();
            }
            while pair.nic.deregister_mem(region.handle)? == Posted::Retry {}
            let mut before = vec![0; len];
            let mut after = vec![0; len];
            let (Some(()), Some(())) = (watched.read(0, &mut before), watched.read(0, &mut after)) else {
                return crate::pair::fail("the memory can't be read");
            };
            ensure(before == after, "memory was written after its registration had ended")?;
            if pair.swap(&[])? == [0] {
                return Ok(());
            }
        }
        pair.sync()?;
    }
    Ok(())
}
