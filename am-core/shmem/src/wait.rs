//! Waits until words have changed (OpenSHMEM 1.6, section 9.11).
//!
//! A wait spins briefly if each task has a core, then sleeps in am-core's wait until a PE that stores rings. Stores are not followed by a
//! fence, so the sleeper, after it has said that it sleeps, looks again until every store that may have missed that has left its
//! processor's store buffer.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use am_atomics::Width;
use am_core::Description;
use am_core::fabric::UnderWay;

use crate::symbols;
use crate::types::Word;
use crate::world::{self, fail, world};

/// Number of looks before a wait says that it sleeps: about 20 us.
const LOOKS: u32 = if cfg!(debug_assertions) { 100 } else { 2000 };
/// Longer than a store stays in a store buffer.
const SETTLE: Duration = Duration::from_micros(20);

/// A comparison.
#[derive(Clone, Copy)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Greater,
    LessOrEqual,
    Less,
    GreaterOrEqual,
}

impl std::fmt::Display for Compare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Equal => "is",
            Self::NotEqual => "is not",
            Self::Greater => "is greater than",
            Self::LessOrEqual => "is at most",
            Self::Less => "is less than",
            Self::GreaterOrEqual => "is at least",
        })
    }
}

impl Compare {
    #[inline(always)]
    fn of(call: &str, cmp: c_int) -> Self {
        match cmp {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::Greater,
            3 => Self::LessOrEqual,
            4 => Self::Less,
            5 => Self::GreaterOrEqual,
            _ => fail(
                call,
                format_args!("there is no comparison {cmp}: use SHMEM_CMP_EQ, NE, GT, GE, LT or LE"),
            ),
        }
    }

    #[inline(always)]
    fn holds<T: PartialOrd>(self, value: T, with: T) -> bool {
        match self {
            Self::Equal => value == with,
            Self::NotEqual => value != with,
            Self::Greater => value > with,
            Self::LessOrEqual => value <= with,
            Self::Less => value < with,
            Self::GreaterOrEqual => value >= with,
        }
    }
}

/// A word of this PE's memory, which others may change.
#[inline(always)]
unsafe fn load<T: Word>(at: *const T) -> T {
    let at = at.cast_mut();
    // Acquire: pairs with the release of the PE that stored the word.
    let bits = unsafe {
        match T::WIDTH {
            Width::Bits8 => AtomicU8::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            Width::Bits16 => AtomicU16::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            Width::Bits32 => AtomicU32::from_ptr(at.cast()).load(Ordering::Acquire).into(),
            Width::Bits64 => AtomicU64::from_ptr(at.cast()).load(Ordering::Acquire),
        }
    };
    T::from_bits(bits)
}

/// Waits until `holds`. `about` tells the report of a hang what that is.
pub(crate) fn block(call: &str, mut holds: impl FnMut() -> bool, about: impl FnOnce() -> Description) {
    if holds() {
        return;
    }
    let world = world(call);
    if !world::has_far() && !world.job.is_crowded() {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if holds() {
                return;
            }
        }
    }
    sleep(call, world, &mut holds, about());
}

#[cold]
#[inline(never)]
fn sleep(call: &str, world: &world::World, holds: &mut dyn FnMut() -> bool, about: Description) {
    if !falls_asleep(world, holds) {
        return;
    }
    let exit = world.exit_word(world.me);
    let mut about = Some(about);
    let waited = world.shared.wait_for(|context| {
        if let Some(about) = about.take() {
            context.describe_wait(Some(about));
        }
        let must_end = exit.is_some_and(|word| word.load(Ordering::Acquire) != 0);
        // A PE that has rung has reset the word, so it is set again before each sleep.
        let is_over = must_end || holds() || !falls_asleep(world, holds);
        if is_over {
            context.describe_wait(None);
        }
        Ok(is_over.then_some(must_end))
    });
    match waited {
        Ok(false) => {}
        Ok(true) => world::leave(0),
        Err(error) => world::fail_by(call, &error),
    }
}

