//! Send and receive, and errors in descriptors.

use crate::pair::{Outcome, Pair, ensure, refused, same, success};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::MemHandle;
use am_via_vipl::{
    AddressSegment, Control, DataSegment, Descriptor, Posted, Status, ViAttributes, ViHandle, ViState,
    VipReturn,
};

table! {
    EarlyAdopter {
        message_arrives: "VipPostSend, VipPostRecv";
        message_of_no_bytes_arrives: "VipPostSend: length 0";
        message_of_each_size_arrives: "NativeMTU and around it";
        message_is_gathered_and_scattered: "data segments";
        message_of_empty_segments_arrives: "data segments of length 0";
        message_carries_immediate_data: "VIP_CONTROL_IMMEDIATE";
        message_without_immediate_data_says_so: "VIP_STATUS_IMMEDIATE";
        immediate_data_of_a_receive_are_ignored: "VIP_CONTROL_IMMEDIATE of a receive";
        message_shorter_than_its_receive_tells_its_length: "control segment: Length";
        message_longer_than_its_receive_is_a_length_error: "VIP_STATUS_LENGTH_ERROR";
        messages_keep_their_order: "work queues are in order";
        descriptor_is_aligned: "VIP_DESCRIPTOR_ALIGNMENT";
        descriptor_comes_back_with_what_was_posted: "VipSendDone";
        descriptor_is_posted_again: "control segment: Status";
        descriptor_of_a_wrong_sum_is_a_length_error: "Length is not the sum of the segments";
        descriptor_of_reserved_bits_is_a_format_error: "VIP_STATUS_FORMAT_ERROR";
        descriptor_of_an_unknown_operation_is_a_format_error: "VIP_STATUS_FORMAT_ERROR";
        descriptor_of_too_many_segments_is_a_format_error: "MaxSegmentsPerDesc, and one beyond";
        descriptor_of_rdma_is_no_receive: "VIP_STATUS_FORMAT_ERROR";
        descriptor_of_a_send_has_no_address: "VIP_STATUS_FORMAT_ERROR";
        descriptor_of_an_unknown_handle_is_a_protection_error: "VIP_STATUS_PROTECTION_ERROR";
        descriptor_beyond_its_memory_is_a_protection_error: "VIP_STATUS_PROTECTION_ERROR";
        descriptor_beyond_the_transfer_size_is_a_length_error: "MaxTransferSize, and one beyond";
        receive_of_unregistered_memory_is_a_protection_error: "VIP_STATUS_PROTECTION_ERROR at the receiver";
        inline_message_arrives_in_order: "a post without a descriptor (beyond VIA 1.0)";
        inline_message_has_a_limit: "a post without a descriptor: 40 bytes, and one beyond";
    }
    Functional {
        error_of_a_send_breaks_a_reliable_connection: "Reliable Delivery: errors";
        error_in_the_middle_flushes_the_rest: "Reliable Delivery: VIP_STATUS_DESC_FLUSHED_ERROR";
    }
}

/// Side A sends the first `len` bytes of a region, and side B receives them.
fn exchange<D: Device>(pair: &mut Pair<D>, vi: ViHandle, len: u32) -> Outcome {
    let region = pair.region(len as usize + 1)?;
    if pair.is_a() {
        region.fill(u64::from(len))?;
        pair.sync()?;
        pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, len)))?;
        let done = pair.sent_well(vi)?;
        same((done.status(), done.length()), (success(Status::OP_SEND), len), "the send")?;
    } else {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, len + 1)))?;
        pair.sync()?;
        let done = pair.received_well(vi)?;
        same((done.status(), done.length()), (success(Status::OP_RECEIVE), len), "the receive")?;
        region.must_hold(0, len as usize, u64::from(len), 0)?;
        same(region.bytes(len as usize, 1)?, vec![0], "the byte behind the message")?;
    }
    pair.sync()
}

fn message_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    exchange(pair, vi, 100)
}

fn message_of_no_bytes_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    exchange(pair, vi, 0)?;
    if pair.is_a() {
        pair.sync()?;
        pair.post_send(vi, Descriptor::send())?;
        pair.sent_well(vi)?;
    } else {
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync()?;
        same(pair.received_well(vi)?.length(), 0, "the length")?;
    }
    Ok(())
}

fn message_of_each_size_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mtu = pair.nic.limits().native_mtu_bytes;
    for attributes in [pair.delivery(), pair.reception(), pair.unreliable()] {
        let vi = pair.connected(attributes)?;
        for len in [1, 7, 8, 39, 40, 41, 64, mtu - 1, mtu, mtu + 1, 2 * mtu, 10 * mtu + 3, 300_000] {
            exchange(pair, vi, len)?;
        }
    }
    Ok(())
}

