//! What a communicator of several threads is, has and remembers, and what is known of the environment.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::{SharedCommunicator, SharedEnvironment};
use crate::attribute::{Keyval, PredefinedAttribute};
use crate::environment::Environment;
use crate::error::Result;
use crate::error_handler::ErrorHandler;
use crate::group::{Comparison, Group};
use crate::info::Info;
use crate::queues::Counts;

impl<F: Fabric> SharedCommunicator<F> {
    /// As [`Communicator::group`](crate::Communicator::group).
    ///
    /// # Errors
    /// A call inside another one.
    pub fn group(&self) -> Result<Group> {
        self.with(|inside| Ok(inside.group()))
    }

    /// As [`Communicator::compare`](crate::Communicator::compare).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn compare(&self, other: &Self) -> Result<Comparison> {
        let number = other.handle.number;
        if !Arc::ptr_eq(&self.handle.shared, &other.handle.shared) {
            return Ok(Comparison::Unequal);
        }
        let mut turn = self.handle.shared.inner.enter()?;
        let inside = turn.value();
        Ok(inside.communicator(self.handle.number)?.compare(inside.communicator(number)?))
    }

    /// As [`Communicator::name`](crate::Communicator::name).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn name(&self) -> Result<String> {
        self.with(|inside| Ok(inside.name()))
    }

    /// As [`Communicator::set_name`](crate::Communicator::set_name).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_name(&self, name: &str) -> Result<()> {
        self.with(|inside| {
            inside.set_name(name);
            Ok(())
        })
    }

    /// As [`Communicator::info`](crate::Communicator::info).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn info(&self) -> Result<Info> {
        self.with(|inside| Ok(inside.info()))
    }

    /// As [`Communicator::set_info`](crate::Communicator::set_info).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.with(|inside| {
            inside.set_info(info);
            Ok(())
        })
    }

    /// As [`Communicator::error_handler`](crate::Communicator::error_handler).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn error_handler(&self) -> Result<ErrorHandler> {
        self.with(|inside| Ok(inside.error_handler()))
    }

    /// As [`Communicator::set_error_handler`](crate::Communicator::set_error_handler).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_error_handler(&self, handler: ErrorHandler) -> Result<()> {
        self.with(|inside| {
            inside.set_error_handler(handler);
            Ok(())
        })
    }

    /// As [`Communicator::handled`](crate::Communicator::handled). The handler runs inside this call, and can make none.
    ///
    /// # Errors
    /// Those of `result`; as for [`group`](Self::group).
    pub fn handled<T: Send>(&self, result: Result<T>) -> Result<T> {
        self.with(|inside| inside.handled(result))
    }

    /// As [`Communicator::attribute`](crate::Communicator::attribute).
    ///
    /// # Errors
    /// As there.
    pub fn attribute(&self, keyval: &Keyval) -> Result<Option<u64>> {
        self.with(|inside| inside.attribute(keyval))
    }

    /// As [`Communicator::set_attribute`](crate::Communicator::set_attribute). Callbacks run inside calls, and can make none.
    ///
    /// # Errors
    /// As there.
    pub fn set_attribute(&self, keyval: &Keyval, value: u64) -> Result<()> {
        self.with(|inside| inside.set_attribute(keyval, value))
    }

    /// As [`Communicator::delete_attribute`](crate::Communicator::delete_attribute).
    ///
    /// # Errors
    /// As there.
    pub fn delete_attribute(&self, keyval: &Keyval) -> Result<()> {
        self.with(|inside| inside.delete_attribute(keyval))
    }

    /// As [`Communicator::predefined_attribute`](crate::Communicator::predefined_attribute).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn predefined_attribute(&self, attribute: PredefinedAttribute) -> Result<Option<i64>> {
        self.with(|inside| Ok(inside.predefined_attribute(attribute)))
    }

    /// As [`Communicator::close`](crate::Communicator::close): the delete callbacks of its attributes run now. Other handles, and what
    /// is under way, go on.
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<()> {
        self.with(|inside| inside.clone().close())
    }

    /// As [`Communicator::abort`](crate::Communicator::abort); inside of another call, this task ends at once and without a word.
    pub fn abort(&self, code: i32) -> ! {
        if let Ok(mut turn) = self.handle.shared.inner.enter()
            && let Ok(inside) = turn.value().communicator(self.handle.number)
        {
            inside.abort(code);
        }
        std::process::abort()
    }
}

impl<F: Fabric> SharedEnvironment<F> {
    /// As [`Environment::queues`].
    ///
    /// # Errors
    /// As there.
    pub fn queues(&self) -> Result<String> {
        self.shared.inner.with_environment(Environment::queues)
    }

    /// As [`Environment::counts`].
    ///
    /// # Errors
    /// As there.
    pub fn counts(&self) -> Result<Counts> {
        self.shared.inner.with_environment(Environment::counts)
    }
}
