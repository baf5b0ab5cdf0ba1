//! NICs, the name service, and system management.

use crate::pair::{Outcome, Pair, ensure, refused, same};
use crate::suite::table;
use am_via_nic::Device;
use am_via_nic::device::{ContextNumber, Endpoint, TaskId};
use am_via_vipl::{
    AsyncCode, Descriptor, Discriminator, NetAddress, Reliability, Status, ViState, VipReturn,
};

table! {
    EarlyAdopter {
        nic_opens_by_name: "VipOpenNic";
        nic_of_an_unknown_name_is_refused: "VipOpenNic: VIP_INVALID_PARAMETER";
        nic_attributes_do_not_change: "VipQueryNic: static values";
        nic_attributes_say_how_much_there_is: "VIP_NIC_ATTRIBUTES";
        nic_attributes_name_the_levels: "VIP_NIC_ATTRIBUTES: ReliabilityLevelSupport, RDMAReadSupport";
        nic_has_an_address_of_its_own: "VIP_NIC_ATTRIBUTES: LocalNicAddress";
    }
    Functional {
        nic_opened_twice_is_refused: "VipOpenNic: VIP_ERROR_RESOURCE";
        nic_that_closes_breaks_its_connections: "VipCloseNic; VIP_ERROR_CONN_LOST";
    }
    Full {
        names_need_the_service_started: "VipNSInit: VIP_ERROR_NAMESERVICE";
        names_are_started_and_ended_once: "VipNSInit, VipNSShutdown";
        name_of_the_peer_is_found: "VipNSGetHostByName";
        name_with_an_index_is_another_nic: "VipNSGetHostByName: index";
        name_that_nobody_has_is_refused: "VipNSGetHostByName: VIP_ERROR_NAMESERVICE";
        address_of_the_peer_has_its_name: "VipNSGetHostByAddr";
        address_that_nobody_has_is_refused: "VipNSGetHostByAddr: VIP_ERROR_NAMESERVICE";
        autodiscovery_finds_the_peer: "VipQuerySystemManagementInfo: VIP_SMI_AUTODISCOVERY";
        address_that_was_found_can_be_connected_to: "VipNSGetHostByName, VipConnectRequest";
    }
}

fn nic_opens_by_name<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let nic = match pair.open_by_name("shm9") {
        Some(opened) => opened?,
        // The emulated wire opens NICs by address.
        None => pair.open(9)?,
    };
    same(nic.address(), Endpoint { context: ContextNumber(9), ..pair.nic.address() }, "the address")
}

fn nic_of_an_unknown_name_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for name in ["", "shm", "shm16", "shm-1", "shm01", "SHM0", "/dev/via0", "shm99999999999"] {
        if let Some(opened) = pair.open_by_name(name) {
            refused(opened, VipReturn::InvalidParameter)?;
        }
    }
    Ok(())
}

fn nic_opened_twice_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let context = pair.nic.address().context;
    refused(pair.open(context.0), VipReturn::ErrorResource)
}

fn nic_attributes_do_not_change<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let before = pair.nic.query_nic();
    let vi = pair.connected(pair.delivery())?;
    pair.region(100)?;
    same(pair.nic.query_nic(), before, "the attributes")?;
    pair.nic.disconnect(vi)?;
    Ok(())
}

fn nic_attributes_say_how_much_there_is<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let limits = pair.nic.query_nic().limits;
    for (what, number, least) in [
        ("MaxVI", limits.vis_max, 64),
        ("MaxDescriptorsPerQueue", limits.descriptors_per_queue_max, 64),
        ("MaxSegmentsPerDesc", limits.segments_per_descriptor_max, 4),
        ("MaxCQ", limits.cqs_max, 4),
        ("MaxCQEntries", limits.cq_entries_max, 1024),
        ("MaxTransferSize", limits.transfer_bytes_max, 32 * 1024),
        ("NativeMTU", limits.native_mtu_bytes, 64),
        ("MaxPtags", limits.ptags_max, 16),
        ("MaxRegisterRegions", limits.regions_max, 64),
        ("MaxDiscriminatorLen", limits.discriminator_bytes_max, 16),
    ] {
        ensure(number >= least, &format!("{what} is only {number}"))?;
    }
    let (all, one) = (limits.register_bytes_max, limits.register_block_bytes_max);
    ensure(one >= 1 << 20, "MaxRegisterBlockBytes is less than 1 MiB")?;
    ensure(all >= one, "MaxRegisterBytes is less than one registration may have")
}

fn nic_attributes_name_the_levels<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let attributes = pair.nic.query_nic();
    for level in [Reliability::Unreliable, Reliability::ReliableDelivery, Reliability::ReliableReception] {
        ensure(attributes.reliability_levels.contains(&level), &format!("{level:?} is missing"))?;
        let reads = attributes.rdma_read_levels.contains(&level);
        same(reads, level != Reliability::Unreliable, "RDMA reads at this level")?;
    }
    ensure(!attributes.provider_version.is_empty() && !attributes.thread_safe, "version or thread safety")
}

fn nic_has_an_address_of_its_own<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let own = pair.nic.address();
    same(pair.nic.query_nic().address, own, "the address")?;
    let theirs = pair.swap(&[u64::from(own.task.0), u64::from(own.context.0)])?;
    ensure(theirs != [u64::from(own.task.0), u64::from(own.context.0)], "both have the same address")
}

