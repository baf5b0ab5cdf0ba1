//! Attributes: values that a program or a library attaches to communicators, windows and datatypes (MPI 5.0 section 7.7).
//!
//! A value is 64 bits: a pointer in C, or any number in Rust. Copy and delete callbacks are closures that get the object's number in the
//! layer above, so that Rust and C share one implementation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::error::{Error, ErrorClass, Result};

/// The kind of object that a keyval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// `MPI_Comm_create_keyval`
    Communicator,
    /// `MPI_Type_create_keyval`
    Datatype,
    /// `MPI_Win_create_keyval`
    Window,
    /// A session, which has no attributes.
    Session,
    /// A file, which has no attributes.
    File,
}

/// Called when an object is duplicated, with the object's number, the keyval and the value. Returns the duplicate's value; `None`: the
/// duplicate does not get the attribute.
pub type CopyFunction = dyn Fn(u64, &Keyval, u64) -> Result<Option<u64>> + Send + Sync;

/// Called when an attribute is deleted or its object freed, with the object's number, the keyval and the value. An error stops the
/// deletion, unless the object is freed.
pub type DeleteFunction = dyn Fn(u64, &Keyval, u64) -> Result<()> + Send + Sync;

/// A key for attributes (`MPI_Comm_create_keyval` and the like). Clones are the same key.
#[derive(Clone)]
pub struct Keyval(Arc<Inner>);

struct Inner {
    number: u64,
    kind: ObjectKind,
    copy: Box<CopyFunction>,
    delete: Box<DeleteFunction>,
}

/// A weak reference to a key, kept after a program has freed the key.
#[derive(Clone, Debug)]
pub struct WeakKeyval(Weak<Inner>);

impl WeakKeyval {
    /// The key, if something still uses it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Keyval> {
        self.0.upgrade().map(Keyval)
    }
}

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

impl Keyval {
    /// A new key for one kind of object, with its copy and delete callbacks.
    #[must_use]
    pub fn new(
        kind: ObjectKind,
        copy: impl Fn(u64, &Self, u64) -> Result<Option<u64>> + Send + Sync + 'static,
        delete: impl Fn(u64, &Self, u64) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        // Relaxed: the number only has to be unique.
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        Self(Arc::new(Inner { number, kind, copy: Box::new(copy), delete: Box::new(delete) }))
    }

    /// A key whose values are copied to duplicates (`MPI_COMM_DUP_FN`, `MPI_COMM_NULL_DELETE_FN`).
    #[must_use]
    pub fn duplicated(kind: ObjectKind) -> Self {
        Self::new(kind, |_, _, value| Ok(Some(value)), |_, _, _| Ok(()))
    }

    /// A key whose values are not copied to duplicates (`MPI_COMM_NULL_COPY_FN`, `MPI_COMM_NULL_DELETE_FN`).
    #[must_use]
    pub fn private(kind: ObjectKind) -> Self {
        Self::new(kind, |_, _, _| Ok(None), |_, _, _| Ok(()))
    }

    /// A number that no other key of this process has.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The kind of object that the key is for.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        self.0.kind
    }

    /// A weak reference to the key. A program frees its keyval by dropping it (`MPI_Comm_free_keyval`); attributes keep their key and its
    /// callbacks alive (MPI 5.0 section 7.7.2).
    #[must_use]
    pub fn downgrade(&self) -> WeakKeyval {
        WeakKeyval(Arc::downgrade(&self.0))
    }

    fn unusable(&self, call: &'static str) -> Error {
        let what = "the keyval is for another kind of object; the value is the keyval's number";
        Error::refused(ErrorClass::Keyval, call, what, i64::try_from(self.0.number).unwrap_or(i64::MAX))
    }
}

impl PartialEq for Keyval {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Keyval {}

impl fmt::Debug for Keyval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyval").field("number", &self.0.number).field("kind", &self.0.kind).finish()
    }
}

/// The attributes of one object. The parameter `object` is the object's number in the layer above.
///
/// Callbacks may use the object, so an owner that keeps this value in a cell must not borrow the cell while callbacks run. Therefore
/// [`deletion`](Self::deletion) only returns the callback, and [`set`](Self::set) and [`remove`](Self::remove) run none.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    values: Vec<(Keyval, u64)>,
}

/// The callback for an attribute that will be deleted, with its value.
#[derive(Clone, Debug)]
#[must_use = "the callback has to be run"]
pub struct Deletion {
    keyval: Keyval,
    value: u64,
}

impl Deletion {
    /// Runs the callback.
    ///
    /// # Errors
    /// The error of the callback; the attribute then stays.
    pub fn run(&self, object: u64) -> Result<()> {
        (self.keyval.0.delete)(object, &self.keyval, self.value)
    }
}

impl Attributes {
    /// No attribute.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A key for another kind of object.
    pub fn get(&self, kind: ObjectKind, keyval: &Keyval) -> Result<Option<u64>> {
        if keyval.kind() != kind {
            return Err(keyval.unusable("get_attribute"));
        }
        Ok(self.values.iter().find(|(known, _)| known == keyval).map(|&(_, value)| value))
    }

