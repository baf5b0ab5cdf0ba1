//! Where each call of LAPI is, for those who know that.
//!
//! | LAPI | Here |
//! | --- | --- |
//! | `Init`, up to 16 instances | [`Context::new`] over a fabric each; a task opens 16 of `am-via`'s |
//! | `Term` | dropping the context |
//! | `Put` | [`Context::put`]; [`put_owned`](Context::put_owned) and [`Scope::put`] do not wait |
//! | `Get` | [`Context::get`]; [`get_owned`](Context::get_owned), [`Scope::get`] |
//! | `Putv`, `Getv` | [`Context::putv`], [`Context::getv`] with [`Layout`] and [`Pieces`] |
//! | `Amsend` | [`Context::amsend`]; [`amsend_owned`](Context::amsend_owned), [`Scope::amsend`] |
//! | `Amsendv` | [`Context::amsendv`]; the header handler answers [`Answer::scatter`] |
//! | header handler, `lapi_return_info_t` | [`Message`] in, [`Answer`] out: deliver ([`Place`]), bury ([`Answer::discard`]), scatter ([`Answer::scatter`], [`Sink`]); in place of a dropped packet that comes again, [`Answer::later`] |
//! | `LAPI_NORMAL`, `LAPI_LOCAL_STATE`, `LAPI_SEND_REPLY` | [`Completion::Thread`], [`Completion::Call`] and the predefined ones, [`Completion::Reply`], which goes to the source |
//! | `Rmw`, `Rmw64` | [`Context::rmw`] with [`AtomicOp`] and [`Width`]; [`rmw_nonblocking`](Context::rmw_nonblocking), [`rmw_nonfetching`](Context::rmw_nonfetching) |
//! | `Xfer` | a call for each transfer. For the send completion handler: an owned operation hands its buffer back with how it ended ([`Context::try_owned`], [`Context::owned_result`], or a future of [`Session`]). For DGSPs: [`Sink`] and [`Gatherer`] |
//! | `Setcntr`, `Getcntr` | [`Context::set_counter`], [`Context::counter_value`] |
//! | `Waitcntr` | [`Context::wait_counter`]; [`wait_counter_for`](Context::wait_counter_for) with a limit |
//! | `Nopoll_wait` | [`SharedContext::wait_counter_without_polling`] |
//! | `Setcntr_wstatus` | [`Context::set_counter_watched`], [`Context::counter_destinations`] |
//! | `Address` | [`Exposed::address`](crate::buffer::Exposed::address), [`RemoteAddress::to_bytes`](crate::buffer::RemoteAddress::to_bytes) |
//! | `Address_init` | [`Context::address_init`], [`Context::exchange`] |
//! | `Addr_set`, `Addr_get` | [`Context::register_handler`]: numbers in the order of registration |
//! | `Fence` | [`Context::fence_data`]; [`fence_ops`](Context::fence_ops) waits for handlers too |
//! | `Gfence` | [`Context::gfence`] |
//! | `Probe`, `Msgpoll` | [`Context::probe`], [`Context::msgpoll`], [`SharedContext::msgpoll`] |
//! | `Msg_string` | the text of [`Error`](crate::error::Error), and whose [`fault`](crate::error::Error::fault) it is |
//! | `Purge_totask`, `Resume_totask` | [`Context::purge_totask`], [`Context::resume_totask`] |
//! | `Qenv`, `Senv` | [`Context::query`], [`Context::set`], [`Query::of_name`]; `INTERRUPT_SET`: [`SharedContext::set_interrupts`]; statistics: [`Context::statistics`], [`Context::peer_statistics`] |
//! | `Util` | pack and unpack: [`Layout::pack`], [`Layout::unpack`]; reduction functions: [`Context::accumulate`]; notification of a write: [`PutOptions::target`]; the lock that users share: [`SharedContext::with`] |
//! | `Group_create`, `Group_free`, multicast | [`Context::group`], dropping it, [`Context::multicast`] |
//! | profiling layer | a [`Fabric`] around another one sees each packet and transfer, as `testing::turns` does |

#[cfg(doc)]
use crate::{
    PutOptions, Query, Scope,
    context::Context,
    fabric::Fabric,
    handler::{Answer, Completion, Message, Place, Sink},
    pgas::Session,
    shared::SharedContext,
    transfer::{AtomicOp, Gatherer, Width},
    vector::{Layout, Pieces},
};
