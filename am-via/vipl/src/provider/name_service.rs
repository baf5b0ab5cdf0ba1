//! The name service (`VipNSInit`, `VipNSGetHostByName`, `VipNSGetHostByAddr`): the names of a job's NICs.
//!
//! Tasks have numbers, so a name contains the number: `task3` for the first context of task 3, `task3.1` for
//! its second.

use am_via_nic::device::{ContextNumber, Endpoint, NICS_MAX, TaskId};

/// The names of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameService {
    num_tasks: u32,
}

impl NameService {
    /// The service of a job of `num_tasks`.
    #[must_use]
    pub(crate) fn new(num_tasks: u32) -> Self {
        Self { num_tasks }
    }

    /// The number of the last task.
    #[must_use]
    pub(crate) fn last(&self) -> u32 {
        self.num_tasks.saturating_sub(1)
    }

    /// The address of NIC `index` of a name; `None` if this job has no such name or NIC. A task's name stands for all contexts of the task,
    /// and a context's name for that context.
    #[must_use]
    pub(crate) fn host_by_name(&self, name: &str, index: u32) -> Option<Endpoint> {
        let numbers = name.strip_prefix("task")?;
        let (task, context) = match numbers.split_once('.') {
            Some((task, context)) if index == 0 => (task, number(context)?),
            Some(_) => return None,
            None => (numbers, index),
        };
        let context = ContextNumber(u8::try_from(context).ok()?);
        let address = Endpoint::new(TaskId(number(task)?), context);
        address.check(self.num_tasks, NICS_MAX).is_ok().then_some(address)
    }

    /// The name of an address; `None` if the job has no such task.
    #[must_use]
    pub(crate) fn host_by_addr(&self, address: Endpoint) -> Option<String> {
        let Endpoint { task: TaskId(task), context } = address;
        address.check(self.num_tasks, NICS_MAX).ok()?;
        Some(if context.0 == 0 { format!("task{task}") } else { format!("task{task}.{context}") })
    }
}

/// Parses a number as `host_by_addr` writes it: digits only, no sign and no leading zero.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_each_others_inverse() {
        let names = NameService::new(12);
        for (task, context) in [(0, 0), (11, 0), (3, 15)] {
            let address = Endpoint::new(TaskId(task), ContextNumber(context));
            let name = names.host_by_addr(address).unwrap();
            assert_eq!(names.host_by_name(&name, 0), Some(address), "{name}");
        }
        assert_eq!(names.host_by_addr(Endpoint::new(TaskId(12), ContextNumber(0))), None);
        assert_eq!(names.host_by_addr(Endpoint::new(TaskId(0), ContextNumber(16))), None);
        assert_eq!(names.host_by_name("task3", 2), Some(Endpoint::new(TaskId(3), ContextNumber(2))));
        assert_eq!((names.host_by_name("task3", 16), names.host_by_name("task3.1", 1)), (None, None));
    }

    #[test]
    fn what_is_no_name_of_this_job_stands_for_nothing() {
        let names = NameService::new(12);
        for name in [
            "",
            "task",
            "task12",
            "task01",
            "task-1",
            "task+1",
            "task1.",
            "task1.0x",
            "node1",
            "task99999999999",
        ] {
            assert_eq!(names.host_by_name(name, 0), None, "{name}");
        }
    }
}