/// Says that this PE sleeps, and looks until every store that may have missed that is visible. `false`: the wait is over. The word stays
/// when a wait ends, since another thread may sleep: the next store rings once for nothing.
fn falls_asleep(world: &world::World, holds: &mut dyn FnMut() -> bool) -> bool {
    let Some(word) = world.asleep(world.me) else { return true };
    if word.load(Ordering::Relaxed) != 0 {
        return !holds();
    }
    // SeqCst: the store is visible before the looks below.
    word.store(1, Ordering::SeqCst);
    let settled = Instant::now() + SETTLE;
    while Instant::now() < settled {
        if holds() {
            return false;
        }
        std::thread::yield_now();
    }
    !holds()
}

/// "shmem_long_wait_until until flag (static data) is 1; it is 0".
fn about_word<T: Word>(call: &str, at: *const T, compare: Compare, value: T) -> Description {
    let (call, name, at) = (call.to_owned(), symbols::name_of(at.addr()), at.expose_provenance());
    let wanted = format!("{compare} {value}");
    Description::new(move || {
        // SAFETY: the word that a thread of this process waits for, which it keeps meanwhile.
        let seen = unsafe { load(std::ptr::with_exposed_provenance::<T>(at)) };
        let details = format!("until {name} {wanted}; it is {seen}");
        UnderWay { what: call.clone().into(), partner: None, details }
    })
}

/// A wait for one of many words.
fn about_words<T>(call: &str, at: *const T, count: usize) -> Description {
    let (call, name) = (call.to_owned(), symbols::name_of(at.addr()));
    Description::new(move || {
        let details = format!("until words of {name} change ({count} words)");
        UnderWay { what: call.clone().into(), partner: None, details }
    })
}

pub(crate) unsafe fn until<T: Word>(call: &str, ivar: *const T, cmp: c_int, value: T) {
    check(call, ivar);
    let compare = Compare::of(call, cmp);
    block(call, || compare.holds(unsafe { load(ivar) }, value), || about_word(call, ivar, compare, value));
}

pub(crate) unsafe fn signal(call: &str, sig_addr: *const u64, cmp: c_int, value: u64) -> u64 {
    check(call, sig_addr);
    let compare = Compare::of(call, cmp);
    let mut seen = 0;
    let holds = || {
        seen = unsafe { load(sig_addr) };
        compare.holds(seen, value)
    };
    block(call, holds, || about_word(call, sig_addr, compare, value));
    seen
}

/// `shmem_wait`: until the word differs from the value.
pub(crate) unsafe fn changed<T: Word>(call: &str, ivar: *const T, value: T) {
    unsafe { until(call, ivar, 1, value) };
}

pub(crate) unsafe fn test<T: Word>(call: &str, ivar: *const T, cmp: c_int, value: T) -> c_int {
    check(call, ivar);
    let holds = Compare::of(call, cmp).holds(unsafe { load(ivar) }, value);
    progress(call, holds);
    holds.into()
}

fn check<T>(call: &str, ivar: *const T) {
    if ivar.is_null() || !ivar.is_aligned() {
        fail(call, format_args!("ivar = {ivar:?}: not the address of an aligned word"));
    }
}

/// After a test that failed: the program may repeat it, and words of PEs on other hosts change by messages.
fn progress(call: &str, holds: bool) {
    if !holds {
        crate::progress::progress(call);
    }
}

/// An array of words, some of which are left out, and what each is compared with.
struct Words<T> {
    at: *const T,
    count: usize,
    status: *const c_int,
    compare: Compare,
    value: Values<T>,
}

enum Values<T> {
    Same(T),
    Each(*const T),
}

impl<T: Word> Words<T> {
    fn of(
        call: &str,
        at: *const T,
        count: usize,
        status: *const c_int,
        cmp: c_int,
        value: Values<T>,
    ) -> Self {
        if count > 0 {
            check(call, at);
        }
        Self { at, count, status, compare: Compare::of(call, cmp), value }
    }

    /// The words that take part (OpenSHMEM: whose status is 0).
    fn taking_part(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(|&at| self.status.is_null() || unsafe { *self.status.add(at) } == 0)
    }

    fn holds(&self, at: usize) -> bool {
        let value = match self.value {
            Values::Same(value) => value,
            Values::Each(values) => unsafe { *values.add(at) },
        };
        self.compare.holds(unsafe { load(self.at.add(at)) }, value)
    }

    fn all(&self) -> bool {
        self.taking_part().all(|at| self.holds(at))
    }

