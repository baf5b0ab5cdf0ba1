//! The watchers of a job's hosts, each connected to the first host's watcher, which forwards their messages.
//!
//! A message is a line of JSON over TCP. Both ends send a message at least once a second. A host that is silent for longer than the setting
//! `host_silence_seconds_max`, or whose connection ends before it has left, is lost.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::lines::{Lines, say};
use crate::news::News;

const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Time within which a new connection must have sent its whole first line.
const PROVE_WITHIN: Duration = Duration::from_secs(5);
/// Most connections that have not sent the secret yet. One more ends the oldest of them, so that connections of strangers that say nothing
/// keep no watcher out.
const UNPROVED_MAX: usize = 64;
/// Time limit for a connection to one address of the first host.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A message between watchers.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Word {
    /// The first message of a connection: the number of the host, and a secret that only watchers of this job know.
    Hello {
        host: u32,
        secret: u64,
    },
    News(News),
    Alive,
    /// All tasks of the host have ended.
    Over,
}

/// News from another host, or the reason why that host is lost.
#[derive(Debug)]
pub(super) enum Heard {
    News(News),
    Lost(String),
}

enum Event {
    Joined(TcpStream),
    Said(Word),
    Gone(io::Error),
}

/// Most addresses that the first host tells the others. A launcher may keep no more than 1023 bytes for a value.
const ADDRESSES_MAX: usize = 40;

/// The connections of this host's watcher.
pub(super) struct Mesh {
    is_first: bool,
    secret: u64,
    peers: BTreeMap<u32, TcpStream>,
    events: Receiver<(u32, Event)>,
    said_at: Instant,
}

impl Mesh {
    /// Opens the first host's end of the connections. Also returns the address for the other hosts. A host that is silent for `silence_max`
    /// is lost.
    pub(super) fn open(secret: u64, silence_max: Duration) -> io::Result<(Self, String)> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        let addresses: Vec<String> = own_addresses()
            .into_iter()
            .take(ADDRESSES_MAX)
            .map(|address| SocketAddr::new(address, port).to_string())
            .collect();
        let (tell, events) = mpsc::channel();
        thread::Builder::new().spawn(move || accept(&listener, secret, silence_max, &tell))?;
        let new = Self { is_first: true, secret, peers: BTreeMap::new(), events, said_at: Instant::now() };
        Ok((new, format!("{secret:x},{}", addresses.join(","))))
    }

    /// Joins the first host's watcher at this address.
    pub(super) fn join(at: &str, host: u32, silence_max: Duration) -> io::Result<Self> {
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{at} is not the address of a watcher"));
        let (secret, addresses) = at.split_once(',').ok_or_else(wrong)?;
        let secret = u64::from_str_radix(secret, 16).map_err(|_| wrong())?;
        let mut tried = String::new();
        for address in addresses.split(',') {
            let at: SocketAddr = address.parse().map_err(|_| wrong())?;
            let link =
                TcpStream::connect_timeout(&at, CONNECT_WITHIN).and_then(|link| prepared(link, silence_max));
            match link.and_then(|link| greet(link, host, secret)) {
                Ok((link, mut lines)) => {
                    let (tell, events) = mpsc::channel();
                    thread::Builder::new().spawn(move || listen(&mut lines, 0, &tell))?;
                    let peers = BTreeMap::from([(0, link)]);
                    return Ok(Self { is_first: false, secret, peers, events, said_at: Instant::now() });
                }
                Err(error) => tried += &format!(" {address}: {error}."),
            }
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, format!("none of its addresses answers:{tried}")))
    }

    /// Sends news to the other hosts.
    pub(super) fn say(&mut self, news: &News) {
        self.send(&Word::News(news.clone()), None);
    }

    fn send(&mut self, word: &Word, except: Option<u32>) {
        self.said_at = Instant::now();
        for (_, link) in self.peers.iter_mut().filter(|(host, _)| Some(**host) != except) {
            // If the send fails, the host is lost, and the thread that listens to it notices that.
            let _ = say(link, word);
        }
    }

    /// The news and losses since the last call. The first host's watcher forwards news to the other hosts. Also sends [`Word::Alive`] when
    /// it is due.
    pub(super) fn hear(&mut self) -> Vec<(u32, Heard)> {
        let mut heard = Vec::new();
        while let Ok((host, event)) = self.events.try_recv() {
            match event {
                Event::Joined(mut link) => {
                    // The host is added after this answer, for which it waits: so it misses no later message.
                    if say(&mut link, &Word::Hello { host: 0, secret: self.secret }).is_ok() {
                        self.peers.insert(host, link);
                    }
                }
                Event::Said(Word::News(news)) => {
                    if self.is_first {
                        self.send(&Word::News(news.clone()), Some(host));
                    }
                    heard.push((host, Heard::News(news)));
                }
                Event::Said(Word::Over) => drop(self.peers.remove(&host)),
                Event::Said(Word::Alive | Word::Hello { .. }) => {}
                Event::Gone(error) => {
                    if self.peers.remove(&host).is_some() {
                        heard.push((host, Heard::Lost(error.to_string())));
                    }
                }
            }
        }
        if self.said_at.elapsed() >= ALIVE_EVERY {
            self.send(&Word::Alive, None);
        }
        heard
    }

    /// Whether other hosts need this watcher to forward their messages, although its own tasks have ended.
    pub(super) fn is_needed(&self) -> bool {
        self.is_first && !self.peers.is_empty()
    }

    /// Announces that all tasks of this host have ended.
    pub(super) fn leave(mut self) {
        self.send(&Word::Over, None);
    }
}

