//! Connections of the supervisors of a job's hosts by TCP: the first host's listens, and the others find it by the addresses that they are
//! told.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bus, CENTRE, LinkEvent, Message, OwnMessage};

/// Time within which a new connection must have sent its whole first message.
const PROVE_WITHIN: Duration = Duration::from_secs(5);
/// Most connections that have not sent the secret yet. One more ends the oldest of them, so that connections of strangers that say nothing
/// keep no supervisor out.
const UNPROVED_MAX: usize = 64;
/// Time limit for a connection to one address of the first host.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Most addresses that the first host tells the others. A launcher may keep no more than 1023 bytes for a value.
const ADDRESSES_MAX: usize = 40;

impl<M: OwnMessage> Bus<M> {
    /// Lets supervisors of other hosts that know the secret connect to this centre. Returns the address for them, which has the secret.
    pub(crate) fn listen(&self, secret: u64) -> io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        let addresses: Vec<String> = own_addresses()
            .into_iter()
            .take(ADDRESSES_MAX)
            .map(|address| SocketAddr::new(address, port).to_string())
            .collect();
        let (tell, silence_max) = (self.tell.clone(), self.silence_max);
        thread::Builder::new().spawn(move || accept(&listener, secret, silence_max, &tell))?;
        Ok(format!("{secret:x},{}", addresses.join(",")))
    }

    /// Connects host `own` to the centre at this address ([`listen`](Self::listen)).
    pub(crate) fn connect(at: &str, hosts: &[u32], own: u32, silence_max: Duration) -> io::Result<Self> {
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{at} is not the address of a watcher"));
        let (secret, addresses) = at.split_once(',').ok_or_else(wrong)?;
        let secret = u64::from_str_radix(secret, 16).map_err(|_| wrong())?;
        let mut tried = String::new();
        for address in addresses.split(',') {
            let at: SocketAddr = address.parse().map_err(|_| wrong())?;
            let link = TcpStream::connect_timeout(&at, CONNECT_WITHIN);
            match link.and_then(|link| greet(link, &Message::<M>::Hello { host: own, secret }, silence_max)) {
                Ok(link) => {
                    let link = (link.try_clone()?, link);
                    return Self::to_centre(hosts, own, "the first host's watcher", link, silence_max);
                }
                Err(error) => tried += &format!(" {address}: {error}."),
            }
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, format!("none of its addresses answers:{tried}")))
    }
}

/// Identifies this host, and waits for the answer: several hosts may have the address, so another program may listen there.
fn greet<M: OwnMessage>(
    mut link: TcpStream,
    hello: &Message<M>,
    silence_max: Duration,
) -> io::Result<TcpStream> {
    link.set_nodelay(true)?;
    link.set_write_timeout(Some(silence_max))?;
    link.set_read_timeout(Some(silence_max))?;
    hello.write(&mut link)?;
    let answer = Message::<M>::read_first(&mut link)?;
    link.set_read_timeout(None)?;
    match (answer, hello) {
        (Message::Hello { secret: theirs, .. }, Message::Hello { secret, .. }) if theirs == *secret => {
            Ok(link)
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "another job's watcher")),
    }
}

fn accept<M: OwnMessage>(
    listener: &TcpListener,
    secret: u64,
    silence_max: Duration,
    tell: &Sender<(u32, LinkEvent<M>)>,
) {
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
            let proved = prove::<M>(link, secret, silence_max);
            locked(&waiting).retain(|&(of, _)| of != number);
            if let Ok((host, link)) = proved {
                let answer = Message::Hello { host: CENTRE, secret };
                // If the bus is gone, the connection ends.
                let _ = tell.send((host, LinkEvent::Joined { link, answer }));
            }
        });
        if started.is_err() {
            locked(&unproved).retain(|&(of, _)| of != number);
        }
    }
}

/// Reads the first message of a connection, which must be that of a supervisor with the secret. Returns its host.
fn prove<M: OwnMessage>(link: TcpStream, secret: u64, silence_max: Duration) -> io::Result<(u32, TcpStream)> {
    link.set_nodelay(true)?;
    link.set_write_timeout(Some(silence_max))?;
    let mut timed = Timed { link, until: Instant::now() + PROVE_WITHIN };
    match Message::<M>::read_first(&mut timed)? {
        Message::Hello { host, secret: theirs } if theirs == secret => {
            timed.link.set_read_timeout(None)?;
            Ok((host, timed.link))
        }
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a watcher of this job")),
    }
}