fn message_is_gathered_and_scattered<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(20_000)?;
    if pair.is_a() {
        region.fill(4)?;
        pair.sync()?;
        let pieces = [(1, 10), (5000, 3000), (100, 1), (9000, 5989)];
        let send = pieces
            .iter()
            .fold(Descriptor::send(), |send, &(at, len)| send.with_segment(region.segment(at, len)));
        pair.post_send(vi, send)?;
        pair.sent_well(vi)?;
    } else {
        let receive = Descriptor::receive()
            .with_segment(region.segment(11_000, 3000))
            .with_segment(region.segment(10, 5000))
            .with_segment(region.segment(15_000, 2000));
        pair.post_recv(vi, receive)?;
        pair.sync()?;
        same(pair.received_well(vi)?.length(), 9000, "the length")?;
        // In the order sent: 10 + 2990 | 10 + 1 + 4989 | 1000.
        region.must_hold(11_000, 10, 4, 1)?;
        region.must_hold(11_010, 2990, 4, 5000)?;
        region.must_hold(10, 10, 4, 7990)?;
        region.must_hold(20, 1, 4, 100)?;
        region.must_hold(21, 4989, 4, 9000)?;
        region.must_hold(15_000, 1000, 4, 13_989)?;
        same(region.bytes(16_000, 1000)?, vec![0; 1000], "what is behind it")?;
    }
    Ok(())
}

fn message_of_empty_segments_arrives<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(16)?;
    let segments = |descriptor: Box<Descriptor>| {
        let empty = region.segment(16, 0);
        descriptor.with_segment(empty).with_segment(region.segment(0, 8)).with_segment(empty)
    };
    region.fill(u64::from(pair.is_a()))?;
    pair.post_recv(vi, segments(Descriptor::receive()))?;
    pair.sync()?;
    if pair.is_a() {
        pair.post_send(vi, segments(Descriptor::send()))?;
        pair.sent_well(vi)?;
    } else {
        same(pair.received_well(vi)?.length(), 8, "the length")?;
        region.must_hold(0, 8, 1, 0)?;
    }
    Ok(())
}

fn message_carries_immediate_data<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let numbers = [0, 1, u32::MAX, 0xdead_beef];
    for _ in numbers {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync()?;
    for number in numbers {
        pair.post_send(vi, Descriptor::send().with_immediate(number))?;
        let done = pair.received_well(vi)?;
        same(done.status(), success(Status::OP_RECEIVE) | Status::IMMEDIATE, "the receive")?;
        same(done.immediate(), Some(number), "the immediate data")?;
    }
    Ok(())
}

fn message_without_immediate_data_says_so<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.sync()?;
    pair.post_send(vi, Descriptor::send())?;
    let done = pair.received_well(vi)?;
    same((done.status(), done.immediate()), (success(Status::OP_RECEIVE), None), "the receive")
}

fn immediate_data_of_a_receive_are_ignored<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive().with_immediate(77))?;
    }
    pair.sync()?;
    pair.post_send(vi, Descriptor::send())?;
    pair.post_send(vi, Descriptor::send().with_immediate(5))?;
    same(pair.received_well(vi)?.immediate(), None, "the immediate data of a send without any")?;
    same(pair.received_well(vi)?.immediate(), Some(5), "the immediate data of a send that has some")
}

fn message_shorter_than_its_receive_tells_its_length<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(1000)?;
    pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, 1000)))?;
    pair.sync()?;
    let from = pair.region(10)?;
    pair.post_send(vi, Descriptor::send().with_segment(from.segment(0, 10)))?;
    let done = pair.received_well(vi)?;
    same(done.length(), 10, "the length")
}

fn message_longer_than_its_receive_is_a_length_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for len in [10, 20_000] {
        let vi = pair.connected(pair.delivery())?;
        let region = pair.region(len as usize)?;
        if pair.is_a() {
            pair.sync()?;
            pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, len)))?;
            pair.until_state(vi, ViState::Error)?;
        } else {
            region.fill(1)?;
            pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, len - 1)))?;
            pair.sync()?;
            ensure(pair.received(vi)?.status().contains(Status::LENGTH_ERROR), "no length error")?;
            region.must_hold(len as usize - 1, 1, 1, len as usize - 1)?;
            pair.until_state(vi, ViState::Error)?;
        }
        pair.sync()?;
    }
    Ok(())
}

