//! Every setting of a job, in one table: name, environment variable, default, what it means, which values it takes.
//!
//! The launcher reads them from its environment when a job starts and writes them into the job file, so that all tasks of a
//! job use the same values whatever their wrappers do to the environment. `amrun info` prints the table.

mod older;

use std::fmt;
use std::ops::RangeInclusive;

pub use older::{OLDER, Older};

/// Declares [`Settings`], its defaults and [`SETTINGS`] from one line a setting:
/// meaning, name, type, default, environment variable, and for numbers the range.
macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $name:ident: $type:ty = $default:expr, $env:literal $(, $range:expr)?;)+) => {
        /// The settings of a job.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $meaning])+ pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// One line for each setting, in the order of `amrun info`.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            env: $env,
            meaning: concat!($($meaning),+),
            range: settings!(@range $($range)?),
            form: <$type as Value>::FORM,
            choices: <$type as Value>::CHOICES,
            may_be_auto: <$type as Value>::MAY_BE_AUTO,
            store: |settings, text| {
                let value = <$type as Value>::parse(text)?;
                in_range(value.number(), settings!(@range $($range)?))?;
                settings.$name = value;
                Ok(())
            },
            show: |settings| settings.$name.show(),
        },)+];
    };
    (@range) => { None };
    (@range $range:expr) => { Some($range) };
}

