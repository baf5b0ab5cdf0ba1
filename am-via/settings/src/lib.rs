//! Tables of settings. A setting is a field of a struct, with a name, an environment variable, a default, a range and a meaning; a
//! [`Table`] is a struct with all of its settings. Each layer has its own table.
//!
//! ```
//! use am_via_settings::{Table, table};
//!
//! #[derive(Clone, Default)]
//! struct Settings {
//!     buffers: u32,
//! }
//!
//! table! { Settings;
//!     "Number of buffers.", buffers: u32 = buffers, "AM_BUFFERS", 0..=64;
//! }
//!
//! let variable = |name: &str| (name == "AM_BUFFERS").then(|| "16".to_owned());
//! assert_eq!(Settings::from_variables(variable)?.buffers, 16);
//! assert!(Settings::from_variables(|_| Some("65".to_owned())).is_err());
//! # Ok::<(), am_via_settings::SettingError>(())
//! ```

mod value;

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

pub use value::Value;

/// Makes a struct a [`Table`]: for each setting its meaning, name, type, field, environment variable and, for a number, its range; and
/// optionally the settings' names in other libraries ([`ForeignName`]).
#[macro_export]
macro_rules! table {
    ($table:ty $(, foreign $foreign:expr)?; $($meaning:expr, $name:ident: $type:ty = $($field:ident).+, $env:literal $(, $range:expr)?;)+) => {
        impl $crate::Table for $table {
            const SETTINGS: &'static [$crate::Setting<Self>] = &[$($crate::Setting::of::<$type>(
                stringify!($name),
                $env,
                $meaning,
                $crate::table!(@range $($range)?),
                |table, text| $crate::set(&mut table.$($field).+, text),
                |table| $crate::Value::show(&table.$($field).+),
            ),)+];
            $(const FOREIGN_NAMES: &'static [$crate::ForeignName<Self>] = $foreign;)?
        }
    };
    (@range) => { None };
    (@range $range:expr) => { Some($range) };
}

/// A setting of table `S`.
#[derive(Debug)]
pub struct Setting<S: 'static> {
    /// The setting's name.
    pub name: &'static str,
    /// The environment variable that sets the value.
    pub env: &'static str,
    /// The setting's meaning.
    pub meaning: &'static str,
    /// The words that the setting accepts; none for a number.
    pub choices: &'static [&'static str],
    /// Whether a number may also be `auto`.
    pub may_be_auto: bool,
    form: &'static str,
    range: Option<RangeInclusive<u64>>,
    store: Store<S>,
    show: fn(&S) -> String,
}

/// Stores a text in a setting's field. Returns the number to compare with the range, if the value is a number, or what is wrong with the
/// text.
type Store<S> = fn(&mut S, &str) -> Result<Option<u64>, String>;

/// Stores a text in a field. Returns the number to compare with the range, if the value is a number. Used by [`table!`].
///
/// # Errors
/// What is wrong with the text.
pub fn set<V: Value>(field: &mut V, text: &str) -> Result<Option<u64>, String> {
    *field = V::parse(text)?;
    Ok(field.number())
}

impl<S> Setting<S> {
    /// A setting of type `V`; used by [`table!`].
    #[must_use]
    pub const fn of<V: Value>(
        name: &'static str,
        env: &'static str,
        meaning: &'static str,
        range: Option<RangeInclusive<u64>>,
        store: Store<S>,
        show: fn(&S) -> String,
    ) -> Self {
        let (choices, may_be_auto, form) = (V::CHOICES, V::MAY_BE_AUTO, V::FORM);
        Self { name, env, meaning, choices, may_be_auto, form, range, store, show }
    }

    /// The value of this setting in `settings`, in a form that is also accepted as input.
    #[must_use]
    pub fn value(&self, settings: &S) -> String {
        let text = (self.show)(settings);
        match text.parse() {
            Ok(number) => self.number(number),
            Err(_) => text,
        }
    }

    /// The same as [`value`](Self::value), but with numbers in plain digits.
    #[must_use]
    pub fn plain_value(&self, settings: &S) -> String {
        (self.show)(settings)
    }

    /// The values that the setting takes, as text.
    #[must_use]
    pub fn form(&self) -> String {
        match &self.range {
            Some(range) => {
                format!("{} from {} to {}", self.form, self.number(*range.start()), self.number(*range.end()))
            }
            None => self.form.to_owned(),
        }
    }

    /// A number as text: bytes in binary units, counts in digits.
    fn number(&self, number: u64) -> String {
        if self.name.contains("bytes") { in_binary_units(number) } else { number.to_string() }
    }
}

