//! MPI libraries: how each one builds and starts a program, with its best settings for one machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use am_examples::Failure;

/// The name of this library's rows, with which the rows of other libraries are compared.
pub(crate) const OURS: &str = "am-via";
/// The name of the rows of an older build of this library.
pub(crate) const BEFORE: &str = "before";
/// The peers with which the marks compare MPI rows.
pub(crate) const PEERS: [&str; 4] = ["mpich", "openmpi", "openmpi-ucx", "impi"];
/// A longer run counts as hanging.
const SECONDS_MAX: &str = "600";

/// Placement of a run's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each task on its own core.
    Cores,
    /// All tasks on the first core.
    OneCore,
    /// No placement.
    Free,
    /// Each task on its own host.
    Hosts,
}

/// An MPI library.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    compiler: PathBuf,
    launcher: PathBuf,
    /// Launcher arguments: for all cases; if each task has a core; if not.
    arguments: [Vec<String>; 3],
    /// Launcher arguments for tasks on several hosts ([`hosts::named`](crate::hosts::named)), which replace the arguments above.
    on_hosts: String,
    /// Environment variables for all cases; and the variable that is 1 if tasks are bound to cores, and 0 if not.
    variables: Vec<(String, String)>,
    bind_variable: Option<&'static str>,
}

/// The arguments of launchers derived from Hydra, for tasks on two hosts.
const HYDRA: &str = "-launcher ssh -launcher-exec AGENT -iface eth0 -hosts HOSTS -ppn 1";

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Library {
    fn new(name: &str, compiler: PathBuf, launcher: PathBuf, arguments: [&str; 3]) -> Self {
        let arguments = arguments.map(words);
        let name = name.to_owned();
        let on_hosts = String::new();
        Self { name, compiler, launcher, arguments, on_hosts, variables: Vec::new(), bind_variable: None }
    }

    /// This library, from the build in `folder`, or else from the folder of this program.
    pub(crate) fn ours(name: &str, folder: Option<&Path>) -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::Input(format!("this program cannot find its own file: {error}")))?;
        let folder = folder.or(own.parent()).unwrap_or(Path::new("."));
        let (compiler, launcher) = (folder.join("mpicc"), folder.join("mpiexec"));
        if !compiler.exists() || !launcher.exists() {
            return Err(Failure::Input(format!(
                "mpicc and mpiexec are not in {}: first run cargo build --release there",
                folder.display()
            )));
        }
        let mut ours = Self::new(name, compiler, launcher, ["", "--bind-to core", "--bind-to none"]);
        ours.on_hosts = "--hosts HOSTS --launch-agent AGENT".to_owned();
        Ok(ours)
    }

    /// A program in the folder of the launcher.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.launcher.with_file_name(name)
    }

    /// Whether the library is a build of this project.
    pub(crate) fn is_ours(&self) -> bool {
        self.name == OURS || self.name == BEFORE
    }

    /// Whether this program can start the library on several hosts.
    pub(crate) fn runs_on_hosts(&self) -> bool {
        !self.on_hosts.is_empty()
    }

    /// The command that compiles `source` to `program`.
    pub(crate) fn build(&self, source: &Path, program: &Path) -> Command {
        let mut command = Command::new(&self.compiler);
        command
            .envs(self.variables.iter().cloned())
            .arg("-O2")
            .arg(source)
            .arg("-o")
            .arg(program)
            .arg("-lpthread");
        command
    }

    /// The command that runs `program`, to which the caller adds the program's arguments.
    pub(crate) fn command(&self, tasks: u32, placement: Placement, program: &Path) -> Command {
        let cores = placement == Placement::Cores;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", SECONDS_MAX]);
        if placement == Placement::OneCore {
            command.args(["taskset", "-c", "0"]);
        }
        command.arg(&self.launcher);
        if placement == Placement::Hosts {
            command.args(crate::hosts::named(&self.on_hosts));
        } else {
            let [always, bound, free] = &self.arguments;
            command.args(always).args(if cores { bound } else { free });
        }
        command.envs(self.variables.iter().cloned());
        if let Some(variable) = self.bind_variable {
            command.env(variable, if cores { "1" } else { "0" });
        }
        command.args(["-n", &tasks.to_string()]).arg(program);
        command
    }
}

/// The peers whose virtual environments are in `folder`; prints which ones are missing and how they are made.
pub(crate) fn peers(folder: &Path) -> Vec<Library> {
    // The launchers find their own files relative to their path.
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mut peers = Vec::new();
    for (name, packages) in [("mpich", "mpich"), ("openmpi", "openmpi"), ("impi", "impi-rt impi-devel")] {
        let root = folder.join(name);
        let bin = root.join("bin");
        let (compiler, launcher) = (bin.join("mpicc"), bin.join("mpiexec"));
        if !compiler.exists() || !launcher.exists() {
            let root = root.display();
            println!("{name} is left out: python3 -m venv {root} && {root}/bin/pip install {packages}");
            continue;
        }
        let library =
            |name: &str, arguments| Library::new(name, compiler.clone(), launcher.clone(), arguments);
        match name {
            "mpich" => {
                let mut mpich = library(name, ["", "-bind-to core", "-bind-to none"]);
                mpich.on_hosts = format!("{HYDRA} -genv MPIR_CVAR_CH4_NETMOD ofi -genv FI_PROVIDER tcp");
                peers.push(mpich);
            }
            "openmpi" => {
                let bind = ["--bind-to core", "--bind-to none --mca mpi_yield_when_idle 1"];
                let sm = "--allow-run-as-root --oversubscribe --mca pml ob1 --mca btl self,sm";
                let ucx = "--allow-run-as-root --oversubscribe --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any \
                           --mca opal_common_ucx_devices any -x UCX_TLS=self,sm";
                let mut openmpi = library("openmpi", [sm, bind[0], bind[1]]);
                openmpi.on_hosts =
                    "--allow-run-as-root --prtemca plm_ssh_agent AGENT --host HOST1:1,HOST2:1 --map-by node \
                                    --bind-to none --mca pml ob1 --mca btl self,tcp"
                        .to_owned();
                peers.push(openmpi);
                peers.push(library("openmpi-ucx", [ucx, bind[0], bind[1]]));
            }
            _ => {
                let mut impi = library(name, ["", "", ""]);
                let root = root.display().to_string();
                impi.variables =
                    vec![("I_MPI_ROOT".to_owned(), root), ("I_MPI_FABRICS".to_owned(), "shm".to_owned())];
                impi.bind_variable = Some("I_MPI_PIN");
                impi.on_hosts = format!("{HYDRA} -genv I_MPI_FABRICS ofi -genv FI_PROVIDER tcp");
                peers.push(impi);
            }
        }
    }
    peers
}

/// Parses `--with`.
pub(crate) fn other(text: &str) -> Result<Library, String> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
    let Some((name, (compiler, launcher))) = parts else {
        return Err("write NAME=MPICC,MPIEXEC ARGS".to_owned());
    };
    let (launcher, arguments) = launcher.trim().split_once(' ').unwrap_or((launcher.trim(), ""));
    if name.is_empty() || compiler.is_empty() || launcher.is_empty() {
        return Err("name, compiler and launcher must not be empty".to_owned());
    }
    Ok(Library::new(name, compiler.into(), launcher.into(), [arguments, "", ""]))
}
