//! RDMA writes with and without immediate data, RDMA reads, and all kinds of invalid access to a peer's memory.

use crate::pair::{Outcome, Pair, Region, ensure, same, success};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::{MemAttributes, MemHandle};
use am_via_vipl::{AddressSegment, AsyncCode, Control, Descriptor, Status, ViAttributes, ViHandle, ViState};

table! {
    EarlyAdopter {
        write_places_its_bytes_silently: "RDMA Write: the target gets no notification";
        write_with_immediate_data_takes_one_receive: "RDMA Write with immediate data";
        write_with_immediate_data_needs_no_segment_there: "RDMA Write with immediate data: the receive's segments";
        write_is_in_place_before_its_immediate_data: "RDMA Write with immediate data: order";
        write_is_in_place_before_a_later_send: "RDMA Write, then VipPostSend: order";
        write_of_each_size_arrives: "NativeMTU and around it";
        write_is_gathered: "RDMA Write: data segments";
        write_of_no_bytes_is_done: "RDMA Write: length 0";
        write_without_a_receive_for_its_immediate_data_breaks: "VIP_ERROR_RECVQ_EMPTY";
    }
    Functional {
        write_without_the_right_is_refused: "EnableRdmaWrite of the memory: VIP_STATUS_RDMA_PROT_ERROR, VIP_ERROR_RDMAW_PROT";
        write_through_a_vi_without_the_right_is_refused: "EnableRdmaWrite of the VI";
        write_to_memory_of_another_tag_is_refused: "protection tags of the remote VI and memory";
        write_beyond_the_memory_is_refused: "RDMA Write: bounds";
        write_to_memory_of_another_nic_is_refused: "RDMA Write: VIP_MEM_HANDLE of another NIC of the peer";
        write_to_a_stale_handle_is_refused: "RDMA Write: a deregistered region";
        write_to_an_unknown_handle_is_refused: "RDMA Write: VIP_MEM_HANDLE";
        write_after_a_change_of_rights_is_refused: "VipSetMemAttributes";
        write_refused_on_an_unreliable_vi_keeps_the_connection: "Unreliable Delivery: VIP_ERROR_RDMAW_PROT";
        write_of_an_own_wrong_segment_touches_nothing: "VIP_STATUS_PROTECTION_ERROR at the origin";
    }
    Full {
        read_fetches_its_bytes_silently: "RDMA Read";
        read_of_each_size_arrives: "NativeMTU and around it";
        read_is_scattered: "RDMA Read: data segments";
        read_of_no_bytes_is_done: "RDMA Read: length 0";
        read_without_the_right_is_refused: "EnableRdmaRead of the memory: VIP_ERROR_RDMAR_PROT";
        read_through_a_vi_without_the_right_is_refused: "EnableRdmaRead of the VI";
        read_beyond_the_memory_is_refused: "RDMA Read: bounds";
        read_to_a_stale_handle_is_refused: "RDMA Read: a deregistered region";
        read_with_immediate_data_is_a_format_error: "RDMA Read: VIP_CONTROL_IMMEDIATE";
        read_on_an_unreliable_vi_is_refused: "Unreliable Delivery: no RDMA Read";
        fence_waits_for_earlier_reads: "VIP_CONTROL_QFENCE";
    }
}

fn place(handle: MemHandle, offset: u64) -> AddressSegment {
    AddressSegment { handle, offset }
}

/// Connects the two sides, and makes a region on each. Returns the VI, this side's region, and the handle of the other side's region.
fn set_up<D: Device>(
    pair: &mut Pair<D>,
    attributes: ViAttributes,
    len: usize,
) -> Outcome<(ViHandle, Region, MemHandle)> {
    let vi = pair.connected(attributes)?;
    let region = pair.region(len)?;
    let theirs = pair.swap_handle(region.handle)?;
    Ok((vi, region, theirs))
}

