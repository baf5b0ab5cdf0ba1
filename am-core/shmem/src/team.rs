//! Teams (OpenSHMEM 1.6, section 9.4): PEs with numbers of their own, and a slot for the tokens of their collectives.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::objects::{Members, Team, TeamConfig, TeamObject};
use crate::world::{World, fail, try_world, world};
use crate::{progress, tokens};

/// The bit of `config_mask` for the number of contexts.
const NUM_CONTEXTS: c_long = 1;
/// The slot of the collectives of old programs, whose PEs are given in each call.
const SLOT_OF_ACTIVE_SETS: u32 = 1;

/// A team's members; an error for a team that does not exist.
pub(crate) fn members(call: &str, team: Team) -> &'static Members {
    match object(call, team) {
        Some(object) => &object.members,
        None => fail(call, format_args!("team is SHMEM_TEAM_INVALID: this PE is in no such team")),
    }
}

/// `None`: the invalid team.
fn object(call: &str, team: Team) -> Option<&'static TeamObject> {
    let world = world(call);
    let object = match team {
        Team::INVALID => return None,
        Team::WORLD => &world.teams.world,
        Team::SHARED => &world.teams.shared,
        // SAFETY: a handle that `create` has made. It is never freed.
        Team(object) => unsafe { &*object },
    };
    if object.is_over.load(Ordering::Relaxed) {
        fail(call, format_args!("team was destroyed before"));
    }
    Some(object)
}

/// The PEs of a collective of version 1.4 and before; an error if this PE is not among them.
pub(crate) fn active_set(call: &str, start: c_int, log_stride: c_int, size: c_int) -> Members {
    let world = world(call);
    let stride = u32::try_from(log_stride).ok().and_then(|log| 1_i64.checked_shl(log));
    let last = stride.and_then(|stride| Some(i64::from(start) + stride.checked_mul(i64::from(size) - 1)?));
    let (Some(stride), Some(last)) = (stride, last) else {
        fail(call, format_args!("logPE_stride = {log_stride}: no power of two"))
    };
    if start < 0 || size < 1 || last >= i64::from(world.pes) {
        fail(
            call,
            format_args!(
                "PE_start = {start}, logPE_stride = {log_stride}, PE_size = {size}: not all of these are PEs of this job, which has 0 to {}",
                world.pes - 1
            ),
        );
    }
    let list: Vec<u32> = (0..i64::from(size)).map(|at| (i64::from(start) + at * stride) as u32).collect();
    let Some(me) = list.iter().position(|&pe| pe == world.me) else {
        fail(
            call,
            format_args!(
                "PE_start = {start}, logPE_stride = {log_stride}, PE_size = {size}: this PE is not in the set, and must not call"
            ),
        )
    };
    Members { slot: SLOT_OF_ACTIVE_SETS, list, me }
}

pub(crate) unsafe fn my_pe(call: &str, team: Team) -> c_int {
    object(call, team).map_or(-1, |object| object.members.me as c_int)
}

pub(crate) unsafe fn n_pes(call: &str, team: Team) -> c_int {
    object(call, team).map_or(-1, |object| object.members.list.len() as c_int)
}

pub(crate) unsafe fn get_config(call: &str, team: Team, mask: c_long, config: *mut TeamConfig) -> c_int {
    let Some(object) = object(call, team) else { return -1 };
    if mask & NUM_CONTEXTS != 0 && !config.is_null() {
        unsafe { *config = object.config };
    }
    0
}

pub(crate) unsafe fn translate_pe(call: &str, from: Team, pe: c_int, to: Team) -> c_int {
    let (Some(from), Some(to)) = (object(call, from), object(call, to)) else { return -1 };
    let pe = usize::try_from(pe).ok().and_then(|pe| from.members.list.get(pe));
    let found = pe.and_then(|&pe| to.members.list.iter().position(|&other| other == pe));
    found.map_or(-1, |at| at as c_int)
}