fn messages_keep_their_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(5000)?;
    const COUNT: u32 = 300;
    for _ in 0..COUNT {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, 5000)))?;
    }
    pair.sync()?;
    for number in 0..COUNT {
        let len = [0, 8, 5000, 41][number as usize % 4];
        pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, len)).with_immediate(number))?;
    }
    for number in 0..COUNT {
        same(pair.received_well(vi)?.immediate(), Some(number), "the next message")?;
    }
    for number in 0..COUNT {
        same(pair.sent_well(vi)?.immediate(), Some(number), "the next send")?;
    }
    Ok(())
}

fn descriptor_is_aligned<D: Device>(_pair: &mut Pair<D>) -> Outcome {
    // An unaligned descriptor cannot exist: its type ensures the alignment.
    same(align_of::<Descriptor>(), 64, "the alignment of a descriptor")?;
    let all: Vec<_> = (0..50).map(|_| Descriptor::send()).collect();
    ensure(all.iter().all(|one| std::ptr::from_ref(&**one).addr().is_multiple_of(64)), "one is not aligned")
}

fn descriptor_comes_back_with_what_was_posted<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    let region = pair.region(64)?;
    let send = Descriptor::send()
        .with_segment(region.segment(3, 4))
        .with_segment(region.segment(9, 0))
        .with_immediate(2);
    pair.post_send(vi, send)?;
    let done = pair.sent(vi)?;
    same(done.segments(), &[region.segment(3, 4), region.segment(9, 0)][..], "the segments")?;
    same(done.immediate(), Some(2), "the immediate data")
}

fn descriptor_is_posted_again<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    pair.post_recv(vi, Descriptor::receive())?;
    pair.post_send(vi, Descriptor::send())?;
    let done = pair.sent(vi)?;
    ensure(done.status().contains(Status::DESC_FLUSHED_ERROR), "it was flushed")?;
    pair.connect(vi)?;
    pair.post_send(vi, done)?;
    pair.sent_well(vi)?;
    pair.received_well(vi)?;
    Ok(())
}

/// Posts `descriptor` on an unreliable VI, and checks that it ends with `error` and that the VI stays connected.
fn ends_as<D: Device>(pair: &mut Pair<D>, descriptor: Box<Descriptor>, error: Status) -> Outcome {
    let vi = pair.connected(pair.unreliable())?;
    pair.post_send(vi, descriptor)?;
    same(pair.sent(vi)?.status().errors(), error, "the error")?;
    pair.post_send(vi, Descriptor::send())?;
    pair.sent_well(vi)?;
    same(pair.state(vi)?, ViState::Connected, "the state of an unreliable VI")?;
    pair.sync()
}

fn descriptor_of_a_wrong_sum_is_a_length_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    for length in [0, 7, 9, u32::MAX] {
        let wrong = Descriptor::send().with_segment(region.segment(0, 8)).with_length(length);
        ends_as(pair, wrong, Status::LENGTH_ERROR)?;
    }
    let beyond =
        Descriptor::send().with_segment(region.segment(0, u32::MAX)).with_segment(region.segment(0, 1));
    ends_as(pair, beyond, Status::LENGTH_ERROR)
}

fn descriptor_of_reserved_bits_is_a_format_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for bit in 4..16 {
        ends_as(pair, Descriptor::send().with_control(Control(1 << bit)), Status::FORMAT_ERROR)?;
    }
    Ok(())
}

fn descriptor_of_an_unknown_operation_is_a_format_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    ends_as(pair, Descriptor::send().with_control(Control(3)), Status::FORMAT_ERROR)
}

fn descriptor_of_too_many_segments_is_a_format_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    let limit = pair.nic.limits().segments_per_descriptor_max;
    let of =
        |count: u32| (0..count).fold(Descriptor::send(), |send, _| send.with_segment(region.segment(0, 1)));
    ends_as(pair, of(limit), Status::default())?;
    ends_as(pair, of(limit + 1), Status::FORMAT_ERROR)
}

fn descriptor_of_rdma_is_no_receive<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    let place = AddressSegment { handle: region.handle, offset: 0 };
    for wrong in [Descriptor::rdma_write(place), Descriptor::rdma_read(place)] {
        let vi = pair.connected(pair.unreliable())?;
        pair.post_recv(vi, wrong)?;
        pair.sync()?;
        pair.post_send(vi, Descriptor::send())?;
        ensure(pair.received(vi)?.status().contains(Status::FORMAT_ERROR), "no format error")?;
        pair.sync()?;
    }
    Ok(())
}

fn descriptor_of_a_send_has_no_address<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    let place = AddressSegment { handle: region.handle, offset: 0 };
    ends_as(pair, Descriptor::rdma_write(place).with_control(Control::SEND_RECEIVE), Status::FORMAT_ERROR)?;
    ends_as(pair, Descriptor::send().with_control(Control::RDMA_WRITE), Status::FORMAT_ERROR)
}

