//! Name service (`VipNSInit` and the like) and system management (`VipQuerySystemManagementInfo`).

use crate::error::VipError;
use crate::provider::{NameService, NicLimits};
use crate::user_agent::UserAgent;
use am_via_nic::Reliability;
use am_via_nic::device::{ContextNumber, Device, Endpoint, TaskId};

/// Properties of a NIC (`VIP_NIC_ATTRIBUTES`), fixed while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicAttributes {
    /// The NIC's name in the name service.
    pub name: String,
    /// The version of the emulated hardware.
    pub hardware_version: u32,
    /// The version of this provider, which is that of the crate.
    pub provider_version: &'static str,
    /// The NIC's address. All addresses have this type, so there is no separate length (VIA's NicAddressLen).
    pub address: Endpoint,
    /// Whether several threads may use the NIC at a time. Never: the borrow checker prevents it.
    pub thread_safe: bool,
    /// The limits of the NIC.
    pub limits: NicLimits,
    /// The reliability levels of the NIC's VIs.
    pub reliability_levels: &'static [Reliability],
    /// The levels that support RDMA reads.
    pub rdma_read_levels: &'static [Reliability],
}

impl<D: Device> UserAgent<D> {
    /// Properties of this NIC (`VipQueryNic`).
    #[must_use]
    pub fn query_nic(&self) -> NicAttributes {
        let address = self.address();
        let names = NameService::new(self.nic.device.attributes().num_tasks);
        NicAttributes {
            name: names.host_by_addr(address).unwrap_or_default(),
            hardware_version: 1,
            provider_version: env!("CARGO_PKG_VERSION"),
            address,
            thread_safe: false,
            limits: self.limits(),
            reliability_levels: &[
                Reliability::Unreliable,
                Reliability::ReliableDelivery,
                Reliability::ReliableReception,
            ],
            rdma_read_levels: &[Reliability::ReliableDelivery, Reliability::ReliableReception],
        }
    }

    /// Starts the name service for this NIC (`VipNSInit`).
    ///
    /// # Errors
    /// The name service is already started.
    pub fn ns_init(&mut self) -> Result<(), VipError> {
        if self.names.is_some() {
            return Err(VipError::NameServiceState { is_started: true });
        }
        self.names = Some(NameService::new(self.nic.device.attributes().num_tasks));
        Ok(())
    }

    /// Ends the name service (`VipNSShutdown`).
    ///
    /// # Errors
    /// The name service was not started.
    pub fn ns_shutdown(&mut self) -> Result<(), VipError> {
        self.names.take().map(drop).ok_or(VipError::NameServiceState { is_started: false })
    }

    /// The address of NIC `index` of a host (`VipNSGetHostByName`). `name` is the name of a task, and `index` the number of a context; or
    /// `name` is the name of a context, and `index` is 0.
    ///
    /// # Errors
    /// The service is not started, or no NIC of the job has that name.
    pub fn host_by_name(&self, name: &str, index: u32) -> Result<Endpoint, VipError> {
        let names = self.names.ok_or(VipError::NameServiceState { is_started: false })?;
        let found = names.host_by_name(name, index);
        found.ok_or_else(|| VipError::NameService { name: name.to_owned(), index, last: names.last() })
    }

    /// The name of an address (`VipNSGetHostByAddr`).
    ///
    /// # Errors
    /// The service is not started, or no NIC of the job has that address.
    pub fn host_by_addr(&self, address: Endpoint) -> Result<String, VipError> {
        let names = self.names.ok_or(VipError::NameServiceState { is_started: false })?;
        names.host_by_addr(address).ok_or(VipError::NameService {
            name: format!("{} (context {})", address.task, address.context),
            index: 0,
            last: names.last(),
        })
    }

    /// The NICs that can be reached in at most `hops` hops (`VipQuerySystemManagementInfo` with `VIP_SMI_AUTODISCOVERY`): with 0 hops only
    /// this NIC; with more, also the first context of each task.
    #[must_use]
    pub fn autodiscover(&self, hops: u32) -> Vec<Endpoint> {
        let own = self.address();
        let tasks = if hops == 0 { 0 } else { self.nic.device.attributes().num_tasks };
        let others =
            (0..tasks).map(|task| Endpoint::new(TaskId(task), ContextNumber(0))).filter(|&at| at != own);
        std::iter::once(own).chain(others).collect()
    }
}