fn write_places_its_bytes_silently<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.reception(), 200)?;
    if pair.is_a() {
        region.fill(1)?;
        pair.post_send(vi, Descriptor::rdma_write(place(theirs, 50)).with_segment(region.segment(0, 100)))?;
        let done = pair.sent_well(vi)?;
        same((done.status(), done.length()), (success(Status::OP_RDMA_WRITE), 100), "the write")?;
        pair.sync()?;
    } else {
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync()?;
        region.must_hold(50, 100, 1, 0)?;
        same(
            (region.bytes(0, 50)?, region.bytes(150, 50)?),
            (vec![0; 50], vec![0; 50]),
            "what lies around it",
        )?;
        ensure(pair.nic.recv_done(vi)?.is_none(), "a receive was taken")?;
    }
    Ok(())
}

fn write_with_immediate_data_takes_one_receive<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 100)?;
    if pair.is_a() {
        pair.sync()?;
        let write =
            Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(0, 100)).with_immediate(11);
        pair.post_send(vi, write)?;
        pair.sent_well(vi)?;
    } else {
        let extra = pair.region(8)?;
        pair.post_recv(vi, Descriptor::receive().with_segment(extra.segment(0, 8)))?;
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync()?;
        let done = pair.received_well(vi)?;
        same(done.status(), success(Status::OP_REMOTE_RDMA_WRITE) | Status::IMMEDIATE, "the receive")?;
        same((done.immediate(), done.length()), (Some(11), 100), "immediate data and length")?;
        extra.must_be_untouched()?;
        ensure(pair.nic.recv_done(vi)?.is_none(), "a second receive was taken")?;
    }
    Ok(())
}

fn write_with_immediate_data_needs_no_segment_there<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 5000)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    // Each side writes into the second half of the other's region.
    let write = Descriptor::rdma_write(place(theirs, 2500)).with_segment(region.segment(0, 2500));
    pair.post_send(vi, write.with_immediate(1))?;
    same(pair.received_well(vi)?.length(), 2500, "the length of the write")
}

fn write_is_in_place_before_its_immediate_data<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 9000)?;
    for round in 0..50 {
        if pair.is_a() {
            region.fill(round)?;
            pair.sync()?;
            let write = Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(0, 9000));
            pair.post_send(vi, write.with_immediate(1))?;
            pair.sent_well(vi)?;
        } else {
            pair.post_recv(vi, Descriptor::receive())?;
            pair.sync()?;
            pair.received_well(vi)?;
            region.must_hold(0, 9000, round, 0)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn write_is_in_place_before_a_later_send<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 9000)?;
    for round in 0..50 {
        if pair.is_a() {
            region.fill(round)?;
            pair.sync()?;
            pair.post_send(
                vi,
                Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(0, 9000)),
            )?;
            pair.post_send(vi, Descriptor::send())?;
            pair.sent_well(vi)?;
            pair.sent_well(vi)?;
        } else {
            pair.post_recv(vi, Descriptor::receive())?;
            pair.sync()?;
            pair.received_well(vi)?;
            region.must_hold(0, 9000, round, 0)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn write_of_each_size_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mtu = pair.nic.limits().native_mtu_bytes;
    for attributes in [pair.delivery(), pair.reception(), pair.unreliable()] {
        let (vi, region, theirs) = set_up(pair, attributes, 1 << 20)?;
        for len in [1, 8, 40, 41, mtu - 16, mtu - 1, mtu, mtu + 1, 7 * mtu + 5, 1 << 20] {
            if pair.is_a() {
                region.fill(u64::from(len))?;
                pair.sync()?;
                let write = Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(0, len));
                pair.post_send(vi, write.with_immediate(len))?;
                pair.sent_well(vi)?;
            } else {
                pair.post_recv(vi, Descriptor::receive())?;
                pair.sync()?;
                same(pair.received_well(vi)?.immediate(), Some(len), "the immediate data")?;
                region.must_hold(0, len as usize, u64::from(len), 0)?;
            }
            pair.sync()?;
        }
    }
    Ok(())
}

fn write_is_gathered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.reception(), 10_000)?;
    if pair.is_a() {
        region.fill(3)?;
        let write = Descriptor::rdma_write(place(theirs, 1))
            .with_segment(region.segment(5000, 4500))
            .with_segment(region.segment(0, 0))
            .with_segment(region.segment(7, 1));
        pair.post_send(vi, write)?;
        pair.sent_well(vi)?;
        pair.sync()
    } else {
        pair.sync()?;
        region.must_hold(1, 4500, 3, 5000)?;
        region.must_hold(4501, 1, 3, 7)?;
        same((region.bytes(0, 1)?, region.bytes(4502, 9)?), (vec![0], vec![0; 9]), "what lies around it")
    }
}

