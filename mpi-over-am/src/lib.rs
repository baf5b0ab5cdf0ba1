//! MPI semantics over am-core's active messages, after the seed paper "MPI-LAPI".

#![deny(unsafe_code)]

mod budget;
#[expect(unsafe_code, reason = "the one place where this crate holds user memory beyond a call")]
mod buffer;
mod collective;
mod communicator;
mod completion;
mod early_message;
mod envelope;
mod environment;
mod error;
mod group;
mod handlers;
pub mod matching;
pub mod op;
mod probe;
mod protocol;
mod rank;
mod receive;
mod request;
mod send;
mod sendrecv;
mod settings;
mod state;
mod status;
mod tag;

pub use collective::Datum;
pub use communicator::Communicator;
pub use environment::{Environment, JobFabric};
pub use error::{Error, ErrorClass, Fault, Result, Side};
pub use protocol::{BSEND_OVERHEAD_BYTES, Mode};
pub use rank::Source;
pub use request::{OwnedRequest, Request, RequestId, Scope, Tested};
pub use settings::{CompletionVariant, Settings};
pub use status::Status;
pub use tag::{TAG_UB, Tag};
