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
    /// packet holds. `AM_EAGER_LIMIT_BYTES`, `MP_EAGER_LIMIT`.
    pub eager_limit_bytes: usize,
    /// Bytes of memory that messages which came before their receive may take, all senders together.
    /// `AM_EARLY_ARRIVAL_BYTES_MAX`, `MP_BUFFER_MEM`.
    pub early_arrival_bytes_max: u64,
    /// How the receiver learns that an eager message is complete. `AM_COMPLETION`.
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

/// IBM's name of the eager limit, which the seed paper's MPI has.
const MP_EAGER_LIMIT: &str = "MP_EAGER_LIMIT";
/// IBM's name of the memory for early arrivals.
const MP_BUFFER_MEM: &str = "MP_BUFFER_MEM";

impl Settings {
    /// These settings, changed by the older names that `value_of` knows (`std::env::var(name).ok()`, for instance), unless it
    /// knows our own name too: that is in these settings already.
    ///
    /// # Errors
    /// [`Error::Setting`]: a value that makes no sense.
    pub fn changed_by(mut self, value_of: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let older = |own: &str, older: &str| value_of(older).filter(|_| value_of(own).is_none());
        if let Some(value) = older("AM_EAGER_LIMIT_BYTES", MP_EAGER_LIMIT) {
            self.eager_limit_bytes = usize::try_from(bytes(MP_EAGER_LIMIT, value)?).unwrap_or(usize::MAX);
        }
        if let Some(value) = older("AM_EARLY_ARRIVAL_BYTES_MAX", MP_BUFFER_MEM) {
            self.early_arrival_bytes_max = bytes(MP_BUFFER_MEM, value)?;
        }
        Ok(self)
    }
}

/// A number of bytes, with `K`, `M` or `G` behind it for the powers of 1024.
fn bytes(name: &str, value: String) -> Result<u64> {
    let digits = value.trim_end_matches(['K', 'k', 'M', 'm', 'G', 'g']);
    let unit: Option<u64> = match value[digits.len()..].to_ascii_uppercase().as_str() {
        "" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        _ => None,
    };
    let parsed = digits.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    parsed.ok_or_else(|| Error::Setting {
        name: name.to_owned(),
        value,
        expected: "a number of bytes, such as 4096, 64K or 1G",
    })
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
    fn the_older_names_hold_where_our_own_are_not_set() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        assert_eq!(read(&[("MP_EAGER_LIMIT", "4096")]).unwrap().eager_limit_bytes, 4096);
        assert_eq!(read(&[("MP_BUFFER_MEM", "1G")]).unwrap().early_arrival_bytes_max, 1 << 30);
        let both = [("MP_EAGER_LIMIT", "4096"), ("AM_EAGER_LIMIT_BYTES", "1K")];
        assert_eq!(read(&both).unwrap(), Settings::default());
    }

    #[test]
    fn values_without_sense_are_refused_by_name() {
        for (name, value) in
            [("MP_EAGER_LIMIT", "many"), ("MP_BUFFER_MEM", "1KM"), ("MP_BUFFER_MEM", "99999999999G")]
        {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