fn write_of_no_bytes_is_done<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 8)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    pair.post_send(vi, Descriptor::rdma_write(place(theirs, 8)))?;
    pair.post_send(
        vi,
        Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(3, 0)).with_immediate(4),
    )?;
    pair.sent_well(vi)?;
    pair.sent_well(vi)?;
    let done = pair.received_well(vi)?;
    same((done.immediate(), done.length()), (Some(4), 0), "immediate data and length")?;
    region.must_be_untouched()
}

fn write_without_a_receive_for_its_immediate_data_breaks<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 8)?;
    if pair.is_a() {
        let write = Descriptor::rdma_write(place(theirs, 0)).with_segment(region.segment(0, 8));
        pair.post_send(vi, write.with_immediate(1))?;
    } else {
        pair.async_error(AsyncCode::ReceiveQueueEmpty)?;
    }
    pair.until_state(vi, ViState::Error)
}

/// Checks that side A's access, which `access` builds from the other side's handle, is refused, and that side B's memory is unchanged.
fn is_refused<D: Device>(
    pair: &mut Pair<D>,
    attributes: ViAttributes,
    region: &Region,
    access: impl FnOnce(MemHandle) -> Box<Descriptor>,
    code: AsyncCode,
) -> Outcome {
    let vi = pair.connected(attributes)?;
    let theirs = pair.swap_handle(region.handle)?;
    let own = pair.region(64)?;
    own.fill(5)?;
    if pair.is_a() {
        pair.post_send(vi, access(theirs).with_segment(own.segment(0, 64)))?;
        let status = pair.sent(vi)?.status();
        ensure(status.contains(Status::RDMA_PROT_ERROR), &format!("the access ended as {status:?}"))?;
        own.must_hold(0, 64, 5, 0)?;
        pair.until_state(vi, ViState::Error)?;
    } else {
        pair.async_error(code)?;
        pair.until_state(vi, ViState::Error)?;
        region.must_be_untouched()?;
    }
    // Discards the other reports: that of the lost connection.
    while pair.nic.next_error().is_some() {}
    pair.sync()
}

fn write_is_refused<D: Device>(pair: &mut Pair<D>, region: &Region, offset: u64) -> Outcome {
    for attributes in [pair.delivery(), pair.reception()] {
        let write = |theirs| Descriptor::rdma_write(place(theirs, offset));
        is_refused(pair, attributes, region, write, AsyncCode::RdmaWriteProtection)?;
    }
    Ok(())
}

fn read_is_refused<D: Device>(pair: &mut Pair<D>, region: &Region, offset: u64) -> Outcome {
    let read = |theirs| Descriptor::rdma_read(place(theirs, offset));
    is_refused(pair, pair.delivery(), region, read, AsyncCode::RdmaReadProtection)
}

fn write_without_the_right_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let rights = MemAttributes { ptag: 0, rdma_write: false, rdma_read: true };
    let region = pair.region_with(64, pair.tag, rights)?;
    write_is_refused(pair, &region, 0)
}

fn write_through_a_vi_without_the_right_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    let closed = ViAttributes { rdma_write: false, ..pair.delivery() };
    let write = |theirs| Descriptor::rdma_write(place(theirs, 0));
    is_refused(pair, closed, &region, write, AsyncCode::RdmaWriteProtection)
}

fn write_to_memory_of_another_tag_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let other = pair.nic.create_ptag()?;
    let region = pair.region_with(64, other, Pair::<D>::all_rights())?;
    write_is_refused(pair, &region, 0)?;
    pair.deregister(region.handle)?;
    Ok(pair.nic.destroy_ptag(other)?)
}

fn write_to_memory_of_another_nic_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut other = pair.open(3)?;
    // Memory of another NIC of this side, with a tag of that NIC.
    let tag = other.create_ptag()?;
    let memory = other.alloc(64)?;
    let handle = other.register_mem(&memory, (0, 64), tag, Pair::<D>::all_rights())?;
    write_is_refused(pair, &Region { memory, handle }, 0)
}

