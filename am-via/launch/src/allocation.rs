//! The tasks and hosts that a batch system has allocated to the job in which the launcher runs: Slurm, PBS, LSF, Grid Engine.

use std::fmt;
use std::path::Path;

use super::hosts::{Host, merged};

/// Maximum number of hosts in a list of Slurm's. A longer list is not one of a real machine.
const HOSTS_MAX: usize = 1 << 16;

/// Variables of a process that a launcher has started as a task: the allocation is that launcher's, and not the task's.
const OF_TASKS: [&str; 4] = ["AM_TASK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"];

/// Slurm gives step numbers from here on to the script of a job (batch) and to an interactive shell, which are not tasks of `srun`.
const SLURM_STEPS_MAX: u32 = 0xffff_fff0;

/// The tasks and hosts that a batch system has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The name of the batch system.
    pub system: &'static str,
    /// Number of tasks.
    pub tasks: u32,
    /// The hosts, with the number of tasks on each if it is known; empty if the system names none.
    pub hosts: Vec<Host>,
}

impl Allocation {
    /// The allocation of the batch job in which this process runs, by the variables of its environment. `None` outside of a batch job, and
    /// if this process is a task: of `srun`, of `amrun` or of another launcher.
    ///
    /// # Errors
    /// A text that names the variable that is not understood.
    pub fn of_this_process() -> Result<Option<Self>, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::of(&variable, &|file| std::fs::read_to_string(file))
    }

    fn of(
        variable: &dyn Fn(&str) -> Option<String>,
        read: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Option<Self>, String> {
        let step = variable("SLURM_STEP_ID").and_then(|step| step.parse::<u32>().ok());
        if OF_TASKS.iter().any(|name| variable(name).is_some())
            || step.is_some_and(|step| step < SLURM_STEPS_MAX)
        {
            return Ok(None);
        }
        let file = |name: &str| match variable(name) {
            Some(path) => {
                let text = read(Path::new(&path));
                text.map(Some).map_err(|error| format!("the file of {name}, {path}, cannot be read: {error}"))
            }
            None => Ok(None),
        };
        if let Some(slurm) = of_slurm(variable)? {
            return Ok(Some(slurm));
        }
        if let Some(text) = file("PBS_NODEFILE")? {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            return Ok(Self::by_slots("PBS", lines.map(|name| Host::with_slots(name, 1)).collect()));
        }
        if let Some(text) = variable("LSB_MCPU_HOSTS") {
            let words: Vec<&str> = text.split_whitespace().collect();
            let pairs = words.chunks(2).map(|pair| Some((pair[0], pair.get(1)?.parse().ok()?)));
            let hosts: Option<Vec<_>> =
                pairs.map(|pair| pair.map(|(name, slots)| Host::with_slots(name, slots))).collect();
            let hosts = hosts.ok_or_else(|| format!("LSB_MCPU_HOSTS={text:?} is not understood"))?;
            return Ok(Self::by_slots("LSF", hosts));
        }
        if let Some(text) = file("PE_HOSTFILE")? {
            let of_line = |line: &str| {
                let mut words = line.split_whitespace();
                Some(Host::with_slots(words.next()?, words.next()?.parse().ok()?))
            };
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let hosts: Option<Vec<_>> = lines.map(of_line).collect();
            let hosts = hosts.ok_or_else(|| "the file of PE_HOSTFILE is not understood".to_owned())?;
            return Ok(Self::by_slots("Grid Engine", hosts));
        }
        Ok(None)
    }

    /// As many tasks as the hosts have slots; `None` without hosts.
    fn by_slots(system: &'static str, hosts: Vec<Host>) -> Option<Self> {
        let hosts: Vec<Host> = merged(hosts).into_iter().filter(|host| host.slots != Some(0)).collect();
        let tasks = hosts.iter().filter_map(|host| host.slots).fold(0, u32::saturating_add);
        (tasks > 0).then_some(Self { system, tasks, hosts })
    }
}

/// `Slurm: 3 tasks on a:2,b:1`.
impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 8;
        write!(f, "{}: {} task{}", self.system, self.tasks, if self.tasks == 1 { "" } else { "s" })?;
        for (at, host) in self.hosts.iter().take(SHOWN_MAX).enumerate() {
            write!(f, "{}{}", if at == 0 { " on " } else { "," }, host.name)?;
            if let Some(slots) = host.slots {
                write!(f, ":{slots}")?;
            }
        }
        match self.hosts.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more hosts"),
        }
    }
}

fn of_slurm(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Allocation>, String> {
    let first = |names: &[&str]| names.iter().find_map(|name| Some((name.to_string(), variable(name)?)));
    let count = |names: &[&str]| match first(names) {
        Some((name, text)) => match text.parse::<u32>() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(format!("{name}={text:?} is not a number of tasks")),
        },
        None => Ok(None),
    };
    let list = first(&["SLURM_JOB_NODELIST", "SLURM_NODELIST"]);
    let tasks = count(&["SLURM_NTASKS", "SLURM_NPROCS"])?;
    if list.is_none() && tasks.is_none() {
        return Ok(None);
    }
    let mut hosts: Vec<Host> = Vec::new();
    if let Some((name, text)) = list {
        let names = expanded(&text).ok_or_else(|| format!("{name}={text:?} is not understood"))?;
        hosts.extend(names.into_iter().map(|name| Host { name, slots: None, slots_max: None }));
    }
    if let Some(text) = variable("SLURM_TASKS_PER_NODE") {
        let counts =
            counts(&text).ok_or_else(|| format!("SLURM_TASKS_PER_NODE={text:?} is not understood"))?;
        if counts.len() == hosts.len() {
            hosts.iter_mut().zip(counts).for_each(|(host, count)| host.slots = Some(count));
        }
    }
    let named = hosts.iter().map(|host| host.slots.unwrap_or(1)).fold(0, u32::saturating_add);
    Ok(Some(Allocation { system: "Slurm", tasks: tasks.unwrap_or(named.max(1)), hosts }))
}

