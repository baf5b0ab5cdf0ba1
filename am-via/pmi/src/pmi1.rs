//! PMI-1: lines of `key=value` words over a socket that the process inherits as file `PMI_FD`. Each request except `abort` has one answer.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use am_via_os::memory;

use crate::{Launcher, wrong};

/// The launcher at the other end of `PMI_FD`.
#[derive(Debug)]
pub(super) struct Pmi1 {
    task: u32,
    num_tasks: u32,
    link: BufReader<UnixStream>,
    /// The name of the job's key-value space.
    values: String,
    /// Longest value that the launcher keeps, in bytes.
    value_bytes_max: usize,
    is_finalized: bool,
}

impl Pmi1 {
    /// Joins the launcher that the environment names; `None` if it names none, if the job has one process, or if this process has not got
    /// the launcher's socket.
    pub(super) fn find() -> io::Result<Option<Self>> {
        let Some(file) = number_in("PMI_FD") else { return Ok(None) };
        let (Some(task), Some(num_tasks)) = (number_in("PMI_RANK"), number_in("PMI_SIZE")) else {
            return Err(wrong("PMI_FD is set, but PMI_RANK or PMI_SIZE is not".to_owned()));
        };
        if num_tasks < 2 {
            return Ok(None);
        }
        let number = i32::try_from(file).map_err(io::Error::other)?;
        // Programs that a task starts have the variables, but not the socket: it is closed on exec below.
        // SAFETY: the launcher names this descriptor; only a socket is used.
        let socket = unsafe { memory::inherited(number) }
            .ok()
            .filter(|file| file.metadata().is_ok_and(|data| data.file_type().is_socket()));
        let Some(socket) = socket else {
            tracing::warn!(number, "PMI_FD names no open socket: this process is a job of one");
            return Ok(None);
        };
        // SAFETY: the launcher's socket, as above.
        unsafe { memory::close_on_exec(number) };
        Self::join(UnixStream::from(OwnedFd::from(socket)), task, num_tasks).map(Some)
    }

    fn join(link: UnixStream, task: u32, num_tasks: u32) -> io::Result<Self> {
        let link = BufReader::new(link);
        let mut new =
            Self { task, num_tasks, link, values: String::new(), value_bytes_max: 0, is_finalized: false };
        if let Err(error) = new.begin() {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            let is_closed = matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
            let why = "the launcher has closed PMI_FD: it serves only the first program of a process";
            return Err(if is_closed { wrong(why.to_owned()) } else { error });
        }
        Ok(new)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let limits = self.ask("get_maxes", "maxes")?;
        self.value_bytes_max = limits.word("vallen_max")?.parse().map_err(io::Error::other)?;
        self.values = self.ask("get_my_kvsname", "my_kvsname")?.word("kvsname")?.to_owned();
        Ok(())
    }

    /// Sends a request and returns its answer, whose command is `expected`.
    fn ask(&mut self, request: &str, expected: &str) -> io::Result<Answer> {
        if self.is_finalized {
            return Err(wrong(format!("{request}: this process has already told the launcher that it ends")));
        }
        self.send(request)?;
        let mut line = String::new();
        if self.link.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = Answer(line);
        if answer.word("cmd")? != expected {
            return Err(wrong(format!("{request}: the launcher answered {:?}", answer.0.trim_end())));
        }
        // Launchers omit `rc` where nothing can fail.
        match answer.word("rc") {
            Ok("0") | Err(_) => Ok(answer),
            Ok(_) => Err(wrong(format!("{request}: the launcher refused: {:?}", answer.0.trim_end()))),
        }
    }

    fn send(&mut self, request: &str) -> io::Result<()> {
        self.link.get_mut().write_all(format!("cmd={request}\n").as_bytes())
    }

    fn key(&self, task: u32, key: &str) -> String {
        format!("kvsname={} key=am-{key}-{task}", self.values)
    }
}

impl Launcher for Pmi1 {
    fn task(&self) -> u32 {
        self.task
    }

    fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    fn put(&mut self, key: &str, value: &str) -> io::Result<()> {
        if value.len() >= self.value_bytes_max {
            let (len, max) = (value.len(), self.value_bytes_max);
            return Err(wrong(format!(
                "{key}: a value of {len} bytes, but the launcher keeps fewer than {max}"
            )));
        }
        let key = self.key(self.task, key);
        self.ask(&format!("put {key} value={value}"), "put_result").map(drop)
    }

    fn fence(&mut self) -> io::Result<()> {
        self.ask("barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, task: u32, key: &str) -> io::Result<String> {
        let key = self.key(task, key);
        Ok(self.ask(&format!("get {key}"), "get_result")?.word("value")?.to_owned())
    }

    fn finalize(&mut self) -> io::Result<()> {
        self.ask("finalize", "finalize_ack")?;
        self.is_finalized = true;
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        // If the launcher does not get this request, it sees the end of this process.
        let _ = self.send(&format!("abort exitcode={code}"));
    }
}

/// An answer: a line of `key=value` words.
#[derive(Debug)]
struct Answer(String);

impl Answer {
    fn word(&self, key: &str) -> io::Result<&str> {
        let mut words = self.0.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let found = words.find(|(name, _)| *name == key).map(|(_, value)| value);
        found.ok_or_else(|| wrong(format!("the launcher's answer {:?} has no {key}", self.0.trim_end())))
    }
}

fn number_in(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins a launcher that gives these answers, one to each request, and returns its requests.
    fn answered<T>(answers: &[&str], act: impl FnOnce(io::Result<Pmi1>) -> T) -> (T, Vec<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let launcher = std::thread::spawn({
            let answers: Vec<String> = answers.iter().map(|answer| format!("{answer}\n")).collect();
            move || {
                let mut link = BufReader::new(theirs);
                let mut requests = Vec::new();
                for answer in answers {
                    let mut line = String::new();
                    if link.read_line(&mut line).unwrap() == 0 {
                        break;
                    }
                    requests.push(line.trim_end().to_owned());
                    link.get_mut().write_all(answer.as_bytes()).unwrap();
                }
                requests
            }
        });
        let found = act(Pmi1::join(ours, 1, 2));
        (found, launcher.join().unwrap())
    }

    const BEGIN: [&str; 3] = [
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=8",
        "cmd=my_kvsname kvsname=kvs_1",
    ];

    #[test]
    fn values_are_put_and_read_as_lines() {
        let answers = [
            &BEGIN[..],
            &["cmd=put_result rc=0 msg=success", "cmd=barrier_out tag=0", "cmd=get_result rc=0 value=a:b"],
            &["cmd=finalize_ack"],
        ];
        let (value, requests) = answered(&answers.concat(), |launcher| {
            let mut launcher = launcher.unwrap();
            launcher.put("host", "x:y").unwrap();
            launcher.fence().unwrap();
            let value = launcher.get(0, "host").unwrap();
            launcher.finalize().unwrap();
            assert!(launcher.fence().is_err(), "after the end");
            value
        });
        assert_eq!(value, "a:b");
        assert_eq!(
            requests[3..],
            [
                "cmd=put kvsname=kvs_1 key=am-host-1 value=x:y",
                "cmd=barrier_in",
                "cmd=get kvsname=kvs_1 key=am-host-0",
                "cmd=finalize"
            ]
        );
    }

    #[test]
    fn refusals_long_values_and_strange_answers_are_errors() {
        let refused = [&BEGIN[..], &["cmd=get_result rc=-1 msg=key_not_found value=unknown"]].concat();
        let (told, _) = answered(&refused, |launcher| launcher.unwrap().get(0, "x").unwrap_err().to_string());
        assert!(told.contains("key_not_found"), "{told}");
        let (told, _) =
            answered(&BEGIN, |launcher| launcher.unwrap().put("x", "12345678").unwrap_err().to_string());
        assert!(told.contains("8 bytes"), "{told}");
        let (told, _) = answered(&["hello"], |launcher| launcher.unwrap_err().to_string());
        assert!(told.contains("no cmd"), "{told}");
        let (told, _) = answered(&[], |launcher| launcher.unwrap_err().to_string());
        assert!(told.contains("the first program of a process"), "{told}");
    }
}
