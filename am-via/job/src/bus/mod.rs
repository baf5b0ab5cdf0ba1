//! The connections between the supervisors of a job's hosts: a star. In a job of `amrun`, its centre is the launcher, and the others are
//! the agents; in a job that a launcher of another project has started, they are the watchers, and the centre is the first host's.
//!
//! A notice that one host sends reaches all hosts. Each end sends a message at least once a second. A host whose connection ends before it
//! has left, or that is silent for longer than the setting `host_silence_seconds_max`, is lost.

mod message;
mod tcp;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Cause, JobNotice};

pub use message::{Message, OwnMessage};

const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A process that has not polled for this long was itself stopped. It then starts to count the silence of the others anew, because messages
/// that they have sent meanwhile are still unread.
const STOPPED_AFTER: Duration = Duration::from_secs(1);
/// The centre, among the connections of any other supervisor.
const CENTRE: u32 = 0;
/// The most bytes of a stream that are shown if they are no messages.
const SHOWN_BYTES_MAX: u64 = 4096;

/// What a supervisor learns from another one.
#[derive(Debug)]
pub enum BusEvent<M> {
    /// A fact about a task or the job. The centre has passed it on.
    Notice(JobNotice),
    /// A message of this kind of supervisors.
    Own(M),
    /// The host is lost, for this reason ([`Bus::lose`]).
    Lost(String),
}

#[derive(Debug)]
enum LinkEvent<M> {
    /// A supervisor has proved its identity. It waits for `answer`.
    Joined {
        link: std::net::TcpStream,
        answer: Message<M>,
    },
    Said(Message<M>),
    Gone(String),
}

/// The sending end of a connection. A thread writes the messages, so that an end that does not read holds up only this thread.
#[derive(Debug)]
pub struct Outgoing<M> {
    messages: Sender<Message<M>>,
    unsent: Arc<AtomicUsize>,
}

impl<M> Clone for Outgoing<M> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), unsent: Arc::clone(&self.unsent) }
    }
}

impl<M> Outgoing<M> {
    /// Sends a message. If the other end is gone, the message is dropped, and the thread that reads from there reports it.
    pub fn send(&self, message: Message<M>) {
        // Relaxed: the number publishes nothing.
        self.unsent.fetch_add(1, Ordering::Relaxed);
        let _ = self.messages.send(message);
    }

    /// Whether all messages are written. Messages that only tell what is, or that this end is alive, need not be sent before.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) == 0
    }
}

#[derive(Debug)]
struct Link<M> {
    out: Outgoing<M>,
    writer: JoinHandle<io::Result<()>>,
    heard_at: Instant,
    /// Whether the reading thread handles a message itself, and so reads no others.
    is_busy: Arc<AtomicBool>,
    is_lost: bool,
}

/// The connections of this supervisor.
#[derive(Debug)]
pub struct Bus<M> {
    /// The host of each task.
    hosts: Vec<u32>,
    /// The number of this host; `None` for a centre that has no tasks.
    own: Option<u32>,
    is_centre: bool,
    /// What the supervisor at another end is called.
    others: &'static str,
    links: BTreeMap<u32, Link<M>>,
    tell: Sender<(u32, LinkEvent<M>)>,
    events: Receiver<(u32, LinkEvent<M>)>,
    silence_max: Duration,
    polled_at: Instant,
    sent_at: Instant,
}

impl<M: OwnMessage> Bus<M> {
    /// The centre of a job whose tasks are on these hosts, without a connection. `own`: the number of this host, if it has tasks. `others`:
    /// what the supervisor of another host is called, such as "its agent". A host that is silent for `silence_max` is lost.
    #[must_use]
    pub fn centre(hosts: &[u32], own: Option<u32>, others: &'static str, silence_max: Duration) -> Self {
        let (tell, events) = mpsc::channel();
        let (hosts, links, now) = (hosts.to_vec(), BTreeMap::new(), Instant::now());
        let (is_centre, polled_at, sent_at) = (true, now, now);
        Self { hosts, own, is_centre, others, links, tell, events, silence_max, polled_at, sent_at }
    }

