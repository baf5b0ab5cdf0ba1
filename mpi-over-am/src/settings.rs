//! The settings of this layer, read once when the environment is made.

use crate::error::{Error, Result};

/// How the receiver learns that an eager message is complete: the three variants of the seed paper's section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionVariant {
    /// A completion handler on the handler thread (section 5.1).
    Thread,
    /// A target counter, one for each sender (section 5.2).
    Counter,
    /// A predefined completion in the polling context (section 5.3).
    #[default]
    InContext,
}

/// The settings of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Standard-mode messages up to this many bytes are sent at once; longer ones are announced first. Also bounded by what a
    /// packet holds. From `AM_EAGER_LIMIT_BYTES` or `MP_EAGER_LIMIT`.
    pub eager_limit_bytes: usize,
    /// Bytes of memory that messages which came before their receive may take, all senders together. From
    /// `AM_EARLY_ARRIVAL_BYTES_MAX` or `MP_BUFFER_MEM`.
    pub early_arrival_bytes_max: u64,
    /// How the receiver learns that an eager message is complete. From `AM_COMPLETION`: `thread`, `counter`, `in-context`.
    pub completion: CompletionVariant,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Measured on 2 cores: from here on a message that is fetched is as fast as one that is copied twice.
            eager_limit_bytes: 2048,
            early_arrival_bytes_max: 64 << 20,
            completion: CompletionVariant::default(),
        }
    }
}

impl Settings {
    /// These settings, changed by what `value_of` knows: `std::env::var(name).ok()`, for instance.
    ///
    /// # Errors
    /// [`Error::Setting`]: a value that makes no sense.
    pub fn changed_by(mut self, value_of: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let first = |names: &[&str]| {
            names.iter().find_map(|&name| value_of(name).map(|value| (name.to_owned(), value)))
        };
        if let Some((name, value)) = first(&["AM_EAGER_LIMIT_BYTES", "MP_EAGER_LIMIT"]) {
            self.eager_limit_bytes = usize::try_from(bytes(name, value)?).unwrap_or(usize::MAX);
        }
        if let Some((name, value)) = first(&["AM_EARLY_ARRIVAL_BYTES_MAX", "MP_BUFFER_MEM"]) {
            self.early_arrival_bytes_max = bytes(name, value)?;
        }
        if let Some((name, value)) = first(&["AM_COMPLETION"]) {
            self.completion = match value.as_str() {
                "thread" => CompletionVariant::Thread,
                "counter" => CompletionVariant::Counter,
                "in-context" => CompletionVariant::InContext,
                _ => {
                    let expected = "`thread`, `counter` or `in-context`";
                    return Err(Error::Setting { name, value, expected });
                }
            };
        }
        Ok(self)
    }
}

/// A number of bytes, with `K`, `M` or `G` behind it for the powers of 1024.
fn bytes(name: String, value: String) -> Result<u64> {
    let digits = value.trim_end_matches(['K', 'k', 'M', 'm', 'G', 'g']);
    let unit: Option<u64> = match value[digits.len()..].to_ascii_uppercase().as_str() {
        "" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        _ => None,
    };
    let parsed = digits.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    parsed.ok_or(Error::Setting { name, value, expected: "a number of bytes, such as 4096, 64K or 1G" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Settings> {
        Settings::default().changed_by(|name| {
            settings.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn settings_come_under_our_names_and_the_older_ones() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        assert_eq!(read(&[("MP_EAGER_LIMIT", "4096")]).unwrap().eager_limit_bytes, 4096);
        let both = read(&[("MP_EAGER_LIMIT", "4096"), ("AM_EAGER_LIMIT_BYTES", "2K")]).unwrap();
        assert_eq!(both.eager_limit_bytes, 2048);
        assert_eq!(read(&[("MP_BUFFER_MEM", "1G")]).unwrap().early_arrival_bytes_max, 1 << 30);
        assert_eq!(read(&[("AM_COMPLETION", "counter")]).unwrap().completion, CompletionVariant::Counter);
    }

    #[test]
    fn values_without_sense_are_refused_by_name() {
        for (name, value) in
            [("AM_EAGER_LIMIT_BYTES", "many"), ("MP_BUFFER_MEM", "1KM"), ("MP_BUFFER_MEM", "99999999999G")]
        {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        assert!(read(&[("AM_COMPLETION", "magic")]).is_err());
    }
}