fn write_beyond_the_memory_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let memory = pair.nic.alloc(256)?;
    // Memory next to the range is not accessible.
    let region = pair.register(&memory, (64, 64), pair.tag, Pair::<D>::all_rights())?;
    for offset in [1, 64, u64::MAX, u64::MAX - 63, 1 << 63] {
        write_is_refused(pair, &region, offset)?;
    }
    Ok(())
}

fn write_to_a_stale_handle_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    pair.deregister(region.handle)?;
    // The new region may get the same slot of the table, and the same memory.
    let next = pair.region(64)?;
    write_is_refused(pair, &region, 0)?;
    if !pair.is_a() { next.must_be_untouched() } else { Ok(()) }
}

fn write_to_an_unknown_handle_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    for (number, generation) in
        [(u32::MAX, 1), (1 << 20, 0), (region.handle.region, 0), (region.handle.region, u32::MAX)]
    {
        let wrong = Region { handle: MemHandle { region: number, generation }, ..region.clone() };
        write_is_refused(pair, &wrong, 0)?;
    }
    Ok(())
}

fn write_after_a_change_of_rights_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.reception(), 64)?;
    let own = pair.region(64)?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::rdma_write(place(theirs, 0)).with_segment(own.segment(0, 64)))?;
        pair.sent_well(vi)?;
    }
    pair.sync()?;
    let rights = MemAttributes { ptag: 0, rdma_write: false, rdma_read: true };
    pair.nic.set_mem_attributes(region.handle, pair.tag, rights)?;
    pair.sync()?;
    write_is_refused(pair, &region, 0)
}

fn write_refused_on_an_unreliable_vi_keeps_the_connection<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    let rights = MemAttributes { ptag: 0, rdma_write: false, rdma_read: false };
    let region = pair.region_with(64, pair.tag, rights)?;
    let theirs = pair.swap_handle(region.handle)?;
    let own = pair.region(64)?;
    own.fill(1)?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    if pair.is_a() {
        pair.post_send(vi, Descriptor::rdma_write(place(theirs, 0)).with_segment(own.segment(0, 64)))?;
        pair.sent(vi)?;
        pair.post_send(vi, Descriptor::send().with_immediate(2))?;
        pair.sent_well(vi)?;
    } else {
        same(pair.received_well(vi)?.immediate(), Some(2), "the message after it")?;
        pair.async_error(AsyncCode::RdmaWriteProtection)?;
        region.must_be_untouched()?;
    }
    same(pair.state(vi)?, ViState::Connected, "the state")
}

fn write_of_an_own_wrong_segment_touches_nothing<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 64)?;
    if pair.is_a() {
        let own = pair.region(64)?;
        own.fill(1)?;
        let write = Descriptor::rdma_write(place(theirs, 0))
            .with_segment(own.segment(0, 8))
            .with_segment(own.segment(60, 8));
        pair.post_send(vi, write)?;
        ensure(pair.sent(vi)?.status().contains(Status::PROTECTION_ERROR), "no protection error")?;
    }
    pair.until_state(vi, ViState::Error)?;
    if !pair.is_a() {
        region.must_be_untouched()?;
    }
    Ok(())
}

fn read_fetches_its_bytes_silently<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 200)?;
    if pair.is_a() {
        pair.sync()?;
        pair.post_send(vi, Descriptor::rdma_read(place(theirs, 50)).with_segment(region.segment(0, 100)))?;
        let done = pair.sent_well(vi)?;
        same((done.status(), done.length()), (success(Status::OP_RDMA_READ), 100), "the read")?;
        region.must_hold(0, 100, 1, 50)?;
        same(region.bytes(100, 100)?, vec![0; 100], "what lies behind it")?;
        pair.sync()?;
    } else {
        region.fill(1)?;
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync()?;
        pair.sync()?;
        ensure(pair.nic.recv_done(vi)?.is_none(), "a receive was taken")?;
    }
    Ok(())
}

