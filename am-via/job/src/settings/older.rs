//! The names that settings had elsewhere: IBM's MPI, MPICH over Portals, and LAM/MPI's module for VIA. They hold where our own
//! name is not set; among themselves, the first one in the table.

use super::{Auto, SettingError, Settings, Value};

/// A setting's name elsewhere.
#[derive(Debug)]
pub struct Older {
    /// The environment variable.
    pub env: &'static str,
    /// The setting of ours that it changes, by name.
    pub own: &'static str,
    /// What its value becomes.
    pub meaning: &'static str,
    store: fn(&mut Settings, &str) -> Result<(), String>,
}

/// All of them.
pub static OLDER: &[Older] = &[
    Older {
        env: "MP_EAGER_LIMIT",
        own: "eager_limit_bytes",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.eager_limit_bytes, u64::parse(text)?),
    },
    Older {
        env: "MPI_LONG_MSG",
        own: "eager_limit_bytes",
        meaning: "the shortest long message: one byte more",
        store: |settings, text| keep(&mut settings.eager_limit_bytes, u64::parse(text)?.saturating_sub(1)),
    },
    Older {
        env: "LAM_MPI_SSI_rpi_via_short",
        own: "eager_limit_bytes",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.eager_limit_bytes, u64::parse(text)?),
    },
    Older {
        env: "MP_BUFFER_MEM",
        own: "early_arrival_bytes_max",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.early_arrival_bytes_max, u64::parse(text)?),
    },
    Older {
        env: "MPI_UNEX_BLOCK_SIZE",
        own: "early_arrival_bytes_max",
        meaning: "one of three blocks of memory: a third",
        store: |settings, text| {
            let bytes =
                u64::parse(text)?.checked_mul(3).ok_or("three times as much does not fit into 64 bits")?;
            keep(&mut settings.early_arrival_bytes_max, bytes)
        },
    },
    Older {
        env: "MPI_UNEX_MAX",
        own: "early_arrivals_max",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.early_arrivals_max, Auto::Fixed(u64::parse(text)?)),
    },
    Older {
        env: "MPI_IRECV_MAX",
        own: "posted_receives_max",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.posted_receives_max, Auto::Fixed(u64::parse(text)?)),
    },
    Older {
        env: "MPI_LONG_MAX",
        own: "long_sends_max",
        meaning: "the same",
        store: |settings, text| keep(&mut settings.long_sends_max, Auto::Fixed(u64::parse(text)?)),
    },
    Older {
        env: "MPI_DEBUG",
        own: "debug",
        meaning: "set at all: on",
        store: |settings, _| keep(&mut settings.debug, true),
    },
    Older {
        env: "MPI_DUMP_QUEUES",
        own: "dump_queues",
        meaning: "set at all: on",
        store: |settings, _| keep(&mut settings.dump_queues, true),
    },
    Older {
        env: "LAM_MPI_SSI_rpi_via_tiny",
        own: "packet_bytes",
        meaning: "the longest message that goes in one packet: the same",
        store: |settings, text| keep(&mut settings.packet_bytes, u32::parse(text)?),
    },
    Older {
        env: "LAM_MPI_SSI_rpi_via_rdescs",
        own: "credits",
        meaning: "posted receive descriptors of a connection: as many, at most 64",
        store: |settings, text| keep(&mut settings.credits, u32::parse(text)?.min(64)),
    },
    Older {
        env: "LAM_MPI_SSI_rpi_via_sdescs",
        own: "credits",
        meaning: "send descriptors to one task: as many, at most 64",
        store: |settings, text| keep(&mut settings.credits, u32::parse(text)?.min(64)),
    },
    Older {
        env: "LAM_MPI_SSI_rpi_via_area",
        own: "credits",
        meaning: "memory for the messages of one task: as many packets as it holds, at most 64",
        store: |settings, text| {
            let packets = u64::parse(text)? / u64::from(settings.packet_bytes);
            keep(&mut settings.credits, u32::try_from(packets.clamp(1, 64)).expect("at most 64"))
        },
    },
];

fn keep<T>(field: &mut T, value: T) -> Result<(), String> {
    *field = value;
    Ok(())
}

impl Settings {
    /// Changes the settings whose own variable is not set by what `variable` says of their older names.
    ///
    /// # Errors
    /// A value that the setting cannot take.
    pub(super) fn change_by_older(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), SettingError> {
        let mut changed: Vec<&str> = Vec::new();
        for older in OLDER {
            let own = super::SETTINGS.iter().find(|setting| setting.name == older.own);
            let own = own.expect("each older name stands for a setting of ours");
            let Some(text) = variable(older.env) else { continue };
            if changed.contains(&older.own) || variable(own.env).is_some() {
                continue;
            }
            changed.push(older.own);
            let mut settings = self.clone();
            let stored = (older.store)(&mut settings, text.trim());
            // The range of our own setting holds for the value that it becomes.
            let stored = stored.and_then(|()| (own.store)(&mut settings.clone(), &own.value(&settings)));
            stored.map_err(|why| SettingError {
                env: older.env,
                value: text.clone(),
                why,
                form: format!("{}, of {}", own.form(), own.env),
                default: own.value(&Self::default()),
            })?;
            *self = settings;
        }
        Ok(())
    }
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
    fn each_older_name_changes_its_setting_and_no_other() {
        for older in OLDER {
            let changed = read(&[(older.env, "7000")]).unwrap();
            for setting in super::super::SETTINGS {
                let (value, default) = (setting.value(&changed), setting.value(&Settings::default()));
                // As many credits as there are is what these become here.
                let is_same = value == default;
                assert_eq!(
                    is_same,
                    setting.name != older.own || older.own == "credits" && is_same,
                    "{}",
                    older.env
                );
            }
        }
        assert_eq!(read(&[("LAM_MPI_SSI_rpi_via_rdescs", "10")]).unwrap().credits, 10);
        assert_eq!(read(&[("LAM_MPI_SSI_rpi_via_area", "133120")]).unwrap().credits, 8);
        assert_eq!(read(&[("MPI_UNEX_BLOCK_SIZE", "2m")]).unwrap().early_arrival_bytes_max, 6 << 20);
        assert_eq!(read(&[("MPI_LONG_MSG", "8064")]).unwrap().eager_limit_bytes, 8063);
        assert_eq!(read(&[("MPI_IRECV_MAX", "1024")]).unwrap().posted_receives_max, Auto::Fixed(1024));
    }

    #[test]
    fn our_own_name_holds_first_and_then_the_first_of_the_table() {
        let both = [("MPI_LONG_MSG", "9"), ("MP_EAGER_LIMIT", "5"), ("AM_EAGER_LIMIT_BYTES", "1k")];
        assert_eq!(read(&both).unwrap().eager_limit_bytes, 1024);
        assert_eq!(read(&both[..2]).unwrap().eager_limit_bytes, 5);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_under_the_name_that_was_used() {
        for (env, value) in [
            ("MP_EAGER_LIMIT", "many"),
            ("MPI_UNEX_BLOCK_SIZE", "16777216t"),
            ("LAM_MPI_SSI_rpi_via_tiny", "3"),
            ("LAM_MPI_SSI_rpi_via_rdescs", "0"),
            ("MPI_LONG_MAX", "-1"),
        ] {
            let text = read(&[(env, value)]).unwrap_err().to_string();
            assert!(text.contains(env) && text.contains(value), "{text}");
        }
    }
}