settings! {
    /// The way to a peer's buffer: by job memory, by the kernel's copy, staged in pieces, or the best that each buffer allows.
    memory: Memory = Memory::Auto, "AM_MEMORY";
    /// The device that carries messages.
    device: Device = Device::Shm, "AM_DEVICE";
    /// Job memory that a task can allocate (sparse: only touched pages cost memory). auto: 64 GiB, less where a limit asks for it.
    heap_bytes: Auto<u64> = Auto::Auto, "AM_HEAP_BYTES", HEAP_BYTES_MIN..=1 << 46;
    /// Private memory that a context of a task may have registered at once, as a NIC's limit would have it. Transfers beyond it go in pieces; a program written to VIA is refused more, of any memory. auto: no limit.
    registered_bytes_max: Auto<u64> = Auto::Auto, "AM_REGISTERED_BYTES_MAX", REGISTERED_BYTES_MIN..=1 << 46;
    /// Private data of a message up to this length are copied into job memory, where the receiver reaches them without the kernel. Where the way is forced (AM_MEMORY), nothing is.
    bounce_bytes_max: u64 = 65536, "AM_BOUNCE_BYTES_MAX", 0..=1 << 30;
    /// Largest packet that a receive area takes: by default an eager MPI message with its heads.
    packet_bytes: u32 = 16640, "AM_PACKET_BYTES", 256..=1 << 20;
    /// Packets that one task may have under way to another before it must wait.
    credits: u32 = 64, "AM_CREDITS", 1..=64;
    /// Longest message that goes without asking the receiver first.
    eager_limit_bytes: u64 = 16384, "AM_EAGER_LIMIT_BYTES", 0..=1 << 40;
    /// Memory for messages that came before their receive; beyond it senders ask first.
    early_arrival_bytes_max: u64 = 64 << 20, "AM_EARLY_ARRIVAL_BYTES_MAX", 0..=1 << 46;
    /// How an MPI receive learns that its message is there: marked in context, by target counters, or by the handler thread.
    completion: Completion = Completion::InContext, "AM_COMPLETION";
    /// Messages that came eagerly before their receive, at most; beyond them senders ask first. auto: as many as the memory holds.
    early_arrivals_max: Auto<u64> = Auto::Auto, "AM_EARLY_ARRIVALS_MAX", 1..=1 << 46;
    /// Non-blocking MPI receives that one task may have posted at once; one more is an error. auto: any number.
    posted_receives_max: Auto<u64> = Auto::Auto, "AM_POSTED_RECEIVES_MAX", 1..=1 << 46;
    /// Non-blocking MPI sends of one task that may be under way at once; one more long one is an error. auto: any number.
    long_sends_max: Auto<u64> = Auto::Auto, "AM_LONG_SENDS_MAX", 1..=1 << 46;
    /// MPI communicators of up to this many tasks carry barriers, and what the next settings say, out by puts and counters, with no message; 0: none does.
    collective_puts_tasks_max: u32 = 32, "AM_COLLECTIVE_PUTS_TASKS_MAX", 0..=1024;
    /// The longest data of an MPI collective that goes by puts; each pair of tasks has 8 places of this length. 0: by messages, which were faster or as fast.
    collective_puts_bytes_max: u64 = 0, "AM_COLLECTIVE_PUTS_BYTES_MAX", 0..=1 << 20;
    /// The same for MPI broadcasts among many tasks, where that is longer: there puts are faster.
    broadcast_puts_bytes_max: u64 = 16 << 10, "AM_BROADCAST_PUTS_BYTES_MAX", 0..=1 << 20;
    /// From so many tasks on it holds.
    broadcast_puts_tasks_min: u32 = 9, "AM_BROADCAST_PUTS_TASKS_MIN";
    /// Up to this many tasks an MPI barrier goes in rounds of notices; more use a tree.
    barrier_rounds_tasks_max: u32 = 4, "AM_BARRIER_ROUNDS_TASKS_MAX";
    /// Up to this many bytes an MPI broadcast goes down a tree; longer ones along a chain, in pieces.
    broadcast_tree_bytes_max: u64 = 64 << 10, "AM_BROADCAST_TREE_BYTES_MAX";
    /// Length of a piece in the chain of a long MPI broadcast.
    broadcast_piece_bytes: u64 = 128 << 10, "AM_BROADCAST_PIECE_BYTES", 1..=1 << 40;
    /// Up to this many bytes an MPI reduction goes up a tree; in longer ones each task reduces a part of the vector.
    reduce_tree_bytes_max: u64 = 16 << 10, "AM_REDUCE_TREE_BYTES_MAX";
    /// Length of a piece in which a long vector is reduced: what the others send of it should stay in the cache.
    reduce_piece_bytes: u64 = 1 << 20, "AM_REDUCE_PIECE_BYTES", 1..=1 << 40;
    /// Up to this many bytes an MPI allreduce goes by recursive doubling; in longer ones each task reduces a part.
    allreduce_doubling_bytes_max: u64 = 16 << 10, "AM_ALLREDUCE_DOUBLING_BYTES_MAX";
    /// Up to this many tasks an MPI allgather sends each block to each task; more go in rounds, if the result is short.
    allgather_linear_tasks_max: u32 = 4, "AM_ALLGATHER_LINEAR_TASKS_MAX";
    /// The longest result that an MPI allgather of many tasks collects in rounds.
    allgather_rounds_bytes_max: u64 = 16 << 10, "AM_ALLGATHER_ROUNDS_BYTES_MAX";
    /// Each MPI collective begins with an exchange in which all tasks compare which one they are in, with which root, operator, datatype and length; tasks that disagree get an error that says so, instead of waiting for ever or wrong data. auto: on in builds for debugging. Programs of one job that were built differently need one value.
    check_collectives: Check = Check::Auto, "AM_CHECK_COLLECTIVES";
    /// Each task says on its standard error with what MPI starts, and what it has done at its end.
    debug: bool = false, "AM_DEBUG";
    /// On SIGUSR2 each task prints its queues to its standard error, at its next wait. amrun passes the signal to all tasks.
    dump_queues: bool = false, "AM_DUMP_QUEUES";
    /// Polls before a waiting task begins to give its processor up. auto: none where there are more tasks than processors.
    spin_polls_max: Auto<u32> = Auto::Auto, "AM_SPIN_POLLS_MAX", 0..=1 << 31;
    /// A task that is about to sleep runs a barrier on all processors (membarrier), where the system offers it, so that no sender needs a fence. false: each sender runs a fence.
    membarrier: bool = true, "AM_MEMBARRIER";
}