impl<S: Clone + Default> Setting<S> {
    /// Changes this setting in `settings`.
    ///
    /// # Errors
    /// An invalid value; `settings` stay as they were.
    pub fn store(&self, settings: &mut S, text: &str) -> Result<(), SettingError> {
        self.store_as(settings, (self.env, text), Ok(text.trim().to_owned()))
    }

    /// Changes this setting to the value that a variable's text stands for.
    fn store_as(
        &self,
        settings: &mut S,
        (env, text): (&'static str, &str),
        own: Result<String, String>,
    ) -> Result<(), SettingError> {
        let mut changed = settings.clone();
        let number = own.and_then(|own| (self.store)(&mut changed, &own));
        let in_range = number.and_then(|number| match (number, &self.range) {
            (Some(number), Some(range)) if !range.contains(&number) => {
                Err(format!("{number} is outside {} to {}", range.start(), range.end()))
            }
            _ => Ok(()),
        });
        let form = || if env == self.env { self.form() } else { format!("{}, of {}", self.form(), self.env) };
        in_range.map_err(|why| SettingError {
            env,
            value: text.to_owned(),
            why,
            form: form(),
            default: self.value(&S::default()),
        })?;
        *settings = changed;
        Ok(())
    }
}

/// A setting's name in another library. It applies only if the setting's own variable is not set.
#[derive(Debug)]
pub struct ForeignName<S: 'static> {
    /// The environment variable.
    pub env: &'static str,
    /// The name of the setting that the variable changes.
    pub own: &'static str,
    /// The meaning of the variable's value for this setting.
    pub meaning: &'static str,
    /// The setting's value for a value of the variable.
    pub own_value: fn(&S, &str) -> Result<String, String>,
}

impl<S> ForeignName<S> {
    /// A variable whose values mean the same as those of the setting `own`.
    #[must_use]
    pub const fn same(env: &'static str, own: &'static str) -> Self {
        Self { env, own, meaning: "the same", own_value: |_, text| Ok(text.to_owned()) }
    }
}

/// A setting has an invalid value: the fault of the user who set it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{env}=\"{value}\" is not valid: {why}. Set it to {form}, or unset it for the default, {default}")]
pub struct SettingError {
    /// The environment variable.
    pub env: &'static str,
    /// The value to which the setting was set.
    pub value: String,
    /// What is wrong with the value.
    pub why: String,
    /// The values that would be valid.
    pub form: String,
    /// The value that applies if the setting is not set.
    pub default: String,
}

/// A variable of this process. Bytes that are not UTF-8 are replaced, so that a setting with such a value is refused, and not ignored.
#[must_use]
pub fn variable_of_this_process(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The settings of one layer.
pub trait Table: Clone + Default + 'static {
    /// The settings, in the order in which they are shown.
    const SETTINGS: &'static [Setting<Self>];
    /// The settings' names in other libraries. If several of them are set for one setting, the first applies.
    const FOREIGN_NAMES: &'static [ForeignName<Self>] = &[];

    /// The defaults, changed by the environment variables that `variable` returns, including [those of other
    /// libraries](Self::FOREIGN_NAMES).
    ///
    /// # Errors
    /// An invalid value.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for setting in Self::SETTINGS {
            if let Some(text) = variable(setting.env) {
                setting.store(&mut settings, &text)?;
                continue;
            }
            let mut names = Self::FOREIGN_NAMES.iter().filter(|foreign| foreign.own == setting.name);
            if let Some((foreign, text)) = names.find_map(|foreign| Some((foreign, variable(foreign.env)?))) {
                let own = (foreign.own_value)(&settings, text.trim());
                setting.store_as(&mut settings, (foreign.env, &text), own)?;
            }
        }
        Ok(settings)
    }

    /// The defaults, changed by this process's environment.
    ///
    /// # Errors
    /// An invalid value.
    fn from_env() -> Result<Self, SettingError> {
        Self::from_variables(variable_of_this_process)
    }

    /// The value of the setting `name`, as text; `None` if there is no such setting.
    #[must_use]
    fn value(&self, name: &str) -> Option<String> {
        Self::SETTINGS.iter().find(|setting| setting.name == name).map(|setting| setting.value(self))
    }

    /// Whether an environment variable sets something in this table.
    #[must_use]
    fn knows(variable: &str) -> bool {
        Self::SETTINGS.iter().any(|setting| setting.env == variable)
            || Self::FOREIGN_NAMES.iter().any(|foreign| foreign.env == variable)
    }

    /// The variable of this table that was probably meant by `variable`: one that differs in at most two letters.
    #[must_use]
    fn nearest(variable: &str) -> Option<&'static str> {
        nearest(variable, Self::SETTINGS.iter().map(|setting| setting.env))
    }

    /// All settings as text, in the order of the table.
    #[must_use]
    fn shown(&self) -> Vec<SettingText> {
        let defaults = Self::default();
        let foreign = |name| Self::FOREIGN_NAMES.iter().filter(move |foreign| foreign.own == name);
        let show = |setting: &Setting<Self>| SettingText {
            name: setting.name,
            env: setting.env,
            value: setting.value(self),
            default: setting.value(&defaults),
            form: setting.form(),
            meaning: setting.meaning.trim(),
            foreign_names: foreign(setting.name).map(|foreign| (foreign.env, foreign.meaning)).collect(),
        };
        Self::SETTINGS.iter().map(show).collect()
    }

    /// The settings that differ from their defaults, one line each, and how `command` shows the others.
    #[must_use]
    fn describe_changed(&self, command: &str) -> String {
        let mut text = String::new();
        for SettingText { name, env, value, default, .. } in
            self.shown().into_iter().filter(SettingText::is_changed)
        {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name} = {value}  (default {default}; {env})");
        }
        let all = if text.is_empty() { Self::SETTINGS.len().to_string() } else { "others".to_owned() };
        let rest = format!("all {all} have their defaults; {command} --all prints them, {command} NAME one");
        let _ = writeln!(text, "  {}", wrapped(&rest, 2));
        text
    }

    /// All settings, at least three lines each.
    #[must_use]
    fn describe(&self) -> String {
        self.shown().iter().map(|setting| format!("{setting}\n")).collect()
    }
}