fn read_of_each_size_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mtu = pair.nic.limits().native_mtu_bytes;
    for attributes in [pair.delivery(), pair.reception()] {
        let (vi, region, theirs) = set_up(pair, attributes, 1 << 20)?;
        if !pair.is_a() {
            region.fill(7)?;
        }
        pair.sync()?;
        for len in [1, 8, 40, 41, mtu - 1, mtu, mtu + 1, 7 * mtu + 5, 1 << 20] {
            if pair.is_a() {
                pair.post_send(
                    vi,
                    Descriptor::rdma_read(place(theirs, 0)).with_segment(region.segment(0, len)),
                )?;
                same(pair.sent_well(vi)?.length(), len, "the length")?;
                region.must_hold(0, len as usize, 7, 0)?;
            }
        }
        pair.sync()?;
    }
    Ok(())
}

fn read_is_scattered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 10_000)?;
    if !pair.is_a() {
        region.fill(2)?;
    }
    pair.sync()?;
    if pair.is_a() {
        let read = Descriptor::rdma_read(place(theirs, 100))
            .with_segment(region.segment(9000, 10))
            .with_segment(region.segment(0, 0))
            .with_segment(region.segment(1, 5000));
        pair.post_send(vi, read)?;
        pair.sent_well(vi)?;
        region.must_hold(9000, 10, 2, 100)?;
        region.must_hold(1, 5000, 2, 110)?;
        same(
            (region.bytes(0, 1)?, region.bytes(5001, 3999)?),
            (vec![0], vec![0; 3999]),
            "what lies around it",
        )?;
    }
    Ok(())
}

fn read_of_no_bytes_is_done<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, _, theirs) = set_up(pair, pair.delivery(), 8)?;
    pair.post_send(vi, Descriptor::rdma_read(place(theirs, 0)))?;
    same(pair.sent_well(vi)?.length(), 0, "the length")
}

fn read_without_the_right_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: false };
    let region = pair.region_with(64, pair.tag, rights)?;
    read_is_refused(pair, &region, 0)
}

fn read_through_a_vi_without_the_right_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    let closed = ViAttributes { rdma_read: false, ..pair.delivery() };
    let read = |theirs| Descriptor::rdma_read(place(theirs, 0));
    is_refused(pair, closed, &region, read, AsyncCode::RdmaReadProtection)
}

fn read_beyond_the_memory_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    for offset in [1, 64, u64::MAX, u64::MAX - 63] {
        read_is_refused(pair, &region, offset)?;
    }
    Ok(())
}

fn read_to_a_stale_handle_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    pair.deregister(region.handle)?;
    read_is_refused(pair, &region, 0)
}

fn read_with_immediate_data_is_a_format_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 64)?;
    if pair.is_a() {
        let read =
            Descriptor::rdma_read(place(theirs, 0)).with_segment(region.segment(0, 64)).with_immediate(1);
        pair.post_send(vi, read)?;
        same(pair.sent(vi)?.status().errors(), Status::FORMAT_ERROR, "the error")?;
    }
    Ok(())
}

fn read_on_an_unreliable_vi_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.unreliable(), 64)?;
    pair.post_send(vi, Descriptor::rdma_read(place(theirs, 0)).with_segment(region.segment(0, 64)))?;
    ensure(!pair.sent(vi)?.status().is_success(), "an unreliable VI has read")?;
    region.must_be_untouched()
}

fn fence_waits_for_earlier_reads<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let (vi, region, theirs) = set_up(pair, pair.delivery(), 200_000)?;
    for round in 0..10 {
        if pair.is_a() {
            pair.sync()?;
            // Reads, then sends the read bytes: with a fence, the new bytes are sent.
            pair.post_send(
                vi,
                Descriptor::rdma_read(place(theirs, 0)).with_segment(region.segment(0, 100_000)),
            )?;
            let fenced = Descriptor::send()
                .with_control(Control::QUEUE_FENCE)
                .with_segment(region.segment(0, 100_000));
            pair.post_send(vi, fenced)?;
            same(pair.sent_well(vi)?.status().operation(), Status::OP_RDMA_READ, "what is done first")?;
            pair.sent_well(vi)?;
        } else {
            region.fill(round)?;
            pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(100_000, 100_000)))?;
            pair.sync()?;
            pair.received_well(vi)?;
            region.must_hold(100_000, 100_000, round, 0)?;
        }
        pair.sync()?;
    }
    Ok(())
}