/// A heap smaller than this is refused: nothing useful fits.
pub const HEAP_BYTES_MIN: u64 = 1 << 20;
/// A smaller limit of registered memory is refused: a quarter of it is to hold a buffer of the library.
pub const REGISTERED_BYTES_MIN: u64 = 2 << 20;
/// The heap of a task where neither a setting nor a limit says otherwise.
pub const HEAP_BYTES_DEFAULT: u64 = 64 << 30;

/// A line of the table.
#[derive(Debug)]
pub struct Setting {
    /// Its name, as in the field of [`Settings`].
    pub name: &'static str,
    /// The environment variable that sets it.
    pub env: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The words that it may be; none for a number.
    pub choices: &'static [&'static str],
    /// Whether a number may also be `auto`.
    pub may_be_auto: bool,
    form: &'static str,
    range: Option<RangeInclusive<u64>>,
    store: fn(&mut Settings, &str) -> Result<(), String>,
    show: fn(&Settings) -> String,
}

impl Setting {
    /// Its value in `settings`, in a form that is understood again as input.
    #[must_use]
    pub fn value(&self, settings: &Settings) -> String {
        let text = (self.show)(settings);
        match text.parse() {
            Ok(number) => self.number(number),
            Err(_) => text,
        }
    }

    /// Its value as [`value`](Self::value) has it, but numbers in digits.
    #[must_use]
    pub fn plain_value(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// The values it takes, for a person.
    #[must_use]
    pub fn form(&self) -> String {
        match &self.range {
            Some(range) => {
                format!("{} from {} to {}", self.form, self.number(*range.start()), self.number(*range.end()))
            }
            None => self.form.to_owned(),
        }
    }

    /// A number of bytes reads best in binary units, a count in digits.
    fn number(&self, number: u64) -> String {
        if self.name.contains("bytes") { in_binary_units(number) } else { number.to_string() }
    }

    /// Changes it in `settings`.
    ///
    /// # Errors
    /// A value that it cannot take; nothing is changed then.
    pub fn store(&self, settings: &mut Settings, text: &str) -> Result<(), SettingError> {
        (self.store)(settings, text.trim()).map_err(|why| SettingError {
            env: self.env,
            value: text.to_owned(),
            why,
            form: self.form(),
            default: self.value(&Settings::default()),
        })
    }
}

/// A setting has a value that it cannot take: the fault of whoever set it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{env}=\"{value}\" is no value for this setting: {why}. Set it to {form}, or unset it for the default, {default}"
)]
pub struct SettingError {
    /// The environment variable.
    pub env: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
    /// What would be right.
    pub form: String,
    /// What holds when it is not set.
    pub default: String,
}

impl Settings {
    /// The defaults, changed by what `variable` says of each environment variable, and of [older names](OLDER).
    ///
    /// # Errors
    /// A value that a setting cannot take.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for setting in SETTINGS {
            if let Some(text) = variable(setting.env) {
                setting.store(&mut settings, &text)?;
            }
        }
        settings.change_by_older(variable)?;
        Ok(settings)
    }

    /// The defaults, changed by this process's environment.
    ///
    /// # Errors
    /// A value that a setting cannot take.
    pub fn from_env() -> Result<Self, SettingError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// One line `name=value` for each setting: the form in which a job file carries them.
    #[must_use]
    pub fn to_lines(&self) -> String {
        SETTINGS.iter().map(|setting| format!("{}={}\n", setting.name, setting.value(self))).collect()
    }

    /// The settings of [`to_lines`](Self::to_lines). Lines of unknown names are passed over.
    ///
    /// # Errors
    /// A value that a setting cannot take.
    pub fn from_lines(lines: &str) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for (name, text) in lines.lines().filter_map(|line| line.split_once('=')) {
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
                setting.store(&mut settings, text)?;
            }
        }
        Ok(settings)
    }

    /// The value of the setting `name`, as text; `None` if there is none of this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        SETTINGS.iter().find(|setting| setting.name == name).map(|setting| setting.value(self))
    }
}

/// Variables that are ours by name without being settings: the launcher writes them.
const WRITTEN_BY_THE_LAUNCHER: [&str; 5] = ["AM_JOB", "AM_TASK", "AM_NUM_TASKS", "AM_PINNED", "AM_TERMINAL"];