/// A setting and its value, as text. `Display` writes at least three lines: value and default, variable and form, meaning, names in other
/// libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingText {
    /// The setting's name.
    pub name: &'static str,
    /// The environment variable that sets the value.
    pub env: &'static str,
    /// The setting's value.
    pub value: String,
    /// The setting's default.
    pub default: String,
    /// The values that the setting takes.
    pub form: String,
    /// The setting's meaning.
    pub meaning: &'static str,
    /// The setting's variables in other libraries, and what the values of these variables mean here.
    pub foreign_names: Vec<(&'static str, &'static str)>,
}

impl SettingText {
    /// Whether the setting differs from its default.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.value != self.default
    }

    /// This setting as JSON.
    #[must_use]
    pub fn as_json(&self) -> serde_json::Value {
        let Self { name, env, value, default, form, meaning, foreign_names } = self;
        let foreign_names: serde_json::Map<_, _> =
            foreign_names.iter().map(|&(env, meaning)| (env.into(), meaning.into())).collect();
        serde_json::json!({
            "name": name, "env": env, "value": value, "default": default, "form": form, "meaning": meaning, "foreign_names": foreign_names,
        })
    }

    /// Whether `name` is this setting's name, its variable, or one of its names in other libraries. Case does not matter.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let mut elsewhere = self.foreign_names.iter().map(|(env, _)| *env);
        [self.name, self.env].iter().any(|own| own.eq_ignore_ascii_case(name))
            || elsewhere.any(|env| env.eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for SettingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, env, value, default, form, meaning, foreign_names } = self;
        let origin = if self.is_changed() { format!("default {default}") } else { "default".to_owned() };
        write!(f, "  {name} = {value}  ({origin})")?;
        let foreign = foreign_names.iter().map(|(env, meaning)| format!("also {env}: {meaning}"));
        [format!("{env}: {form}"), (*meaning).to_owned()]
            .into_iter()
            .chain(foreign)
            .try_for_each(|text| write!(f, "\n     {}", wrapped(&text, 5)))
    }
}

/// Which settings `amrun info` and `mpiexec --info` show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The settings that differ from their defaults.
    Changed,
    /// All settings.
    All,
    /// One setting, by its name or one of its variables.
    Named(String),
    /// All settings, as JSON.
    Json,
}

impl Wanted {
    /// Parses the words after `info`.
    ///
    /// # Errors
    /// More than one word, or an unknown option.
    pub fn read(words: &[String]) -> Result<Self, String> {
        match words {
            [] => Ok(Self::Changed),
            [word] if word == "--all" => Ok(Self::All),
            [word] if word == "--json" => Ok(Self::Json),
            [name] if !name.starts_with('-') => Ok(Self::Named(name.clone())),
            _ => Err(format!(
                "info {}: write info, info --all, info --json, or info and the name of one setting",
                words.join(" ")
            )),
        }
    }
}

/// The name that was probably meant by `word`: the one that differs in the fewest letters, at most two; in words of three letters one, and
/// in shorter words none.
pub fn nearest<N: AsRef<str> + Ord>(word: &str, names: impl IntoIterator<Item = N>) -> Option<N> {
    let most = word.len().saturating_sub(2).min(2);
    let distances = names.into_iter().map(|name| (letters_wrong(name.as_ref(), word), name));
    distances.min().filter(|&(distance, _)| distance <= most).map(|(_, name)| name)
}

