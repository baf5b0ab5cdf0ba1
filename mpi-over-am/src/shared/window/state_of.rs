//! What a window of several threads is, has and remembers.

use am_core::buffer::JobBuffer;
use am_core::fabric::Fabric;

use super::ThreadedWindow;
use crate::attribute::Keyval;
use crate::buffer::WindowMemory;
use crate::error::Result;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::info::Info;
use crate::window::Flavor;

impl<F: Fabric> ThreadedWindow<F> {
    /// As [`Window::group`](crate::window::Window::group).
    ///
    /// # Errors
    /// The window is gone; a call inside another one.
    pub fn group(&self) -> Result<Group> {
        self.with(|window| Ok(window.group()))
    }

    /// This task's rank in it.
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn rank(&self) -> Result<u32> {
        self.with(|window| Ok(window.rank()))
    }

    /// As [`Window::flavor`](crate::window::Window::flavor).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn flavor(&self) -> Result<Flavor> {
        self.with(|window| Ok(window.flavor()))
    }

    /// As [`Window::size`](crate::window::Window::size).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn size(&self) -> Result<u64> {
        self.with(|window| Ok(window.size()))
    }

    /// As [`Window::unit`](crate::window::Window::unit).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn unit(&self) -> Result<u64> {
        self.with(|window| Ok(window.unit()))
    }

    /// As [`Window::attach`](crate::window::Window::attach).
    ///
    /// # Errors
    /// As there.
    pub fn attach(&self, memory: impl Into<WindowMemory>) -> Result<u64> {
        self.with(|window| window.attach(memory))
    }

    /// As [`Window::detach`](crate::window::Window::detach).
    ///
    /// # Errors
    /// As there.
    pub fn detach(&self, at: u64) -> Result<JobBuffer> {
        self.with(|window| window.detach(at))
    }

    /// As [`Window::name`](crate::window::Window::name).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn name(&self) -> Result<String> {
        self.with(|window| Ok(window.name()))
    }

    /// As [`Window::set_name`](crate::window::Window::set_name).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_name(&self, name: &str) -> Result<()> {
        self.with(|window| {
            window.set_name(name);
            Ok(())
        })
    }

    /// As [`Window::info`](crate::window::Window::info).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn info(&self) -> Result<Info> {
        self.with(|window| Ok(window.info()))
    }

    /// As [`Window::set_info`](crate::window::Window::set_info).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.with(|window| {
            window.set_info(info);
            Ok(())
        })
    }

    /// As [`Window::error_handler`](crate::window::Window::error_handler).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn error_handler(&self) -> Result<ErrorHandler> {
        self.with(|window| Ok(window.error_handler()))
    }

    /// As [`Window::set_error_handler`](crate::window::Window::set_error_handler).
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_error_handler(&self, handler: ErrorHandler) -> Result<()> {
        self.with(|window| {
            window.set_error_handler(handler);
            Ok(())
        })
    }

    /// As [`Window::handled`](crate::window::Window::handled). The handler runs inside a call, and can make none.
    ///
    /// # Errors
    /// Those of `result`; as for [`group`](Self::group).
    pub fn handled<T: Send>(&self, result: Result<T>) -> Result<T> {
        self.with(|window| window.handled(result))
    }

    /// As [`Window::attribute`](crate::window::Window::attribute).
    ///
    /// # Errors
    /// As there.
    pub fn attribute(&self, keyval: &Keyval) -> Result<Option<u64>> {
        self.with(|window| window.attribute(keyval))
    }

    /// As [`Window::set_attribute`](crate::window::Window::set_attribute). Callbacks run inside this call, and can make none.
    ///
    /// # Errors
    /// As there.
    pub fn set_attribute(&self, keyval: &Keyval, value: u64) -> Result<()> {
        self.with(|window| window.set_attribute(keyval, value))
    }

    /// As [`Window::delete_attribute`](crate::window::Window::delete_attribute); callbacks as for [`set_attribute`](Self::set_attribute).
    ///
    /// # Errors
    /// As there.
    pub fn delete_attribute(&self, keyval: &Keyval) -> Result<()> {
        self.with(|window| window.delete_attribute(keyval))
    }
}
