//! The control variables of the tool information interface, without their values: settings of the job and of MPI.

use std::sync::LazyLock;

use mpi_over_am::{JobSettings, Setting, Settings, Table};

/// A control variable: a setting of the job, or one of MPI.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Variable {
    Job(&'static Setting<JobSettings>),
    Mpi(&'static Setting<Settings>),
}

/// All control variables, in the order of `mpiexec --info`.
pub(crate) static CONTROL_VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    let of_job = JobSettings::SETTINGS.iter().map(Variable::Job);
    of_job.chain(Settings::SETTINGS.iter().map(Variable::Mpi)).collect()
});

impl Variable {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Job(setting) => setting.name,
            Self::Mpi(setting) => setting.name,
        }
    }

    pub(crate) fn is_of_job(self) -> bool {
        matches!(self, Self::Job(_))
    }

    pub(crate) fn about(self) -> String {
        let (meaning, env, form) = match self {
            Self::Job(setting) => (setting.meaning, setting.env, setting.form()),
            Self::Mpi(setting) => (setting.meaning, setting.env, setting.form()),
        };
        let auto = if self.may_be_auto() { "; -1 is auto" } else { "" };
        format!("{} ({env}: {form}{auto})", meaning.trim())
    }

    pub(crate) fn choices(self) -> &'static [&'static str] {
        match self {
            Self::Job(setting) => setting.choices,
            Self::Mpi(setting) => setting.choices,
        }
    }

    pub(crate) fn may_be_auto(self) -> bool {
        match self {
            Self::Job(setting) => setting.may_be_auto,
            Self::Mpi(setting) => setting.may_be_auto,
        }
    }
}
