//! Info objects: keys and values, in the order in which the keys were set (MPI 5.0 chapter 10).

use crate::error::{Error, ErrorClass, Result};

/// Keys and values, both strings (`MPI_Info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    entries: Vec<(String, String)>,
}

/// Maximum length of a key in bytes (`MPI_MAX_INFO_KEY` without the terminating NUL).
pub const INFO_KEY_BYTES_MAX: usize = 255;
/// Maximum length of a value in bytes (`MPI_MAX_INFO_VAL` without the terminating NUL).
pub const INFO_VALUE_BYTES_MAX: usize = 1023;

impl Info {
    /// No key (`MPI_Info_create`).
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// How the program was started (`MPI_Info_create_env`, `MPI_INFO_ENV`; MPI 5.0 section 11.2.1). `value_of` returns the value of an
    /// environment variable.
    #[must_use]
    pub fn of_start(arguments: &[String], value_of: impl Fn(&str) -> Option<String>) -> Self {
        let mut info = Self::new();
        let mut add = |key: &str, value: Option<String>| {
            let value = value.filter(|value| !value.is_empty() && value.len() <= INFO_VALUE_BYTES_MAX);
            if let Some(value) = value {
                info.entries.push((key.to_owned(), value));
            }
        };
        add("command", arguments.first().cloned());
        add("argv", arguments.get(1..).map(|rest| rest.join(" ")));
        add("maxprocs", value_of("AM_NUM_TASKS").or_else(|| value_of("PMI_SIZE")));
        add("host", value_of("HOSTNAME"));
        add("arch", Some(std::env::consts::ARCH.to_owned()));
        add("wdir", value_of("PWD"));
        info
    }