/// Of `names`, those that look like settings and are none: most likely misspelt.
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known = |name: &str| {
        WRITTEN_BY_THE_LAUNCHER.contains(&name) || SETTINGS.iter().any(|setting| setting.env == name)
    };
    names.filter(|name| name.starts_with("AM_") && !is_known(name)).collect()
}

/// How a setting's type is read and shown.
trait Value: Sized {
    const FORM: &'static str;
    /// The words that it may be; none for a number.
    const CHOICES: &'static [&'static str] = &[];
    /// Whether a number may also be `auto`.
    const MAY_BE_AUTO: bool = false;
    fn parse(text: &str) -> Result<Self, String>;
    fn show(&self) -> String;
    /// What a range is compared with, if anything.
    fn number(&self) -> Option<u64>;
}

fn in_range(number: Option<u64>, range: Option<RangeInclusive<u64>>) -> Result<(), String> {
    match (number, range) {
        (Some(number), Some(range)) if !range.contains(&number) => {
            Err(format!("{number} is outside of {} to {}", range.start(), range.end()))
        }
        _ => Ok(()),
    }
}

impl Value for u64 {
    const FORM: &'static str = "a number (64k is 65536)";

    fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let shift = match &lower[digits.len()..] {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            unit => return Err(format!("the unit {unit:?} is unknown")),
        };
        let number: u64 = digits.trim().parse().map_err(|error| format!("{digits:?}: {error}"))?;
        number.checked_mul(1 << shift).ok_or_else(|| "it does not fit into 64 bits".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Value for u32 {
    const FORM: &'static str = <u64 as Value>::FORM;

    fn parse(text: &str) -> Result<Self, String> {
        let number = <u64 as Value>::parse(text)?;
        Self::try_from(number).map_err(|_| "it does not fit into 32 bits".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Value for bool {
    const FORM: &'static str = "on or off";
    const CHOICES: &'static [&'static str] = &["off", "on"];

    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "1" | "true" | "yes" => Ok(true),
            "off" | "0" | "false" | "no" => Ok(false),
            _ => Err("it is neither on nor off".to_owned()),
        }
    }

    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

/// A number that the library chooses where nobody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto<T> {
    /// The library chooses.
    Auto,
    /// Somebody chose.
    Fixed(T),
}

impl<T> Auto<T> {
    /// What was chosen, or `otherwise`.
    pub fn unwrap_or(self, otherwise: T) -> T {
        match self {
            Self::Auto => otherwise,
            Self::Fixed(value) => value,
        }
    }
}

impl<T: Value> Value for Auto<T> {
    const FORM: &'static str = "auto, or a number (64k is 65536)";
    const MAY_BE_AUTO: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") { Ok(Self::Auto) } else { T::parse(text).map(Self::Fixed) }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Fixed(value) => value.show(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => value.number(),
        }
    }
}

/// The way to a peer's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The best that each buffer and this machine allow.
    Auto,
    /// Only buffers in job memory are reached directly; all others are staged.
    Job,
    /// Private buffers are reached by the kernel's copy.
    Kernel,
    /// Everything is staged in pieces through the receive areas.
    Staged,
}

impl Value for Memory {
    const FORM: &'static str = "auto, job, kernel or staged";
    const CHOICES: &'static [&'static str] = &["auto", "job", "kernel", "staged"];

    fn parse(text: &str) -> Result<Self, String> {
        choose(text, &[Self::Auto, Self::Job, Self::Kernel, Self::Staged])
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Job => "job",
            Self::Kernel => "kernel",
            Self::Staged => "staged",
        })
    }
}

/// The variants of completion that the MPI-LAPI paper compares (its sections 5.3, 5.2 and 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Predefined, in the polling context.
    InContext,
    /// By a target counter for each sender.
    Counter,
    /// By a completion handler on its thread.
    Thread,
}