/// Collective over the parent: a team of the PEs in `list`, if this PE is among them. Disjoint teams that are made together share a slot.
fn create(
    call: &str,
    world: &World,
    parent: &Members,
    list: Option<Vec<u32>>,
    config: TeamConfig,
) -> Result<Team, ()> {
    let mut free = u64::MAX;
    let own = world.teams.free.load(Ordering::Relaxed).to_ne_bytes();
    tokens::exchange(call, world, parent, &own, |_, letter| {
        free &= letter.try_into().map_or(0, u64::from_ne_bytes);
    });
    if free == 0 {
        return Err(());
    }
    let slot = free.trailing_zeros();
    let Some(list) = list else { return Ok(Team::INVALID) };
    let Some(me) = list.iter().position(|&pe| pe == world.me) else { return Ok(Team::INVALID) };
    world.teams.free.fetch_and(!(1 << slot), Ordering::Relaxed);
    let members = Members { slot, list, me };
    Ok(Team(Box::into_raw(Box::new(TeamObject { members, config, is_over: AtomicBool::new(false) }))))
}

fn config_of(config: *const TeamConfig, mask: c_long) -> TeamConfig {
    if mask & NUM_CONTEXTS != 0 && !config.is_null() {
        // SAFETY: the program's structure.
        unsafe { *config }
    } else {
        TeamConfig::default()
    }
}

pub(crate) unsafe fn split_strided(
    call: &str,
    parent: Team,
    start: c_int,
    stride: c_int,
    size: c_int,
    config: *const TeamConfig,
    mask: c_long,
    new_team: *mut Team,
) -> c_int {
    unsafe { *new_team = Team::INVALID };
    let Some(parent) = object(call, parent) else { return -1 };
    let parent = &parent.members;
    let at = |index: c_int| i64::from(start) + i64::from(index) * i64::from(stride);
    let is_inside = |index: i64| (0..parent.list.len() as i64).contains(&index);
    if size < 1 || size > 1 && stride == 0 || !is_inside(at(0)) || !is_inside(at(size - 1)) {
        return -1;
    }
    let list = (0..size).map(|index| parent.list[at(index) as usize]).collect();
    match create(call, world(call), parent, Some(list), config_of(config, mask)) {
        Ok(team) => {
            unsafe { *new_team = team };
            0
        }
        Err(()) => -1,
    }
}

pub(crate) unsafe fn split_2d(
    call: &str,
    parent: Team,
    xrange: c_int,
    xaxis_config: *const TeamConfig,
    xaxis_mask: c_long,
    xaxis_team: *mut Team,
    yaxis_config: *const TeamConfig,
    yaxis_mask: c_long,
    yaxis_team: *mut Team,
) -> c_int {
    unsafe { (*xaxis_team, *yaxis_team) = (Team::INVALID, Team::INVALID) };
    let Some(parent) = object(call, parent) else { return -1 };
    let parent = &parent.members;
    let Some(range) = usize::try_from(xrange).ok().filter(|&range| range > 0) else { return -1 };
    let range = range.min(parent.list.len());
    let (row, column) = (parent.me / range, parent.me % range);
    let of_row = parent.list.iter().skip(row * range).take(range).copied().collect();
    let of_column = parent.list.iter().skip(column).step_by(range).copied().collect();
    let world = world(call);
    let x = create(call, world, parent, Some(of_row), config_of(xaxis_config, xaxis_mask));
    let y = create(call, world, parent, Some(of_column), config_of(yaxis_config, yaxis_mask));
    unsafe {
        *xaxis_team = x.unwrap_or(Team::INVALID);
        *yaxis_team = y.unwrap_or(Team::INVALID);
    }
    if x.is_ok() && y.is_ok() { 0 } else { -1 }
}

pub(crate) unsafe fn destroy(call: &str, team: Team) {
    if team == Team::WORLD || team == Team::SHARED {
        fail(call, format_args!("team is one that every job has, which stays until shmem_finalize"));
    }
    let Some(object) = object(call, team) else { return };
    progress::quiet(call);
    object.is_over.store(true, Ordering::Relaxed);
    if let Some(world) = try_world() {
        world.teams.free.fetch_or(1 << object.members.slot, Ordering::Relaxed);
    }
}