fn descriptor_of_an_unknown_handle_is_a_protection_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(8)?;
    let stale = MemHandle { generation: region.handle.generation.wrapping_add(1), ..region.handle };
    for handle in [stale, MemHandle { region: u32::MAX, generation: u32::MAX }] {
        let segment = DataSegment { handle, offset: 0, length: 8 };
        ends_as(pair, Descriptor::send().with_segment(segment), Status::PROTECTION_ERROR)?;
    }
    Ok(())
}

fn descriptor_beyond_its_memory_is_a_protection_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(64)?;
    for (offset, length) in [(0, 65), (64, 1), (63, 2), (u64::MAX, 1), (u64::MAX - 3, 8), (1 << 40, 1)] {
        let beyond = Descriptor::send().with_segment(region.segment(offset, length));
        ends_as(pair, beyond, Status::PROTECTION_ERROR)?;
    }
    Ok(())
}

fn descriptor_beyond_the_transfer_size_is_a_length_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let region = pair.region(101)?;
    let vi = pair.connected(ViAttributes { transfer_bytes_max: 100, ..pair.unreliable() })?;
    for (length, error) in [(100, Status::default()), (101, Status::LENGTH_ERROR)] {
        pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, length)))?;
        same(pair.sent(vi)?.status().errors(), error, "the error")?;
    }
    Ok(())
}

fn receive_of_unregistered_memory_is_a_protection_error<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(64)?;
    if pair.is_a() {
        pair.sync()?;
        pair.post_send(vi, Descriptor::send().with_segment(region.segment(0, 8)))?;
    } else {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(0, 64)))?;
        pair.deregister(region.handle)?;
        pair.sync()?;
        ensure(pair.received(vi)?.status().contains(Status::PROTECTION_ERROR), "no protection error")?;
        region.must_be_untouched()?;
    }
    pair.until_state(vi, ViState::Error)
}

fn inline_message_arrives_in_order<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.delivery())?;
    let region = pair.region(1000)?;
    for at in 0..5 {
        pair.post_recv(vi, Descriptor::receive().with_segment(region.segment(at * 200, 200)))?;
    }
    pair.sync()?;
    let from = pair.region(200)?;
    for at in 0..5_u8 {
        if at % 2 == 0 {
            let posted = |pair: &mut Pair<D>| pair.nic.post_inline(vi, Some(u32::from(at)), &[at; 40]);
            pair.until("the VI accepts an inline post", |pair| {
                Ok((posted(pair)? == Posted::Done).then_some(()))
            })?;
        } else {
            let send = Descriptor::send().with_segment(from.segment(0, 200)).with_immediate(u32::from(at));
            pair.post_send(vi, send)?;
        }
    }
    for at in 0..5 {
        let done = pair.received_well(vi)?;
        let length = if at % 2 == 0 { 40 } else { 200 };
        same((done.immediate(), done.length()), (Some(at), length), "the next message")?;
    }
    same(region.bytes(400, 40)?, vec![2; 40], "the bytes")
}

fn inline_message_has_a_limit<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.vi(pair.delivery())?;
    refused(pair.nic.post_inline(vi, None, &[0; 41]), VipReturn::InvalidParameter)?;
    refused(pair.nic.post_inline(vi, None, &[0; 40]), VipReturn::InvalidState)
}

fn error_of_a_send_breaks_a_reliable_connection<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for attributes in [pair.delivery(), pair.reception()] {
        let vi = pair.connected(attributes)?;
        if pair.is_a() {
            pair.post_send(vi, Descriptor::send().with_control(Control(3)))?;
            same(pair.sent(vi)?.status().errors(), Status::FORMAT_ERROR, "the error")?;
        }
        pair.until_state(vi, ViState::Error)?;
        pair.sync()?;
    }
    Ok(())
}

fn error_in_the_middle_flushes_the_rest<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    for _ in 0..2 {
        pair.post_recv(vi, Descriptor::receive())?;
    }
    pair.sync_still()?;
    if pair.is_a() {
        let sends = [
            (Descriptor::send(), Status::default()),
            (Descriptor::send().with_control(Control(3)), Status::FORMAT_ERROR),
            (Descriptor::send(), Status::DESC_FLUSHED_ERROR),
            (Descriptor::send(), Status::DESC_FLUSHED_ERROR),
        ];
        let errors = sends.each_ref().map(|(_, error)| *error);
        for (send, _) in sends {
            pair.post_send(vi, send)?;
        }
        for error in errors {
            same(pair.sent(vi)?.status().errors(), error, "the error, in order")?;
        }
    } else {
        pair.received_well(vi)?;
        same(pair.received(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "the second receive")?;
    }
    Ok(())
}