    /// The end on host `own` of the connection to the centre, which is called `others` and is read and written by `link`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn to_centre(
        hosts: &[u32],
        own: u32,
        others: &'static str,
        link: (impl Read + Send + 'static, impl Write + Send + 'static),
        silence_max: Duration,
    ) -> io::Result<Self> {
        let mut bus = Self { is_centre: false, ..Self::centre(hosts, Some(own), others, silence_max) };
        bus.add(CENTRE, link, Some)?;
        Ok(bus)
    }

    /// Adds the connection to a host, which is read and written by `link`. The thread that reads gives each message to `here`, which
    /// returns it unless it has handled it. As long as `here` runs, the host is not taken for silent.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn add(
        &mut self,
        host: u32,
        (mut from, mut to): (impl Read + Send + 'static, impl Write + Send + 'static),
        mut here: impl FnMut(Message<M>) -> Option<Message<M>> + Send + 'static,
    ) -> io::Result<()> {
        let (messages, written) = mpsc::channel::<Message<M>>();
        let out = Outgoing { messages, unsent: Arc::default() };
        let (unsent, is_busy) = (Arc::clone(&out.unsent), Arc::<AtomicBool>::default());
        let write = move || {
            written.into_iter().try_for_each(|message| {
                message.write(&mut to)?;
                unsent.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let (tell, busy, others) = (self.tell.clone(), Arc::clone(&is_busy), self.others);
        let read = move || {
            loop {
                let event = match Message::read(&mut from) {
                    Ok(Some(message)) => {
                        busy.store(true, Ordering::Relaxed);
                        let left = here(message);
                        busy.store(false, Ordering::Relaxed);
                        let Some(message) = left else { continue };
                        LinkEvent::Said(message)
                    }
                    end => LinkEvent::Gone(why_lost(others, end.err(), &mut from)),
                };
                let is_last = matches!(event, LinkEvent::Gone(_));
                if tell.send((host, event)).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = || thread::Builder::new().name("am-bus".to_owned());
        let writer = thread().spawn(write)?;
        thread().spawn(read)?;
        self.links.insert(host, Link { out, writer, heard_at: Instant::now(), is_busy, is_lost: false });
        Ok(())
    }

    /// Sends a message to a host.
    pub fn send(&self, host: u32, message: Message<M>) {
        if let Some(link) = self.links.get(&host) {
            link.out.send(message);
        }
    }

    /// Sends a message to all hosts that are connected and not lost.
    pub fn send_all(&mut self, message: &Message<M>) {
        self.send_except(None, message);
    }

    fn send_except(&mut self, except: Option<u32>, message: &Message<M>) {
        let to = self.links.iter().filter(|&(&host, link)| !link.is_lost && Some(host) != except);
        to.for_each(|(_, link)| link.out.send(message.clone()));
    }

    /// The sending end of the connection to the centre; `None` for the centre itself.
    #[must_use]
    pub fn outgoing(&self) -> Option<Outgoing<M>> {
        self.links.get(&CENTRE).filter(|_| !self.is_centre).map(|link| link.out.clone())
    }

    /// Whether a thread handles a message of this host itself, such as output that is read slowly.
    #[must_use]
    pub fn is_busy(&self, host: u32) -> bool {
        // Relaxed: the flag publishes nothing.
        self.links.get(&host).is_some_and(|link| link.is_busy.load(Ordering::Relaxed))
    }

    /// What a host has sent next, or that it is lost; `None` if there is nothing new within this time. Also reports that this end is
    /// alive: must be called more often than once a second.
    pub fn poll(&mut self, mut within: Duration) -> Option<(u32, BusEvent<M>)> {
        self.note_time();
        if let Some(host) = self.silent() {
            self.mark_lost(host);
            let why = format!("nothing was heard from it for {} seconds", self.silence_max.as_secs());
            return Some((host, BusEvent::Lost(why)));
        }
        loop {
            let event = self.events.recv_timeout(within);
            // This process may have been stopped meanwhile.
            self.note_time();
            let (host, event) = event.ok()?;
            if let Some(event) = self.handle(host, event) {
                return Some((host, event));
            }
            within = Duration::ZERO;
        }
    }

    /// Reports that this end is alive, if that is due, and looks for the times in which nothing can be heard.
    fn note_time(&mut self) {
        let now = Instant::now();
        let was_stopped = now.duration_since(std::mem::replace(&mut self.polled_at, now)) >= STOPPED_AFTER;
        for link in self.links.values_mut() {
            // The messages that follow the one that is being handled are still unread.
            if was_stopped || link.is_busy.load(Ordering::Relaxed) {
                link.heard_at = now;
            }
        }
        if now.duration_since(self.sent_at) >= ALIVE_EVERY {
            self.sent_at = now;
            let idle = self.links.values().filter(|link| link.out.is_idle());
            idle.for_each(|link| link.out.send(Message::Alive));
        }
    }

    /// The first host that has been silent for too long.
    fn silent(&self) -> Option<u32> {
        let is_silent = |link: &Link<M>| {
            !link.is_lost && self.polled_at.duration_since(link.heard_at) >= self.silence_max
        };
        self.links.iter().find(|(_, link)| is_silent(link)).map(|(&host, _)| host)
    }

    fn handle(&mut self, host: u32, event: LinkEvent<M>) -> Option<BusEvent<M>> {
        match event {
            LinkEvent::Joined { link, answer } => {
                // If no thread can be started, the host gets no answer, and reports that.
                if self.hosts.contains(&host) && self.own != Some(host) && !self.links.contains_key(&host) {
                    let both = link.try_clone().map(|other| (other, link));
                    // The answer is the first message, and all later ones follow it: so the host misses none.
                    let added = both.and_then(|both| self.add(host, both, Some));
                    added.is_ok().then(|| self.send(host, answer));
                }
                None
            }
            LinkEvent::Gone(why) => self.mark_lost(host).then_some(BusEvent::Lost(why)),
            LinkEvent::Said(message) => {
                let link = self.links.get_mut(&host)?;
                link.heard_at = Instant::now();
                match message {
                    Message::Notice(_) if link.is_lost => None,
                    Message::Notice(notice) if !self.may_send(host, &notice) => {
                        tracing::warn!(host, ?notice, "a notice about a task of another host is dropped");
                        None
                    }
                    Message::Notice(notice) => {
                        if self.is_centre {
                            self.send_except(Some(host), &Message::Notice(notice.clone()));
                        }
                        Some(BusEvent::Notice(notice))
                    }
                    Message::Over => {
                        self.links.remove(&host);
                        None
                    }
                    Message::Own(own) => Some(BusEvent::Own(own)),
                    Message::Alive | Message::Hello { .. } | Message::Output(_) | Message::Errors(_) => None,
                }
            }
        }
    }

    /// Whether a host may send this notice: the centre about tasks of all other hosts, any other one about its own.
    fn may_send(&self, from: u32, notice: &JobNotice) -> bool {
        let Some(task) = notice.task() else { return true };
        let at = self.hosts.get(task as usize).copied();
        if self.is_centre { at == Some(from) } else { at.is_some() && at != self.own }
    }

    /// Returns whether the host was connected and not yet lost.
    fn mark_lost(&mut self, host: u32) -> bool {
        self.links.get_mut(&host).is_some_and(|link| !std::mem::replace(&mut link.is_lost, true))
    }

    /// The failures of the tasks that are lost with a host, about which the other hosts are told, too. The centre passes on all notices: if
    /// it is lost, the failures of any other host would not be known here, so all tasks of other hosts are lost.
    pub fn lose(&mut self, host: u32, words: &str) -> Vec<JobNotice> {
        let is_lost = |&(_, &at): &(u32, &u32)| {
            if self.is_centre { at == host } else { Some(at) != self.own }
        };
        let lost = (0..).zip(&self.hosts).filter(is_lost);
        let notices: Vec<JobNotice> =
            lost.map(|(task, _)| JobNotice::failed(task, Cause::HostLost, words.to_owned())).collect();
        notices.iter().for_each(|notice| self.send_all(&Message::Notice(notice.clone())));
        notices
    }

    /// Whether other hosts need this supervisor to pass on their messages, although its own tasks have ended.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.is_centre && self.links.values().any(|link| !link.is_lost)
    }

    /// Tells the others that all tasks of this host have ended, and waits until everything is sent. Clones of [`outgoing`](Self::outgoing)
    /// must have been dropped.
    ///
    /// # Errors
    /// A message could not be sent.
    pub fn leave(mut self) -> io::Result<()> {
        self.send_all(&Message::Over);
        let mut sent = Ok(());
        for Link { out, writer, .. } in std::mem::take(&mut self.links).into_values() {
            drop(out);
            let written = writer.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            sent = sent.and(written);
        }
        sent
    }
}

/// Why the other end of a connection can't be read. Something other than a supervisor may have written plain text there: what is left of
/// this text tells a person more than the error does.
fn why_lost(others: &str, error: Option<io::Error>, from: &mut impl Read) -> String {
    match error.map(|error| (error.kind(), error)) {
        None | Some((io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset, _)) => {
            format!("{others} has ended")
        }
        Some((io::ErrorKind::InvalidData, error)) => {
            let mut rest = Vec::new();
            let _ = from.take(SHOWN_BYTES_MAX).read_to_end(&mut rest);
            let rest = String::from_utf8_lossy(&rest);
            format!("{others} cannot be understood: {error} {}", rest.trim()).trim_end().to_owned()
        }
        Some((_, error)) => format!("{others} cannot be reached: {error}"),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_has_lost_the_centre_has_lost_all_others() {
        let hosts = [0, 0, 1, 2, 2];
        let lost = |is_centre, own, host| {
            let centre = Bus::<()>::centre(&hosts, own, "its watcher", Duration::MAX);
            let notices = Bus { is_centre, ..centre }.lose(host, "why");
            notices.iter().filter_map(JobNotice::task).collect::<Vec<_>>()
        };
        assert_eq!(lost(true, Some(0), 2), [3, 4]);
        assert_eq!(lost(true, None, 0), [0, 1]);
        assert_eq!(lost(false, Some(1), CENTRE), [0, 1, 3, 4]);
        assert_eq!(lost(false, Some(2), CENTRE), [0, 1, 2]);
    }

    /// A stream that never ends and says nothing.
    struct Silence(Receiver<()>);

    impl Read for Silence {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            // The sender is dropped at the end of the test.
            let _ = self.0.recv();
            Ok(0)
        }
    }

    #[test]
    fn a_host_that_says_nothing_is_lost_unless_its_messages_are_still_being_handled() {
        let (open, never) = mpsc::channel();
        let mut bus = Bus::<()>::centre(&[0, 1], None, "its agent", Duration::from_millis(50));
        bus.add(0, (Silence(never), io::sink()), Some).unwrap();
        let (handled, is_handled) = mpsc::channel::<()>();
        let mut message = Vec::new();
        Message::<()>::Output(b"for a slow reader".to_vec()).write(&mut message).unwrap();
        let reads_slowly = move |_| {
            let _ = is_handled.recv();
            None
        };
        bus.add(1, (io::Cursor::new(message), io::sink()), reads_slowly).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let mut next = || {
            loop {
                assert!(Instant::now() < end);
                if let Some(event) = bus.poll(Duration::from_millis(10)) {
                    return event;
                }
            }
        };
        assert!(matches!(next(), (0, BusEvent::Lost(why)) if why.contains("nothing was heard")));
        drop(handled);
        assert!(matches!(next(), (1, BusEvent::Lost(why)) if why == "its agent has ended"));
        drop(open);
    }
}