    /// A word for which the comparison holds; `None`: there is none yet. The look begins at another word each time, so that none is
    /// passed over for ever.
    fn any(&self, begin: usize) -> Option<usize> {
        let rotated = (0..self.count).map(|step| (begin + step) % self.count);
        let takes_part = |at: &usize| self.status.is_null() || unsafe { *self.status.add(*at) } == 0;
        rotated.filter(takes_part).find(|&at| self.holds(at))
    }

    unsafe fn some(&self, indices: *mut usize) -> usize {
        let mut found = 0;
        for at in self.taking_part().filter(|&at| self.holds(at)) {
            unsafe { *indices.add(found) = at };
            found += 1;
        }
        found
    }

    fn none_takes_part(&self) -> bool {
        self.taking_part().next().is_none()
    }

    fn wait_any(&self, call: &str) -> usize {
        if self.none_takes_part() {
            return usize::MAX;
        }
        let begin = next_begin() % self.count;
        let mut found = None;
        let holds = || {
            found = self.any(begin);
            found.is_some()
        };
        block(call, holds, || about_words(call, self.at, self.count));
        found.unwrap_or(usize::MAX)
    }

    fn wait_some(&self, call: &str, indices: *mut usize) -> usize {
        if self.none_takes_part() {
            return 0;
        }
        let mut found = 0;
        let holds = || {
            found = unsafe { self.some(indices) };
            found > 0
        };
        block(call, holds, || about_words(call, self.at, self.count));
        found
    }

    fn test_any(&self, call: &str) -> usize {
        if self.count == 0 {
            return usize::MAX;
        }
        let found = self.any(next_begin() % self.count);
        progress(call, found.is_some());
        found.unwrap_or(usize::MAX)
    }

    fn test_some(&self, call: &str, indices: *mut usize) -> usize {
        let found = unsafe { self.some(indices) };
        progress(call, found > 0);
        found
    }

    fn test_all(&self, call: &str) -> c_int {
        let holds = self.all();
        progress(call, holds);
        holds.into()
    }
}

/// Where the next look for any word begins.
fn next_begin() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) as usize
}

/// The forms with one value for all words, and with one for each.
macro_rules! of_words {
    ($($all:ident $any:ident $some:ident $test_all:ident $test_any:ident $test_some:ident $value:ty, $values:ident;)*) => {$(
        pub(crate) unsafe fn $all<T: Word>(call: &str, ivars: *const T, count: usize, status: *const c_int, cmp: c_int, value: $value) {
            let words = Words::of(call, ivars, count, status, cmp, Values::$values(value));
            block(call, || words.all(), || about_words(call, ivars, count));
        }

        pub(crate) unsafe fn $any<T: Word>(call: &str, ivars: *const T, count: usize, status: *const c_int, cmp: c_int, value: $value) -> usize {
            Words::of(call, ivars, count, status, cmp, Values::$values(value)).wait_any(call)
        }

        pub(crate) unsafe fn $some<T: Word>(call: &str, ivars: *const T, count: usize, indices: *mut usize, status: *const c_int, cmp: c_int, value: $value) -> usize {
            Words::of(call, ivars, count, status, cmp, Values::$values(value)).wait_some(call, indices)
        }

        pub(crate) unsafe fn $test_all<T: Word>(call: &str, ivars: *const T, count: usize, status: *const c_int, cmp: c_int, value: $value) -> c_int {
            Words::of(call, ivars, count, status, cmp, Values::$values(value)).test_all(call)
        }

        pub(crate) unsafe fn $test_any<T: Word>(call: &str, ivars: *const T, count: usize, status: *const c_int, cmp: c_int, value: $value) -> usize {
            Words::of(call, ivars, count, status, cmp, Values::$values(value)).test_any(call)
        }

        pub(crate) unsafe fn $test_some<T: Word>(call: &str, ivars: *const T, count: usize, indices: *mut usize, status: *const c_int, cmp: c_int, value: $value) -> usize {
            Words::of(call, ivars, count, status, cmp, Values::$values(value)).test_some(call, indices)
        }
    )*};
}

of_words! {
    until_all until_any until_some test_all test_any test_some T, Same;
    until_all_vector until_any_vector until_some_vector test_all_vector test_any_vector test_some_vector *const T, Each;
}