    /// Sets the value of a key, replacing an older one (`MPI_Info_set`).
    ///
    /// # Errors
    /// [`Error::Refused`]: the key is empty or too long, or the value is too long.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        check_key("Info::set", key)?;
        if value.len() > INFO_VALUE_BYTES_MAX {
            let what = "the string for a key must have at most 1023 bytes; the value is the string's length";
            return Err(Error::refused(ErrorClass::InfoValue, "Info::set", what, length(value)));
        }
        self.put(key, value);
        Ok(())
    }

    /// Sets the value of each key of `other`. Other keys keep their values.
    pub(crate) fn update(&mut self, other: &Self) {
        other.iter().for_each(|(key, value)| self.put(key, value));
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) {
        match self.entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.entries.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Removes a key (`MPI_Info_delete`).
    ///
    /// # Errors
    /// [`Error::Refused`]: the key does not exist, or is empty or too long.
    pub fn delete(&mut self, key: &str) -> Result<()> {
        check_key("Info::delete", key)?;
        let at = self.entries.iter().position(|(known, _)| known == key).ok_or_else(|| {
            let what = "the key does not exist; the value is the number of keys";
            Error::refused(ErrorClass::InfoNoKey, "Info::delete", what, count(self.entries.len()))
        })?;
        self.entries.remove(at);
        Ok(())
    }

    /// The value of a key, if it exists (`MPI_Info_get_string`, `MPI_Info_get`, `MPI_Info_get_valuelen`).
    ///
    /// # Errors
    /// A key that is empty or too long.
    pub fn get(&self, key: &str) -> Result<Option<&str>> {
        check_key("Info::get", key)?;
        Ok(self.entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str()))
    }

    /// The value of a key for a C caller's buffer (`MPI_Info_get_string`): the bytes that fit before a terminating NUL, and the number of
    /// bytes that the whole value needs with its terminating NUL. No bytes fit into a buffer of 0 bytes.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_string(&self, key: &str, buffer_bytes: usize) -> Result<Option<(&[u8], usize)>> {
        Ok(self.get(key)?.map(|value| {
            let shown = value.len().min(buffer_bytes.saturating_sub(1));
            (&value.as_bytes()[..shown], value.len() + 1)
        }))
    }

    /// Number of keys (`MPI_Info_get_nkeys`).
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key at this index, from 0 (`MPI_Info_get_nthkey`).
    ///
    /// # Errors
    /// [`Error::Refused`]: an index beyond the last one.
    pub fn key(&self, number: usize) -> Result<&str> {
        self.entries.get(number).map(|(key, _)| key.as_str()).ok_or_else(|| {
            let what = "there is no key at this index; the value is the index";
            Error::refused(ErrorClass::Argument, "Info::key", what, count(number))
        })
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn check_key(call: &'static str, key: &str) -> Result<()> {
    if key.is_empty() || key.len() > INFO_KEY_BYTES_MAX {
        let what = "a key must have 1 to 255 bytes; the value is the key's length";
        return Err(Error::refused(ErrorClass::InfoKey, call, what, length(key)));
    }
    Ok(())
}

fn length(text: &str) -> i64 {
    count(text.len())
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_their_last_value() {
        let mut info = Info::new();
        for (key, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")] {
            info.set(key, value).unwrap();
        }
        assert_eq!(info.iter().collect::<Vec<_>>(), [("b", "1"), ("a", "4"), ("c", "3")]);
        assert_eq!((info.len(), info.key(1).unwrap()), (3, "a"));
        let copy = info.clone();
        info.delete("b").unwrap();
        assert_eq!(info.get("b").unwrap(), None);
        assert_eq!(copy.get("b").unwrap(), Some("1"));
        assert_eq!(info.key(2).unwrap_err().class(), ErrorClass::Argument);
        assert_eq!(info.delete("b").unwrap_err().class(), ErrorClass::InfoNoKey);
    }

    #[test]
    fn a_string_fits_as_c_wants_it() {
        let mut info = Info::new();
        info.set("key", "value").unwrap();
        assert_eq!(info.get_string("key", 0).unwrap(), Some((&b""[..], 6)));
        assert_eq!(info.get_string("key", 1).unwrap(), Some((&b""[..], 6)));
        assert_eq!(info.get_string("key", 4).unwrap(), Some((&b"val"[..], 6)));
        assert_eq!(info.get_string("key", 6).unwrap(), Some((&b"value"[..], 6)));
        assert_eq!(info.get_string("other", 6).unwrap(), None);
    }

    #[test]
    fn bad_keys_and_values_are_refused() {
        let mut info = Info::new();
        let (long_key, long_value) = ("k".repeat(256), "v".repeat(1024));
        assert_eq!(info.set("", "v").unwrap_err().class(), ErrorClass::InfoKey);
        assert_eq!(info.set(&long_key, "v").unwrap_err().class(), ErrorClass::InfoKey);
        info.set("k", "").unwrap();
        assert_eq!(info.get("k").unwrap(), Some(""));
        assert_eq!(info.set("k", &long_value).unwrap_err().class(), ErrorClass::InfoValue);
        assert_eq!(info.get("").unwrap_err().class(), ErrorClass::InfoKey);
        assert_eq!(info.delete(&long_key).unwrap_err().class(), ErrorClass::InfoKey);
        info.set(&"k".repeat(255), &"v".repeat(1023)).unwrap();
    }

    #[test]
    fn the_start_is_known() {
        let arguments = ["program".to_owned(), "-n".to_owned(), "7".to_owned()];
        let info = Info::of_start(&arguments, |name| (name == "PWD").then(|| "/home".to_owned()));
        assert_eq!(info.get("command").unwrap(), Some("program"));
        assert_eq!(info.get("argv").unwrap(), Some("-n 7"));
        assert_eq!(info.get("wdir").unwrap(), Some("/home"));
        assert_eq!(info.get("host").unwrap(), None);
        for name in ["AM_NUM_TASKS", "PMI_SIZE"] {
            let info = Info::of_start(&arguments, |asked| (asked == name).then(|| "3".to_owned()));
            assert_eq!(info.get("maxprocs").unwrap(), Some("3"), "{name}");
        }
    }
}