fn prepared(link: TcpStream, silence_max: Duration) -> io::Result<TcpStream> {
    link.set_nodelay(true)?;
    link.set_read_timeout(Some(silence_max))?;
    link.set_write_timeout(Some(silence_max))?;
    Ok(link)
}

/// Identifies this host, and waits for the answer: several hosts may have the address, so another program may listen there.
fn greet(mut link: TcpStream, host: u32, secret: u64) -> io::Result<(TcpStream, Lines<TcpStream>)> {
    say(&mut link, &Word::Hello { host, secret })?;
    let mut lines = Lines::new(link.try_clone()?);
    match lines.hear()? {
        Word::Hello { secret: theirs, .. } if theirs == secret => Ok((link, lines)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "another job's watcher")),
    }
}

fn accept(listener: &TcpListener, secret: u64, silence_max: Duration, tell: &Sender<(u32, Event)>) {
    let unproved: Arc<Mutex<VecDeque<(u64, TcpStream)>>> = Arc::default();
    for (number, link) in (0..).zip(listener.incoming()) {
        let Ok((link, end)) = link.and_then(|link| Ok((link.try_clone()?, link))) else { continue };
        let mut all = locked(&unproved);
        if all.len() >= UNPROVED_MAX
            && let Some((_, oldest)) = all.pop_front()
        {
            // Its thread reads the end of the connection.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        all.push_back((number, end));
        drop(all);
        let (tell, waiting) = (tell.clone(), Arc::clone(&unproved));
        // If no thread can be started, nothing is received from the host, which reports that it got no answer.
        let started = thread::Builder::new().spawn(move || {
            let proved = prove(link, secret);
            locked(&waiting).retain(|&(of, _)| of != number);
            let Ok((mut lines, host)) = proved else { return };
            let Ok(link) = lines.stream().link.try_clone().and_then(|link| prepared(link, silence_max))
            else {
                return;
            };
            if tell.send((host, Event::Joined(link))).is_ok() {
                listen(&mut lines, host, &tell);
            }
        });
        if started.is_err() {
            locked(&unproved).retain(|&(of, _)| of != number);
        }
    }
}

/// Reads the first line of a connection, which must be that of a watcher with the secret. Returns its host.
fn prove(link: TcpStream, secret: u64) -> io::Result<(Lines<Timed>, u32)> {
    link.set_nodelay(true)?;
    let mut lines = Lines::new(Timed { link, until: Some(Instant::now() + PROVE_WITHIN) });
    match lines.hear()? {
        Word::Hello { host, secret: theirs } if theirs == secret => {
            lines.stream().until = None;
            Ok((lines, host))
        }
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a watcher of this job")),
    }
}

/// A connection whose reads all end at one moment, if one is set.
struct Timed {
    link: TcpStream,
    until: Option<Instant>,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.link.set_read_timeout(Some(left))?;
        }
        self.link.read(buffer)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards a host's messages until its connection ends.
fn listen(lines: &mut Lines<impl Read>, host: u32, tell: &Sender<(u32, Event)>) {
    loop {
        let event = lines.hear().map_or_else(Event::Gone, Event::Said);
        let is_last = matches!(event, Event::Gone(_));
        if tell.send((host, event)).is_err() || is_last {
            return;
        }
    }
}

/// The addresses of this host's interfaces, loopback addresses last, since other hosts can't reach them.
fn own_addresses() -> Vec<IpAddr> {
    let text = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found: Vec<IpAddr> = local_in(&text).into_iter().map(IpAddr::V4).collect();
    found.sort_by_key(IpAddr::is_loopback);
    found.dedup();
    found
}

/// The addresses that are this host's own in the kernel's table of routes: a line with the address, followed by a line that marks it as
/// local.
fn local_in(table: &str) -> Vec<Ipv4Addr> {
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    let is_local = |pair: &&[&str]| pair[1].ends_with("host LOCAL");
    let address = |pair: &[&str]| pair[0].strip_prefix("|-- ")?.parse().ok();
    lines.windows(2).filter(is_local).filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE_MAX: Duration = Duration::from_secs(60);

    #[test]
    fn own_addresses_are_read_from_the_table_of_routes() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(local_in(table), [Ipv4Addr::new(10, 1, 0, 7)]);
    }

    fn heard(mesh: &mut Mesh) -> Vec<(u32, Heard)> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let heard = mesh.hear();
            if !heard.is_empty() || Instant::now() > end {
                return heard;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_one_host_says_reaches_all_and_a_host_that_breaks_off_is_lost() {
        let (mut first, at) = Mesh::open(77, SILENCE_MAX).unwrap();
        let joined = |host| {
            let at = at.clone();
            thread::spawn(move || Mesh::join(&at, host, SILENCE_MAX).unwrap())
        };
        let (second, third) = (joined(1), joined(2));
        while !(second.is_finished() && third.is_finished()) {
            assert!(first.hear().is_empty());
        }
        let (mut second, mut third) = (second.join().unwrap(), third.join().unwrap());
        second.say(&News::GoesOn(true));
        assert!(matches!(heard(&mut first)[..], [(1, Heard::News(News::GoesOn(true)))]));
        assert!(matches!(heard(&mut third)[..], [(0, Heard::News(News::GoesOn(true)))]));
        second.leave();
        drop(third);
        assert!(matches!(heard(&mut first)[..], [(2, Heard::Lost(_))]));
        assert!(!first.is_needed(), "one has left, one is lost");
        assert!(Mesh::join(&at.replacen("4d,", "4e,", 1), 1, SILENCE_MAX).is_err(), "a wrong secret");
    }

    #[test]
    fn connections_that_say_nothing_are_few_and_keep_no_watcher_out() {
        let (mut first, at) = Mesh::open(77, SILENCE_MAX).unwrap();
        let address: SocketAddr = at.split(',').nth(1).unwrap().parse().unwrap();
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let silent: Vec<TcpStream> =
            (0..4 * UNPROVED_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        // Meanwhile the first connections are ended.
        let mut ended = &silent[0];
        ended.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        let read = ended.read(&mut [0]);
        assert!(!matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock), "{read:?}");
        let end = Instant::now() + SILENCE_MAX;
        while threads() > before + UNPROVED_MAX + 40 {
            assert!(Instant::now() < end, "{} threads", threads() - before);
        }
        let other = thread::spawn(move || Mesh::join(&at, 1, SILENCE_MAX).unwrap());
        while !other.is_finished() {
            first.hear();
            assert!(Instant::now() < end, "the watcher is kept out");
        }
        other.join().unwrap().say(&News::GoesOn(true));
        assert!(matches!(heard(&mut first)[..], [(1, Heard::News(News::GoesOn(true))), ..]));
    }
}