/// The names of a list such as `a,n[1-3,07-10]x[1-2]`.
fn expanded(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut depth = 0_u32;
    let mut begin = 0;
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                names.extend(expanded_element(&list[begin..at])?);
                begin = at + 1;
            }
            _ => {}
        }
        if names.len() > HOSTS_MAX {
            return None;
        }
    }
    (depth == 0).then_some(names)
}

fn expanded_element(element: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = element.split_once('[') else {
        return (!element.is_empty() && !element.contains(']')).then(|| vec![element.to_owned()]);
    };
    let (ranges, after) = rest.split_once(']')?;
    let afters = if after.is_empty() { vec![String::new()] } else { expanded_element(after)? };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        for number in from..=to {
            // Numbers keep the leading zeroes of the first one.
            let number = format!("{before}{number:0width$}", width = first.len());
            names.extend(afters.iter().map(|after| number.clone() + after));
            if names.len() > HOSTS_MAX {
                return None;
            }
        }
        if from > to {
            return None;
        }
    }
    Some(names)
}

/// The numbers of a list such as `2(x3),1`.
fn counts(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for element in list.split(',') {
        let (count, times) = match element.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (element, 1_usize),
        };
        if times > HOSTS_MAX {
            return None;
        }
        all.extend(std::iter::repeat_n(count.parse::<u32>().ok()?, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let read = |path: &Path| match path.to_str() {
            Some("pbs") => Ok("n1\nn1\nn2\n\n".to_owned()),
            Some("sge") => Ok("n1 2 all.q@n1 <NULL>\nn2 3 all.q@n2 UNDEFINED\n".to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        Allocation::of(&variable, &read).map(|found| found.map(|found| found.to_string()))
    }

    #[test]
    fn the_variables_of_each_batch_system_give_tasks_and_hosts() {
        let slurm = [
            ("SLURM_JOB_NODELIST", "n[1-3],m07"),
            ("SLURM_TASKS_PER_NODE", "2(x3),1"),
            ("SLURM_NTASKS", "7"),
        ];
        for (variables, said) in [
            (&slurm[..], "Slurm: 7 tasks on n1:2,n2:2,n3:2,m07:1"),
            (&slurm[..2], "Slurm: 7 tasks on n1:2,n2:2,n3:2,m07:1"),
            (&slurm[..1], "Slurm: 4 tasks on n1,n2,n3,m07"),
            (&slurm[2..], "Slurm: 7 tasks"),
            (&[("SLURM_NPROCS", "1"), ("SLURM_STEP_ID", "4294967290")], "Slurm: 1 task"),
            (&[("PBS_NODEFILE", "pbs")], "PBS: 3 tasks on n1:2,n2:1"),
            (&[("LSB_MCPU_HOSTS", "n1 4 n2 2 ")], "LSF: 6 tasks on n1:4,n2:2"),
            (&[("PE_HOSTFILE", "sge")], "Grid Engine: 5 tasks on n1:2,n2:3"),
        ] {
            assert_eq!(of(variables), Ok(Some(said.to_owned())), "{variables:?}");
        }
    }

    #[test]
    fn a_task_has_no_allocation_and_neither_has_a_shell_of_no_batch_job() {
        assert_eq!(of(&[]), Ok(None));
        for of_a_task in [("SLURM_STEP_ID", "0"), ("AM_TASK", "0"), ("PMI_RANK", "1"), ("PMIX_RANK", "1")] {
            assert_eq!(of(&[("SLURM_NTASKS", "7"), of_a_task]), Ok(None), "{of_a_task:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (variables, part) in [
            (&[("SLURM_NTASKS", "many")][..], "SLURM_NTASKS=\"many\""),
            (&[("SLURM_NODELIST", "n[1-")], "SLURM_NODELIST"),
            (&[("SLURM_NODELIST", "n1"), ("SLURM_TASKS_PER_NODE", "2(x")], "SLURM_TASKS_PER_NODE"),
            (&[("PBS_NODEFILE", "/no/such/file")], "PBS_NODEFILE, /no/such/file"),
            (&[("LSB_MCPU_HOSTS", "n1 4 n2")], "LSB_MCPU_HOSTS"),
        ] {
            assert!(of(variables).unwrap_err().contains(part), "{variables:?}");
        }
    }

    #[test]
    fn lists_of_slurm_are_expanded() {
        let names = |list: &str| expanded(list).map(|names| names.join(" "));
        assert_eq!(names("a"), Some("a".into()));
        assert_eq!(names("a,b[2-3]"), Some("a b2 b3".into()));
        assert_eq!(names("n[08-10,1]"), Some("n08 n09 n10 n1".into()));
        assert_eq!(names("r[1-2]n[3,5]-x"), Some("r1n3-x r1n5-x r2n3-x r2n5-x".into()));
        for wrong in ["", "a,", "n[", "n]", "n[3-1]", "n[1-x]", "n[[1]]", "n[1-4294967295]"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
        assert_eq!(counts("2(x3),1"), Some(vec![2, 2, 2, 1]));
    }
}