fn nic_that_closes_breaks_its_connections<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let endpoint = Discriminator::new(b"closing")?;
    if pair.is_a() {
        let mut nic = pair.open(10)?;
        let tag = nic.create_ptag()?;
        let vi = nic.create_vi(am_via_vipl::ViAttributes::new(tag), None, None)?;
        pair.sync_still()?;
        nic.connect_request(vi, endpoint, NetAddress::new(pair.other(), endpoint), None)?;
        pair.sync()?;
        nic.close();
        pair.sync()
    } else {
        let vi = pair.vi(pair.delivery())?;
        pair.post_recv(vi, Descriptor::receive())?;
        pair.sync_still()?;
        let request = pair.nic.connect_wait(endpoint, None)?;
        same(
            request.from.host,
            Endpoint { context: ContextNumber(10), ..pair.other() },
            "the address of the client",
        )?;
        pair.nic.connect_accept(&request, vi)?;
        pair.sync()?;
        pair.until_state(vi, ViState::Error)?;
        same(pair.received(vi)?.status().errors(), Status::DESC_FLUSHED_ERROR, "the receive")?;
        pair.async_error(AsyncCode::ConnectionLost)?;
        pair.sync()
    }
}

fn names_need_the_service_started<D: Device>(pair: &mut Pair<D>) -> Outcome {
    refused(pair.nic.host_by_name("task0", 0), VipReturn::ErrorNameService)?;
    refused(pair.nic.host_by_addr(pair.nic.address()), VipReturn::ErrorNameService)?;
    refused(pair.nic.ns_shutdown(), VipReturn::ErrorNameService)
}

fn names_are_started_and_ended_once<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for _ in 0..2 {
        pair.nic.ns_init()?;
        refused(pair.nic.ns_init(), VipReturn::ErrorNameService)?;
        pair.nic.host_by_name("task0", 0)?;
        pair.nic.ns_shutdown()?;
        refused(pair.nic.ns_shutdown(), VipReturn::ErrorNameService)?;
    }
    Ok(())
}

/// Runs `work` while the name service runs.
fn named<D: Device>(pair: &mut Pair<D>, work: impl FnOnce(&Pair<D>) -> Outcome) -> Outcome {
    pair.nic.ns_init()?;
    let outcome = work(pair);
    pair.nic.ns_shutdown()?;
    outcome
}

fn name_of_the_peer_is_found<D: Device>(pair: &mut Pair<D>) -> Outcome {
    named(pair, |pair| {
        let other = pair.other();
        same(pair.nic.host_by_name(&format!("task{}", other.task.0), 0)?, other, "the address")
    })
}

fn name_with_an_index_is_another_nic<D: Device>(pair: &mut Pair<D>) -> Outcome {
    named(pair, |pair| {
        let second = Endpoint { context: ContextNumber(1), ..pair.other() };
        same(pair.nic.host_by_name(&format!("task{}", second.task.0), 1)?, second, "the address")?;
        same(pair.nic.host_by_name(&format!("task{}.1", second.task.0), 0)?, second, "the address")?;
        refused(pair.nic.host_by_name("task0", 16), VipReturn::ErrorNameService)
    })
}

fn name_that_nobody_has_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    named(pair, |pair| {
        for name in ["", "task", "task2", "task00", "host0", "task0.16", "task-1", "task4294967296"] {
            refused(pair.nic.host_by_name(name, 0), VipReturn::ErrorNameService)?;
        }
        Ok(())
    })
}

fn address_of_the_peer_has_its_name<D: Device>(pair: &mut Pair<D>) -> Outcome {
    named(pair, |pair| {
        let name = pair.nic.host_by_addr(pair.other())?;
        same(pair.nic.host_by_name(&name, 0)?, pair.other(), "the address of that name")
    })
}

fn address_that_nobody_has_is_refused<D: Device>(pair: &mut Pair<D>) -> Outcome {
    named(pair, |pair| {
        for address in
            [Endpoint::new(TaskId(2), ContextNumber(0)), Endpoint::new(TaskId(0), ContextNumber(16))]
        {
            refused(pair.nic.host_by_addr(address), VipReturn::ErrorNameService)?;
        }
        Ok(())
    })
}

fn autodiscovery_finds_the_peer<D: Device>(pair: &mut Pair<D>) -> Outcome {
    same(pair.nic.autodiscover(0), vec![pair.nic.address()], "what is 0 hops away")?;
    same(pair.nic.autodiscover(1), vec![pair.nic.address(), pair.other()], "what is one hop away")
}

fn address_that_was_found_can_be_connected_to<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let endpoint = Discriminator::new(b"by name")?;
    let vi = pair.vi(pair.delivery())?;
    if pair.is_a() {
        pair.nic.ns_init()?;
        let found = pair.nic.host_by_name("task1", 0);
        pair.nic.ns_shutdown()?;
        let to = NetAddress::new(found?, endpoint);
        pair.sync_still()?;
        pair.nic.connect_request(vi, endpoint, to, None)?;
    } else {
        pair.sync_still()?;
        let request = pair.nic.connect_wait(endpoint, None)?;
        pair.nic.connect_accept(&request, vi)?;
    }
    same(pair.state(vi)?, ViState::Connected, "the state")
}
