//! The settings of am-via. The launcher reads them from its environment when a job starts and writes them into the job file, so that all
//! tasks of a job use the same values whatever their wrappers do to the environment. `amrun info --all` prints the table.

use std::time::Duration;

use am_via_settings::choices;
pub use am_via_settings::{
    ForeignName, Setting, SettingError, SettingText, Table, Value, Wanted, in_binary_units, nearest, wrapped,
};

/// Declares [`Settings`], its defaults and its table from one line per setting.
macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $name:ident: $type:ty = $default:expr, $env:literal $(, $range:expr)?;)+) => {
        /// The settings of am-via.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $meaning])+ pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        am_via_settings::table! { Settings, foreign FOREIGN_NAMES;
            $(concat!($($meaning),+), $name: $type = $name, $env $(, $range)?;)+
        }
    };
}

settings! {
    /// Method by which long transfers reach a peer's buffer. job: a plain copy, for buffers in job memory only. kernel: the kernel's copy
    /// between processes. staged: pieces through receive buffers. auto: the fastest method that each buffer allows.
    memory: Memory = Memory::Auto, "AM_MEMORY";
    /// The device that carries messages between tasks of one host. shm: their shared memory. ofi: the network, as between hosts.
    device: Device = Device::Shm, "AM_DEVICE";
    /// Address space for a task's job memory, in bytes. Only touched pages use memory. auto: 64 GiB, or less if a limit of this machine
    /// requires it.
    heap_bytes: Option<u64> = None, "AM_HEAP_BYTES", HEAP_BYTES_MIN..=1 << 46;
    /// Maximum private memory that one context has registered for its peers at a time, in bytes; emulates the limit of a real NIC. The data
    /// of further messages are sent in pieces. Exposing more is an error, and so is registering more by a program written to VIA. auto: no
    /// limit.
    registered_bytes_max: Option<u64> = None, "AM_REGISTERED_BYTES_MAX", REGISTERED_BYTES_MIN..=1 << 46;
    /// Shortest message, in bytes, whose private data sender and receiver copy at the same time, through a ring in job memory. The kernel
    /// copies shorter messages. Unused if AM_MEMORY is not auto, or if waits do not spin (see AM_SPIN_MICROSECONDS_MAX).
    pipe_bytes_min: u64 = 8192, "AM_PIPE_BYTES_MIN", 0..=1 << 46;
    /// Largest packet, in bytes. The default holds an eager MPI message of 16 KiB with its headers.
    packet_bytes: u32 = 16640, "AM_PACKET_BYTES", 256..=1 << 20;
    /// Minimum length, in bytes, of packet data that the sender writes with stores that bypass its caches (non-temporal stores). Applies
    /// only where the sender has measured that it shares no cache with the receiver.
    cache_bypass_bytes_min: u64 = 1024, "AM_CACHE_BYPASS_BYTES_MIN", 64..=1 << 46;
    /// Maximum number of packets in flight from one task to another. A sender without a credit waits.
    credits: u32 = 64, "AM_CREDITS", 1..=64;
    /// Longest time in microseconds that a wait spins before it sleeps. Within this limit the spin time adapts to the task's last waits; a
    /// task that is blocked for longer sleeps. auto: 4000, or 0 if there are more tasks than processors.
    spin_microseconds_max: Option<u32> = None, "AM_SPIN_MICROSECONDS_MAX", 0..=60_000_000;
    /// on: a task that is about to sleep runs a barrier on all processors (membarrier, where the kernel offers it), so that senders need no
    /// fence. off: each sender runs a fence.
    membarrier: bool = true, "AM_MEMBARRIER";
    /// Time in seconds after which a host of a job of several hosts is lost if nothing was heard from it, and after which a host that has
    /// heard nothing from the launcher ends its tasks. Hosts and launcher report once a second.
    host_silence_seconds_max: u32 = 10, "AM_HOST_SILENCE_SECONDS_MAX", 3..=86_400;
}

impl Settings {
    /// [`host_silence_seconds_max`](Self::host_silence_seconds_max) as a duration.
    #[must_use]
    pub fn host_silence_max(&self) -> Duration {
        Duration::from_secs(self.host_silence_seconds_max.into())
    }
}