/// Edit distance: the fewest letters to insert, remove or change between two words.
fn letters_wrong(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, with) in other.bytes().enumerate() {
            let changed = before + usize::from(letter != with);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// `text` in lines of at most 80 columns, if the text begins at column `indent`. Later lines begin with `indent` blanks.
#[must_use]
pub fn wrapped(text: &str, indent: usize) -> String {
    const COLUMNS: usize = 80;
    let (mut lines, mut column) = (String::new(), indent);
    for word in text.split_whitespace() {
        if !lines.is_empty() && column + 1 + word.len() > COLUMNS {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if !lines.is_empty() {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.len();
    }
    lines
}

/// A number in the largest binary unit that divides it: `64KiB`.
#[must_use]
pub fn in_binary_units(number: u64) -> String {
    const UNITS: [&str; 5] = ["", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = number;
    while value >= 1024 && value.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", UNITS[unit])
}

/// Checks a table: unique names and variables, defaults within their ranges, choices that parse. For tests of the layers that have a table.
///
/// # Panics
/// A check fails.
#[doc(hidden)]
pub fn check<S: Table>() {
    assert!(!S::SETTINGS.is_empty());
    for (at, setting) in S::SETTINGS.iter().enumerate() {
        assert_eq!(setting.env, format!("AM_{}", setting.name.to_ascii_uppercase()));
        assert!(
            S::SETTINGS[..at].iter().all(|other| other.env != setting.env),
            "{} occurs twice",
            setting.env
        );
        let default = setting.value(&S::default());
        let mut settings = S::default();
        let is_stored = |settings: &mut S, text: &str| setting.store(settings, text).is_ok();
        assert!(
            is_stored(&mut settings, &default) && setting.value(&settings) == default,
            "{}",
            setting.name
        );
        for choice in setting.choices {
            assert!(
                is_stored(&mut settings, choice) && setting.plain_value(&settings) == *choice,
                "{choice}"
            );
        }
        let auto = is_stored(&mut S::default(), "auto");
        assert_eq!(auto, setting.may_be_auto || setting.choices.contains(&"auto"), "{}", setting.name);
        assert_eq!(setting.choices.is_empty(), setting.form.contains("a number"), "{}", setting.name);
    }
    for foreign in S::FOREIGN_NAMES {
        assert!(
            S::SETTINGS.iter().any(|setting| setting.name == foreign.own),
            "{} stands for none",
            foreign.env
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_letters_are_counted() {
        for (one, other, wrong) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "ab", 1), ("abc", "axc", 1), ("", "ab", 2)]
        {
            assert_eq!(
                (letters_wrong(one, other), letters_wrong(other, one)),
                (wrong, wrong),
                "{one} {other}"
            );
        }
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let text = "one two three ".repeat(30);
        let lines = wrapped(&text, 5);
        assert!(lines.split_whitespace().eq(text.split_whitespace()));
        let mut lines = lines.lines();
        assert!(lines.next().is_some_and(|first| first.len() <= 75 && first.starts_with("one two")));
        assert!(
            lines.all(|line| line.len() <= 80 && line.starts_with("     ") && !line.starts_with("      "))
        );
        assert_eq!(wrapped(&"x".repeat(200), 5), "x".repeat(200));
    }

    #[test]
    fn words_after_info_are_read() {
        let read =
            |words: &[&str]| Wanted::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok(Wanted::Changed));
        assert_eq!(read(&["--all"]), Ok(Wanted::All));
        assert_eq!(read(&["--json"]), Ok(Wanted::Json));
        assert_eq!(read(&["credits"]), Ok(Wanted::Named("credits".to_owned())));
        for wrong in [&["--al"][..], &["credits", "memory"]] {
            assert!(read(wrong).unwrap_err().contains("--all"));
        }
    }

    #[test]
    fn the_nearest_name_differs_in_two_letters_at_most() {
        for (word, meant) in [
            ("--hang-reprt", Some("--hang-report")),
            ("helo", Some("hello")),
            ("inof", Some("info")),
            ("inx", None),
            ("x", None),
            ("something-else", None),
        ] {
            assert_eq!(nearest(word, ["--hang-report", "hello", "info", "-n"]), meant, "{word}");
        }
    }

    #[test]
    fn numbers_are_shown_in_the_largest_unit_that_divides_them() {
        assert_eq!(in_binary_units(3 << 20), "3MiB");
        assert_eq!(in_binary_units(1025), "1025");
    }
}