    /// Sets the value of a key. If the key has a value, the caller must first run the [`deletion`](Self::deletion) of that value.
    ///
    /// # Errors
    /// A key for another kind of object.
    pub fn set(&mut self, kind: ObjectKind, keyval: &Keyval, value: u64) -> Result<()> {
        if keyval.kind() != kind {
            return Err(keyval.unusable("set_attribute"));
        }
        self.remove(keyval);
        self.values.push((keyval.clone(), value));
        Ok(())
    }

    /// The callback to run before the value of this key is deleted; `None` if the key has no value.
    pub fn deletion(&self, keyval: &Keyval) -> Option<Deletion> {
        let (keyval, value) = self.values.iter().find(|(known, _)| known == keyval)?;
        Some(Deletion { keyval: keyval.clone(), value: *value })
    }

    /// The keys, most recently set first: the order of deletion (MPI 5.0 section 11.2.3).
    #[must_use]
    pub fn keyvals(&self) -> Vec<Keyval> {
        self.values.iter().rev().map(|(keyval, _)| keyval.clone()).collect()
    }

    /// Drops the value of a key.
    pub fn remove(&mut self, keyval: &Keyval) {
        self.values.retain(|(known, _)| known != keyval);
    }

    /// The attributes of a duplicate, from the copy callbacks.
    ///
    /// # Errors
    /// The error of a callback, after the delete callbacks of the values that were copied before.
    pub fn duplicate(&self, object: u64) -> Result<Self> {
        let mut copies = Self::new();
        for (keyval, value) in &self.values {
            match (keyval.0.copy)(object, keyval, *value) {
                Ok(Some(copied)) => copies.values.push((keyval.clone(), copied)),
                Ok(None) => {}
                Err(error) => {
                    copies.discard(object);
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }

    /// Runs the delete callbacks of a duplicate's attributes, the last copied first, because the duplicate is not made. The callbacks get
    /// the number of the original object, since there is no other. Their errors are ignored: the call fails already.
    pub(crate) fn discard(self, object: u64) {
        for (keyval, value) in self.values.into_iter().rev() {
            let _ = Deletion { keyval, value }.run(object);
        }
    }
}

/// The attributes that every communicator has (MPI 5.0 section 9.1.2), and those of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredefinedAttribute {
    /// The largest tag (`MPI_TAG_UB`).
    TagUb,
    /// Rank of the host process (`MPI_HOST`). There is no such process.
    Host,
    /// Ranks that can do input and output: all (`MPI_IO`).
    Io,
    /// Whether the clocks of all tasks agree: true if all are on one host (`MPI_WTIME_IS_GLOBAL`).
    WtimeIsGlobal,
    /// The last error code in use (`MPI_LASTUSEDCODE`), which the layer above knows.
    LastUsedCode,
    /// Number of tasks that the program may plan for, with those that it starts (`MPI_UNIVERSE_SIZE`).
    UniverseSize,
    /// Index of this task's program among the programs of the job: always 0 (`MPI_APPNUM`).
    AppNum,
    /// Whether this task goes on when another one has failed (`MPIX_FT`).
    GoesOn,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const KIND: ObjectKind = ObjectKind::Communicator;

    #[test]
    fn values_come_and_go_with_their_callbacks() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (copies, deletes) = (Arc::clone(&log), Arc::clone(&log));
        let keyval = Keyval::new(
            KIND,
            move |object, _, value| {
                copies.lock().unwrap().push(("copy", object, value));
                Ok(Some(value + 1))
            },
            move |object, _, value| {
                deletes.lock().unwrap().push(("delete", object, value));
                if value == 13 { Err(Error::Callback { call: "delete", code: 13 }) } else { Ok(()) }
            },
        );
        let private = Keyval::private(KIND);
        let mut attributes = Attributes::new();
        attributes.set(KIND, &private, 1).unwrap();
        attributes.set(KIND, &keyval, 5).unwrap();
        let copy = attributes.duplicate(70).unwrap();
        assert_eq!(copy.get(KIND, &keyval).unwrap(), Some(6));
        assert_eq!(copy.get(KIND, &private).unwrap(), None);
        let order: Vec<_> = attributes.keyvals().iter().map(Keyval::number).collect();
        assert_eq!(order, [keyval.number(), private.number()]);
        attributes.deletion(&keyval).unwrap().run(70).unwrap();
        attributes.remove(&keyval);
        assert!(attributes.deletion(&keyval).is_none());
        attributes.set(KIND, &keyval, 13).unwrap();
        assert!(attributes.deletion(&keyval).unwrap().run(70).is_err());
        assert_eq!(*log.lock().unwrap(), [("copy", 70, 5), ("delete", 70, 5), ("delete", 70, 13)]);
    }

    #[test]
    fn keys_are_for_one_kind_and_live_until_the_last_attribute_goes() {
        let keyval = Keyval::duplicated(ObjectKind::Window);
        let mut attributes = Attributes::new();
        assert_eq!(attributes.set(KIND, &keyval, 1).unwrap_err().class(), ErrorClass::Keyval);
        assert_eq!(attributes.get(KIND, &keyval).unwrap_err().class(), ErrorClass::Keyval);
        attributes.set(ObjectKind::Window, &keyval, 1).unwrap();
        let freed = keyval.downgrade();
        drop(keyval);
        let again = freed.upgrade().unwrap();
        assert_eq!(attributes.get(ObjectKind::Window, &again).unwrap(), Some(1));
        attributes.remove(&again);
        drop(again);
        assert!(freed.upgrade().is_none());
    }
}