/// Smallest heap that the setting accepts, in bytes.
pub(crate) const HEAP_BYTES_MIN: u64 = 1 << 20;
/// Smallest limit of registered memory that the setting accepts, in bytes: a quarter of it has to hold a buffer of the library.
pub(crate) const REGISTERED_BYTES_MIN: u64 = 2 << 20;
/// The size of a task's heap if neither a setting nor a limit determines it.
pub(crate) const HEAP_BYTES_DEFAULT: u64 = 64 << 30;

/// The method of access to a peer's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The best method that each buffer and this machine allow.
    Auto,
    /// Only buffers in job memory are reached directly; all others are staged.
    Job,
    /// All buffers, also those in job memory, are reached by the kernel's copy.
    Kernel,
    /// Everything is staged in pieces through the receive areas.
    Staged,
}

choices! { Memory: Auto = "auto", Job = "job", Kernel = "kernel"; or Staged = "staged" }

/// The device that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Shared memory within a host, the network between hosts.
    Shm,
    /// The network between all tasks, also within a host.
    Ofi,
}

choices! { Device: Shm = "shm"; or Ofi = "ofi" }

const FOREIGN_NAMES: &[ForeignName<Settings>] = &[
    ForeignName {
        meaning: "the longest message that is sent in one packet: the same value",
        ..ForeignName::same("LAM_MPI_SSI_rpi_via_tiny", "packet_bytes")
    },
    ForeignName {
        meaning: "posted receive descriptors of a connection: the same number, at most 64",
        own_value: at_most_64,
        ..ForeignName::same("LAM_MPI_SSI_rpi_via_rdescs", "credits")
    },
    ForeignName {
        meaning: "send descriptors to one task: the same number, at most 64",
        own_value: at_most_64,
        ..ForeignName::same("LAM_MPI_SSI_rpi_via_sdescs", "credits")
    },
    ForeignName {
        meaning: "memory for the messages of one task: the number of packets that fit, at most 64",
        own_value: |settings, text| {
            let packets = u64::parse(text)? / u64::from(settings.packet_bytes);
            Ok(packets.clamp(1, 64).to_string())
        },
        ..ForeignName::same("LAM_MPI_SSI_rpi_via_area", "credits")
    },
];

fn at_most_64(_: &Settings, text: &str) -> Result<String, String> {
    Ok(u32::parse(text)?.min(64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingError> {
        Settings::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_table_is_whole() {
        am_via_settings::check::<Settings>();
    }

    #[test]
    fn variables_are_read_with_units() {
        let settings =
            read(&[("AM_HEAP_BYTES", "64G"), ("AM_PACKET_BYTES", "4 KiB"), ("AM_MEMORY", "Kernel")]).unwrap();
        assert_eq!(settings.heap_bytes, Some(64 << 30));
        assert_eq!(settings.packet_bytes, 4096);
        assert_eq!(settings.memory, Memory::Kernel);
        assert_eq!(settings.value("packet_bytes").as_deref(), Some("4KiB"));
        assert_eq!(settings.value("no_such"), None);
    }

    #[test]
    fn a_bad_value_is_refused_with_the_variable_the_value_and_what_to_do() {
        for (env, value) in [
            ("AM_CREDITS", "0"),
            ("AM_CREDITS", "many"),
            ("AM_CREDITS", "-1"),
            ("AM_CREDITS", "99999999999999999999"),
            ("AM_CREDITS", "1x"),
            ("AM_MEMORY", "fast"),
            ("AM_HEAP_BYTES", "99999999999t"),
            ("AM_HEAP_BYTES", ""),
            ("LAM_MPI_SSI_rpi_via_tiny", "3"),
            ("LAM_MPI_SSI_rpi_via_rdescs", "0"),
        ] {
            let text = read(&[(env, value)]).unwrap_err().to_string();
            assert!(text.contains(env) && text.contains(value) && text.contains("default"), "{text}");
        }
    }

    #[test]
    fn the_first_foreign_name_holds_if_our_own_is_not_set() {
        assert_eq!(read(&[("LAM_MPI_SSI_rpi_via_rdescs", "10")]).unwrap().credits, 10);
        assert_eq!(read(&[("LAM_MPI_SSI_rpi_via_area", "133120")]).unwrap().credits, 8);
        let both =
            [("LAM_MPI_SSI_rpi_via_sdescs", "9"), ("LAM_MPI_SSI_rpi_via_rdescs", "5"), ("AM_CREDITS", "7")];
        assert_eq!(read(&both).unwrap().credits, 7);
        assert_eq!(read(&both[..2]).unwrap().credits, 5);
    }
}