impl Value for Completion {
    const FORM: &'static str = "in-context, counter or thread";
    const CHOICES: &'static [&'static str] = &["in-context", "counter", "thread"];

    fn parse(text: &str) -> Result<Self, String> {
        choose(text, &[Self::InContext, Self::Counter, Self::Thread])
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InContext => "in-context",
            Self::Counter => "counter",
            Self::Thread => "thread",
        })
    }
}

/// Whether the tasks of a collective compare what they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// On in builds for debugging.
    Auto,
    /// They do.
    On,
    /// They do not.
    Off,
}

impl Value for Check {
    const FORM: &'static str = "auto, on or off";
    const CHOICES: &'static [&'static str] = &["auto", "on", "off"];

    fn parse(text: &str) -> Result<Self, String> {
        choose(text, &[Self::Auto, Self::On, Self::Off])
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// The device that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Shared memory of one machine.
    Shm,
}

impl Value for Device {
    const FORM: &'static str = "shm";
    const CHOICES: &'static [&'static str] = &["shm"];

    fn parse(text: &str) -> Result<Self, String> {
        choose(text, &[Self::Shm])
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm => f.write_str("shm"),
        }
    }
}

fn choose<T: Copy + fmt::Display>(text: &str, choices: &[T]) -> Result<T, String> {
    choices
        .iter()
        .copied()
        .find(|choice| choice.to_string().eq_ignore_ascii_case(text))
        .ok_or_else(|| "it is none of the choices".to_owned())
}

/// A number in the largest binary unit that divides it.
fn in_binary_units(number: u64) -> String {
    const UNITS: [&str; 5] = ["", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = number;
    while value >= 1024 && value.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_of_its_own_and_a_default_in_its_range() {
        assert!(!SETTINGS.is_empty());
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(setting.env.starts_with("AM_"), "{}", setting.env);
            assert_eq!(setting.env, format!("AM_{}", setting.name.to_ascii_uppercase()));
            assert!(SETTINGS[..at].iter().all(|other| other.env != setting.env));
            let mut settings = Settings::default();
            setting.store(&mut settings, &setting.value(&Settings::default())).unwrap();
            assert_eq!(settings, Settings::default());
            for choice in setting.choices {
                setting.store(&mut settings, choice).unwrap();
                assert_eq!(setting.plain_value(&settings), *choice);
            }
            let auto = setting.store(&mut Settings::default(), "auto");
            assert_eq!(auto.is_ok(), setting.may_be_auto || setting.choices.contains(&"auto"));
            assert_eq!(setting.choices.is_empty(), setting.form.contains("a number"));
        }
    }

    #[test]
    fn lines_carry_all_settings() {
        let settings = Settings {
            memory: Memory::Staged,
            heap_bytes: Auto::Fixed(3 << 20),
            credits: 1,
            ..Settings::default()
        };
        assert_eq!(Settings::from_lines(&settings.to_lines()).unwrap(), settings);
        assert_eq!(settings.value("credits").as_deref(), Some("1"));
        assert_eq!(settings.value("no_such"), None);
    }

    #[test]
    fn misspelt_settings_are_found() {
        let names = ["AM_CREDIT", "AM_CREDITS", "AM_JOB", "HOME"].map(str::to_owned);
        assert_eq!(unknown_variables(names.into_iter()), ["AM_CREDIT"]);
    }

    #[test]
    fn variables_are_read_with_units() {
        let variable = |name: &str| match name {
            "AM_HEAP_BYTES" => Some("64G".to_owned()),
            "AM_PACKET_BYTES" => Some("4 KiB".to_owned()),
            "AM_MEMORY" => Some("Kernel".to_owned()),
            _ => None,
        };
        let settings = Settings::from_variables(variable).unwrap();
        assert_eq!(settings.heap_bytes, Auto::Fixed(64 << 30));
        assert_eq!(settings.packet_bytes, 4096);
        assert_eq!(settings.memory, Memory::Kernel);
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
        ] {
            let error = Settings::from_variables(|name| (name == env).then(|| value.to_owned())).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(env) && text.contains(value) && text.contains("default"), "{text}");
        }
    }
}