/// A connection whose reads all end at one moment.
struct Timed {
    link: TcpStream,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.link.set_read_timeout(Some(left))?;
        self.link.read(buffer)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::{BusEvent, Cause, JobNotice};

    const SILENCE_MAX: Duration = Duration::from_secs(60);
    /// The host of each of four tasks.
    const HOSTS: [u32; 4] = [0, 1, 2, 2];

    type Plain = Bus<()>;

    fn open() -> (Plain, String) {
        let bus = Plain::centre(&HOSTS, Some(0), "its watcher", SILENCE_MAX);
        let at = bus.listen(77).unwrap();
        (bus, at)
    }

    /// What the centre hears until these hosts have joined it.
    fn joined<const N: usize>(centre: &mut Plain, at: &str, hosts: [u32; N]) -> [Plain; N] {
        let all = hosts.map(|host| {
            let at = at.to_owned();
            thread::spawn(move || Plain::connect(&at, &HOSTS, host, SILENCE_MAX).unwrap())
        });
        let end = Instant::now() + SILENCE_MAX;
        while !all.iter().all(thread::JoinHandle::is_finished) {
            assert!(centre.poll(Duration::from_millis(1)).is_none());
            assert!(Instant::now() < end, "the supervisors are kept out");
        }
        all.map(|joined| joined.join().unwrap())
    }

    fn heard(bus: &mut Plain) -> Option<(u32, BusEvent<()>)> {
        let end = Instant::now() + SILENCE_MAX;
        loop {
            let heard = bus.poll(Duration::from_millis(1));
            if heard.is_some() || Instant::now() > end {
                return heard;
            }
        }
    }

    #[test]
    fn own_addresses_are_read_from_the_table_of_routes() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(local_in(table), [Ipv4Addr::new(10, 1, 0, 7)]);
    }

    #[test]
    fn a_notice_of_one_host_reaches_all_and_a_host_that_breaks_off_is_lost() {
        let (mut first, at) = open();
        let [mut second, third] = joined(&mut first, &at, [1, 2]);
        second.send_all(&Message::Notice(JobNotice::GoesOn(true)));
        assert!(matches!(heard(&mut first), Some((1, BusEvent::Notice(JobNotice::GoesOn(true))))));
        let mut third = third;
        assert!(matches!(heard(&mut third), Some((0, BusEvent::Notice(JobNotice::GoesOn(true))))));
        second.leave().unwrap();
        // As if its process had died.
        drop(third);
        assert!(first.is_needed());
        assert!(matches!(heard(&mut first), Some((2, BusEvent::Lost(_)))));
        assert!(!first.is_needed(), "one has left, one is lost");
        let wrong = at.replacen("4d,", "4e,", 1);
        assert!(Plain::connect(&wrong, &HOSTS, 1, SILENCE_MAX).is_err(), "a wrong secret");
    }

    #[test]
    fn a_host_tells_only_of_its_own_tasks_and_is_only_one() {
        let (mut first, at) = open();
        let [mut second] = joined(&mut first, &at, [1]);
        for task in [0, 2, 4, 1] {
            second.send_all(&Message::Notice(JobNotice::failed(task, Cause::GaveUp, String::new())));
        }
        assert!(matches!(heard(&mut first), Some((1, BusEvent::Notice(JobNotice::Failed { task: 1, .. })))));
        for (host, words) in [(1, "it is there"), (0, "it is the centre"), (3, "the job has no such host")] {
            let refused = thread::spawn({
                let at = at.clone();
                move || Plain::connect(&at, &HOSTS, host, SILENCE_MAX).is_err()
            });
            while !refused.is_finished() {
                assert!(first.poll(Duration::from_millis(1)).is_none());
            }
            assert!(refused.join().unwrap(), "{words}");
        }
        first.send_all(&Message::Notice(JobNotice::NeverJoined { task: 1 }));
        first.send_all(&Message::Notice(JobNotice::NeverJoined { task: 3 }));
        assert!(matches!(
            heard(&mut second),
            Some((0, BusEvent::Notice(JobNotice::NeverJoined { task: 3 })))
        ));
    }

    #[test]
    fn connections_that_say_nothing_are_few_and_keep_no_supervisor_out() {
        let (mut first, at) = open();
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
        let [mut second] = joined(&mut first, &at, [1]);
        second.send_all(&Message::Notice(JobNotice::GoesOn(true)));
        assert!(matches!(heard(&mut first), Some((1, BusEvent::Notice(JobNotice::GoesOn(true))))));
    }
}
