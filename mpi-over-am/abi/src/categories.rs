//! Start and end of the tool information interface, and its categories (MPI 5.0 sections 15.3.4 and 15.3.9). The variables are in
//! `variables` and `performance`, the events in `events`.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies; they may be null only where the standard allows it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_char, c_int};

use mpi_over_am::COLLECTIVE_SETTINGS;
use mpi_over_am::events::EventKind;

use crate::constants::{
    MPI_SUCCESS, MPI_T_ERR_INVALID, MPI_T_ERR_NOT_INITIALIZED, MPI_T_PVAR_CLASS_COUNTER,
    MPI_T_PVAR_CLASS_LEVEL, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE,
};
use crate::control::{CONTROL_VARIABLES, Variable};
use crate::events::forget_registrations;
use crate::mpi_t::{self, in_tool, index_of, indexed, put, put_string};
use crate::performance::{VARIABLES, forget_sessions};
use crate::variables::forget_handles;

pub(crate) unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    let level = levels.into_iter().find(|&level| level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    unsafe { put(provided, level) };
    mpi_t::start();
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_t_finalize() -> c_int {
    match mpi_t::end() {
        None => return MPI_T_ERR_NOT_INITIALIZED,
        Some(0) => {
            forget_handles();
            forget_sessions();
            forget_registrations();
        }
        Some(_) => {}
    }
    MPI_SUCCESS
}

/// A category: its name, its description, and its members.
struct Category {
    name: &'static str,
    about: &'static str,
    has_control: fn(Variable) -> bool,
    has_performance: fn(class: c_int) -> bool,
    has_events: bool,
    /// Indices of its subcategories.
    inside: &'static [c_int],
}

const CATEGORIES: [Category; 6] = [
    Category {
        name: "job",
        about: "Settings of the whole job, which the launcher reads: memory, device, packets",
        has_control: Variable::is_of_job,
        has_performance: |_| false,
        has_events: false,
        inside: &[],
    },
    Category {
        name: "mpi",
        about: "Settings that MPI reads when it starts: protocols of messages, and limits of queues",
        has_control: |setting| !setting.is_of_job() && !COLLECTIVE_SETTINGS.contains(&setting.name()),
        has_performance: |_| false,
        has_events: false,
        inside: &[2],
    },
    Category {
        name: "collectives",
        about: "Thresholds at which collectives change their algorithm",
        has_control: |setting| COLLECTIVE_SETTINGS.contains(&setting.name()),
        has_performance: |_| false,
        has_events: false,
        inside: &[],
    },
    Category {
        name: "queues",
        about: "Current lengths of this task's queues",
        has_control: |_| false,
        has_performance: |class| class == MPI_T_PVAR_CLASS_LEVEL,
        has_events: false,
        inside: &[],
    },
    Category {
        name: "traffic",
        about: "Counts of what this task has done since MPI started",
        has_control: |_| false,
        has_performance: |class| class == MPI_T_PVAR_CLASS_COUNTER,
        has_events: false,
        inside: &[],
    },
    Category {
        name: "events",
        about: "What happens to messages and collectives of this task",
        has_control: |_| false,
        has_performance: |_| false,
        has_events: true,
        inside: &[],
    },
];

impl Category {
    fn controls(&self) -> Vec<c_int> {
        (0..)
            .zip(CONTROL_VARIABLES.iter())
            .filter(|(_, setting)| (self.has_control)(**setting))
            .map(|(at, _)| at)
            .collect()
    }

    fn performances(&self) -> Vec<c_int> {
        let classes = (0..).zip(&VARIABLES);
        classes.filter(|(_, variable)| (self.has_performance)(variable.class)).map(|(at, _)| at).collect()
    }

    fn events(&self) -> Vec<c_int> {
        if self.has_events { (0..EventKind::ALL.len() as c_int).collect() } else { Vec::new() }
    }
}

pub(crate) unsafe fn mpi_t_category_get_num(num_cat: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(num_cat, CATEGORIES.len() as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    in_tool(|| {
        let category = indexed(&CATEGORIES, cat_index)?;
        unsafe {
            put_string(category.name, name, name_len);
            put_string(category.about, desc, desc_len);
            put(num_cvars, category.controls().len() as c_int);
            put(num_pvars, category.performances().len() as c_int);
            put(num_categories, category.inside.len() as c_int);
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
    in_tool(|| {
        let index = unsafe { index_of(name, CATEGORIES.iter().map(|category| category.name)) }?;
        unsafe { put(cat_index, index) };
        Ok(())
    })
}

/// Stores the members of a category, at most `len` of them.
unsafe fn members(
    cat_index: c_int,
    len: c_int,
    to: *mut c_int,
    members: impl FnOnce(&Category) -> Vec<c_int>,
) -> c_int {
    in_tool(|| {
        let members = members(indexed(&CATEGORIES, cat_index)?);
        let count = members.len().min(usize::try_from(len).map_err(|_| MPI_T_ERR_INVALID)?);
        if to.is_null() && count > 0 {
            return Err(MPI_T_ERR_INVALID);
        }
        for (at, &member) in members[..count].iter().enumerate() {
            unsafe { *to.add(at) = member };
        }
        Ok(())
    })
}

pub(crate) unsafe fn mpi_t_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, Category::controls) }
}

pub(crate) unsafe fn mpi_t_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, Category::performances) }
}

pub(crate) unsafe fn mpi_t_category_get_categories(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    unsafe { members(cat_index, len, indices, |category| category.inside.to_vec()) }
}

pub(crate) unsafe fn mpi_t_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    unsafe { members(cat_index, len, indices, Category::events) }
}

pub(crate) unsafe fn mpi_t_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
    in_tool(|| {
        let events = indexed(&CATEGORIES, cat_index)?.events();
        unsafe { put(num_events, events.len() as c_int) };
        Ok(())
    })
}

/// The categories never change.
pub(crate) unsafe fn mpi_t_category_changed(update: *mut c_int) -> c_int {
    in_tool(|| {
        unsafe { put(update, 0) };
        Ok(())
    })
}
