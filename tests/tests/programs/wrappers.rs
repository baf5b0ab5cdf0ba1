//! The compiler wrappers and launchers of the C interface, with the options of other MPI libraries.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use am_tests::programs::{self, Scratch, run};

fn tool(name: &str) -> Command {
    programs::build();
    Command::new(programs::folder().join(name))
}

/// The output of a command, which must succeed.
fn said(command: &mut Command) -> String {
    let (good, said) = run(command);
    assert!(good, "{command:?}: {said}");
    said
}

/// As `mpicc -show | true` closes it.
#[test]
fn an_output_whose_reader_has_gone_ends_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = tool("mpicc").args(["-show", "x.c"]).stdout(writer).output().expect("mpicc starts");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(128 + 13), "")
    );
}

/// As `mpiexec ... 2>&1 | head` closes both.
#[test]
fn a_reader_of_the_errors_who_leaves_does_not_change_the_exit_code() {
    for (name, args, code) in [
        ("mpiexec", &["-n", "2", "sh", "-c", "exit 3"][..], 3),
        ("mpiexec", &["--no-such-option", "true"], 2),
        ("mpiexec", &["-n", "1", "true", ":", "no-such-program"], 127),
        ("mpicc", &["x.c"], 1),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = tool(name);
        command.args(args).env("AM_CC", "/no/such/compiler");
        command.stdout(writer.try_clone().expect("a copy")).stderr(writer);
        assert_eq!(command.status().expect("it starts").code(), Some(code), "{name} {args:?}");
    }
}

/// A shell that ignores SIGCHLD passes this on to what it starts (POSIX, `exec`).
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_parent_that_ignores_sigchld_does_not_matter() {
    let scratch = Scratch::new("ignored-sigchld");
    let program = adder(&scratch);
    let script = format!("trap '' CHLD; exec {} -n 2 \"$0\" 3", programs::folder().join("mpiexec").display());
    let text = said(Command::new("sh").args(["-c", &script]).arg(&program));
    assert!(text.contains("task 1 of 2") && text.contains("sum 6"), "{text}");
}

#[test]
fn show_is_a_line_of_a_compiler() {
    let folder = programs::folder().canonicalize().expect("the path exists");
    let shown = said(tool("mpicc").args(["-show", "-O2", "x.c"]));
    let words: Vec<_> = shown.split_whitespace().collect();
    assert_eq!(words[..3], ["cc", "-O2", "x.c"]);
    for word in
        [format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()), "-lmpi_abi".into()]
    {
        assert!(words.contains(&&*word), "{word} is missing in {shown}");
    }
    assert!(words.iter().any(|word| word.starts_with("-I")), "{shown}");
    let compile = said(tool("mpicxx").arg("-compile-info"));
    assert!(compile.starts_with("c++ ") && compile.contains(" -I") && !compile.contains(" -l"), "{compile}");
    let link = said(tool("mpicxx").arg("-link-info"));
    assert!(link.starts_with("c++ ") && link.contains("-lmpi_abi") && !link.contains(" -I"), "{link}");
    let options = said(tool("mpicc").arg("-showme:link"));
    assert!(options.starts_with("-L") && options.contains("-lmpi_abi"), "{options}");
    assert!(!said(tool("mpicc").args(["-show", "-c", "x.c"])).contains("-lmpi_abi"));
    // A shell reads the words of the command as they were given.
    let odd = ["-DTEXT=\"a b\"", "it's.c", "$HOME", ""];
    let shown = said(tool("mpicc").env("AM_CC", "printf %s:").arg("-show").args(odd));
    let read = said(Command::new("sh").arg("-c").arg(shown));
    assert!(read.starts_with(&(odd.join(":") + ":-I")), "{read}");
}

/// The names that build scripts of Fortran programs use; `mpic++` is only in an installation, since cargo builds no such name.
#[test]
fn a_wrapper_has_the_names_that_build_scripts_use() {
    for name in ["mpif90", "mpif77", "mpifort"] {
        let link = said(tool(name).arg("-link-info"));
        assert!(link.starts_with("gfortran ") && link.contains("-lmpi_abi"), "{name}: {link}");
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn questions_go_to_the_compiler() {
    let own = said(Command::new("cc").arg("--version"));
    assert_eq!(said(tool("mpicc").arg("--version")), own);
}

#[test]
fn info_fits_on_a_screen() {
    let (good, text) = run(tool("mpiexec").arg("--info"));
    // One line of the screen remains for the prompt.
    let fits = text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 80);
    assert!(good && fits && text.contains("Settings of MPI"), "{text}");
}

#[test]
fn versions_name_the_library() {
    for name in ["mpiexec", "mpirun"] {
        let version = said(tool(name).arg("--version"));
        assert!(version.contains("mpi-over-am") && version.contains("MPI 5.0"), "{version}");
    }
}

#[test]
fn unknown_options_are_refused() {
    for options in [
        &["--no-such-option", "ls"][..],
        &["-n", "0", "ls"],
        &["--nooversubscribe", "-n", "4000", "ls"],
        &["-soft", "5:9", "-n", "4", "ls"],
        &["-soft", "1:9:0", "ls"],
        &["--stats=yes", "ls"],
        &["-n", "1", "-app", "/dev/null", "ls"],
        &["--bind-to", "moon", "ls"],
        &["-n", "2"],
        &["ls", ":"],
        &["-n", "4000000000", "ls", ":", "-n", "4000000000", "ls"],
        &["--xterm", "0", "ls"],
        &["-outfile-pattern", "out.%r", "ls"],
        &["-configfile", "/no/such/file"],
        &["-configfile", "/dev/null", "ls"],
    ] {
        let (good, said) = run(tool("mpiexec").args(options));
        assert!(!good && said.starts_with("mpiexec: "), "{options:?}: {said}");
    }
}

#[test]
fn options_of_other_launchers_are_taken() {
    let options = "-np 2 --oversubscribe --allow-run-as-root --bind-to none --map-by core -host localhost -genv A 1 \
                   -env B 2 -x C=3 -x HOME -wdir / --timeout 60";
    let mut command = tool("mpirun");
    command.args(options.split_whitespace()).args(["sh", "-c", "echo $A $B $C $(pwd) $0 $1", "-x", "y"]);
    assert_eq!(said(&mut command), "1 2 3 / -x y\n1 2 3 / -x y\n");
    let options =
        "-N 2 --mca btl self,sm --rank-by core --use-hwthread-cpus -q -genvlist PATH -prepend-rank echo said";
    let text = said(tool("mpirun").args(options.split_whitespace()));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] said", "[1] said"]);
    let options = "-n 1 --merge-stderr-to-stdout --timestamp-output --report-bindings sh -c";
    let command = tool("mpiexec").args(options.split(' ')).arg("echo said >&2; sleep 0.2").output();
    let output = command.expect("mpiexec can be started");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.ends_with("Z said\n") && error.contains("task 0 may run on processors"), "{out}{error}");
    // Options that cannot be carried out are accepted with a note.
    let options = ["--bind-to", "socket", "--map-by", "node", "-n", "1", "true"];
    let output = tool("mpiexec").args(options).output().expect("mpiexec can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.lines().count() == 2, "{error}");
    assert!(
        error.contains("--bind-to socket: tasks are not bound") && error.contains("--map-by node"),
        "{error}"
    );
    // -n has precedence over -N, in any order.
    assert_eq!(said(tool("mpirun").args(["-n", "1", "-N", "2", "echo", "said"])), "said\n");
}

/// An option as the table of `mpiexec --options` has it: its names, the names of its values, and what becomes of it.
struct Row {
    names: Vec<String>,
    values: Vec<String>,
    fate: String,
    text: String,
}

fn table_of_options() -> Vec<Row> {
    let table = said(tool("mpiexec").arg("--options"));
    let rows = table.lines().map(|line| {
        let parts: Vec<&str> = line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
        let [option, _whose, fate, text] = parts[..] else { panic!("four columns: {line}") };
        let (names, values): (Vec<_>, Vec<_>) = option.split(' ').partition(|word| word.starts_with('-'));
        let names = names.iter().map(|name| name.trim_end_matches(',').to_owned()).collect();
        let values = values.into_iter().map(str::to_owned).collect();
        Row { names, values, fate: fate.to_owned(), text: text.to_owned() }
    });
    rows.collect()
}

/// Each option that launchers of MPI have is taken, has no effect, or is refused with what to write instead. It never becomes the program,
/// and neither does its value.
#[test]
fn each_known_option_is_taken_or_refused_with_the_nearest_one() {
    let scratch = Scratch::new("all-options");
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("a test can write here");
        path.to_str().expect("plain letters").to_owned()
    };
    let hosts = file("hosts", "localhost slots = 2\n");
    let programs = file("programs", "-n 1 true\n");
    let path = |name: &str| scratch.path().join(name).to_str().expect("plain letters").to_owned();
    let processors = am_via_os::sched::allowed_cpus()[0].to_string();
    let value = |name: &str| -> String {
        match name {
            "NAME[=VALUE]" => "X=1".into(),
            "NAME" | "NAMES" => "PATH".into(),
            "TRIPLETS" => "1:4:2".into(),
            "FOLDER" => path("output"),
            "FOLDERS" => "/no/such/folder:/bin:/usr/bin".into(),
            "FILE-OF-PROGRAMS" => programs.clone(),
            "HANDLER" => "mpi_errors_return".into(),
            "HOSTS" => "localhost".into(),
            "HOSTFILE" => hosts.clone(),
            "COMMAND" => "ssh".into(),
            "LAUNCHER" => "rsh".into(),
            "WHERE" => "core".into(),
            "PROCESSORS" => processors.clone(),
            "MAPPING" => "ppr:1:node:pe=1".into(),
            "TASK" => "none".into(),
            "WHAT" => format!("tag,TIMESTAMP,dir={}", path("more-output")),
            "WHAT-TO-DISPLAY" => "map,bind".into(),
            "FAULT-TOLERANCE" => "ulfm".into(),
            "BINARY-INTERFACE" => "mpich".into(),
            "SECONDS" => "60".into(),
            "FORMAT" => "json".into(),
            "PID-FILE" => path("pid"),
            "TRACE-FILE" => path("trace.json"),
            _ => "1".into(),
        }
    };
    std::fs::create_dir(path("output")).expect("a test can write here");
    let rows = table_of_options();
    let mut seen = std::collections::BTreeSet::new();
    for row in &rows {
        let values: Vec<String> = row.values.iter().map(|name| value(name)).collect();
        assert!(row.text.len() > 5, "{:?}", row.names);
        for name in &row.names {
            let bare = name.trim_start_matches('-');
            assert!(seen.insert(bare.to_owned()), "{name} has two meanings");
            // The last form has the value after an equals sign.
            for form in 0..if values.len() == 1 { 3 } else { 2 } {
                let mut args = match form {
                    0 => [vec![format!("-{bare}")], values.clone()].concat(),
                    1 => [vec![format!("--{bare}")], values.clone()].concat(),
                    _ => vec![format!("--{bare}={}", values[0])],
                };
                let is_alone = ["--options", "--info", "--help", "-h", "--version", "-V"].contains(&&**name)
                    || row.values == ["FILE-OF-PROGRAMS"];
                if bare == "json" {
                    args.push("--stats".into());
                }
                if !is_alone {
                    args.extend(["-n", "1", "true"].map(str::to_owned));
                }
                let output = tool("mpiexec").args(&args).current_dir(scratch.path()).output();
                let output = output.expect("mpiexec can be started");
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(!error.contains("the program \""), "{args:?}: {error}");
                match &*row.fate {
                    "refused" => {
                        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
                        assert!(error.contains(&row.text), "{args:?}: {error}");
                    }
                    "taken" | "no effect" => {
                        assert!(output.status.success(), "{args:?}: {error}");
                    }
                    other => panic!("{other}"),
                }
            }
        }
    }
    assert!(
        rows.len() > 80
            && ["taken", "no effect", "refused"].iter().all(|fate| rows.iter().any(|row| row.fate == *fate))
    );
    // Options that the manual pages of other launchers and the standard have, and users write.
    let known = "path soft arch file memory-alloc-kinds stdin wd n prefix rankfile rf map-by display output default-hostfile \
                 nooversubscribe cpu-set cpu-list pernode npersocket bynode byslot bind-to-core gmca prtemca pmixmca app tune \
                 report-pid get-stack-traces forward-signals leave-session-attached nolocal s perhost iface launcher bootstrap \
                 rmk rr print-rank-map prepend-pattern envnone genvnone usize order-nodes gtool bind-to gdb cpus-per-proc";
    for name in known.split_whitespace() {
        assert!(seen.contains(name), "{name}");
    }
}

/// What options of other launchers mean there, they mean here.
#[test]
fn options_of_other_launchers_do_what_they_say() {
    let scratch = Scratch::new("meanings");
    let tasks = "echo $AM_NUM_TASKS";
    let count = |args: &[&str]| {
        let text = said(tool("mpiexec").args(args).args(["sh", "-c", tasks]).current_dir(scratch.path()));
        text.lines().count()
    };
    // MPI 5.0, section 11.8.4: the largest number of the set, up to -n.
    for (soft, expected) in [("1:2", 2), ("2:8:3", 5), ("7:1:-2", 5), ("9,3,-4,0:2", 3), ("6", 6)] {
        assert_eq!(count(&["-n", "6", "-soft", soft]), expected, "{soft}");
    }
    assert_eq!(count(&["--map-by", "ppr:3:node"]), 3);
    assert_eq!(count(&["-pernode"]), 1);
    assert_eq!(count(&["--n=2", "--wd=/"]), 2);
    std::fs::write(scratch.path().join("hosts"), "localhost slots=1\n").expect("it fits");
    assert_eq!(count(&["--oversubscribe", "-hostfile", "hosts", "-n", "3"]), 3);
    assert_eq!(count(&["--default-hostfile", "hosts"]), 1);
    // -path comes before PATH.
    let folder = scratch.path().join("bin");
    std::fs::create_dir(&folder).expect("a test can write here");
    std::fs::write(folder.join("true"), "#!/bin/sh\necho mine\n").expect("it fits");
    std::fs::set_permissions(folder.join("true"), std::fs::Permissions::from_mode(0o755))
        .expect("it is there");
    let mut start = tool("mpiexec");
    start.args(["-path", "/no/such/folder:bin", "true"]).current_dir(scratch.path());
    assert_eq!(said(&mut start), "mine\n");
    let input = |option: &str| {
        let mut start = tool("mpiexec");
        let script = format!("echo typed | exec {} $0 cat", start.get_program().display());
        start = Command::new("sh");
        start.args(["-c", &script, option]);
        said(&mut start)
    };
    assert_eq!((input("--stdin=0"), input("-s=none")), ("typed\n".to_owned(), String::new()));
    said(tool("mpiexec").args(["--report-pid", "pid", "true"]).current_dir(scratch.path()));
    let pid = std::fs::read_to_string(scratch.path().join("pid")).expect("it was written");
    assert!(pid.trim().parse::<u32>().is_ok(), "{pid}");
    let text = said(tool("mpiexec").args(["--output", "tag", "echo", "x"]));
    assert_eq!(text, "[0] x\n");
}

/// What is mistyped is never taken for a program, and its nearest option is named.
#[test]
fn a_mistyped_option_is_told_with_the_nearest_one() {
    for (mistyped, meant) in [
        ("--hang-reprt", "--hang-report"),
        ("-hotsfile", "--hostfile"),
        ("--bindto=core", "--bind-to"),
        ("--oversubscibe", "--oversubscribe"),
    ] {
        let (good, said) = run(tool("mpiexec").args([mistyped, "5", "-n", "1", "true"]));
        let option = mistyped;
        let expected = format!("mpiexec: unknown option {option}; perhaps {meant} is meant");
        assert!(!good && said.starts_with(&expected), "{said}");
    }
}

/// Each host is an agent on this machine, started by a plain command instead of ssh.
#[test]
fn hosts_are_named_as_for_other_launchers() {
    let scratch = Scratch::new("hosts-of-mpiexec");
    let (agent, file) = (scratch.path().join("agent"), scratch.path().join("hosts"));
    std::fs::write(&agent, "#!/bin/sh\nshift\nexec \"$@\"\n").expect("a test can write here");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    std::fs::write(&file, "a slots=2 # both\n").expect("a test can write here");
    let file = file.to_str().expect("plain letters");
    for (options, tasks) in [
        (&["-hosts", "a,b", "-ppn", "1"][..], 2),
        (&["-n", "3", "--host", "a:2,b"], 3),
        (&["-f", file], 2),
        (&["-H", "localhost:3"], 3),
        (&["-host", "localhost", "-N", "2", "--stats"], 2),
    ] {
        let mut start = tool("mpiexec");
        start.args(options).arg("--launch-agent").arg(&agent).args(["sh", "-c", "echo task $AM_TASK"]);
        let said = said(&mut start);
        let mut lines: Vec<_> = said.lines().filter(|line| line.starts_with("task ")).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), tasks, "{options:?}: {said}");
    }
    let mut start = tool("mpiexec");
    let said = said(start.args(["--stats", "-hosts", "a,b", "--launch-agent"]).arg(&agent).arg("true"));
    assert!(said.contains("task 0 on host a: ") && said.contains("task 1 on host b: "), "{said}");
}

#[test]
fn variables_that_an_option_names_reach_other_hosts() {
    let scratch = Scratch::new("variables-of-mpiexec");
    let agent = scratch.path().join("agent");
    std::fs::write(&agent, "#!/bin/sh\nshift\nexec env -i PATH=\"$PATH\" \"$@\"\n")
        .expect("a test can write here");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    for named in [&["-x", "MODEL"][..], &["-envlist", "HOME,MODEL"], &["-genvlist", "MODEL"]] {
        let mut start = tool("mpiexec");
        start.env("MODEL", "big").env("NAMED_NOWHERE", "no").args(named).args(["-hosts", "a,b", "-ppn", "1"]);
        start.arg("--launch-agent").arg(&agent).args(["sh", "-c", "echo \"$MODEL$NAMED_NOWHERE\""]);
        assert_eq!(said(&mut start), "big\nbig\n", "{named:?}");
    }
}

#[test]
fn output_goes_to_files_if_wanted() {
    let scratch = Scratch::new("output-filename");
    let folder = scratch.path().join("output");
    let mut start = tool("mpiexec");
    start.args(["-n", "2", "--output-filename"]).arg(&folder).args([
        "sh",
        "-c",
        "echo $AM_TASK; echo error >&2",
    ]);
    assert_eq!(said(&mut start), "");
    for task in ["0", "1"] {
        let read = |kind: &str| std::fs::read_to_string(folder.join(format!("task-{task}.{kind}")));
        assert_eq!(read("stdout").expect("it was written"), format!("{task}\n"));
        assert_eq!(read("stderr").expect("it was written"), "error\n");
    }
}

#[test]
fn a_file_can_hold_the_options_and_programs() {
    let scratch = Scratch::new("configfile");
    let file = scratch.path().join("job");
    std::fs::write(&file, "# two programs\n-n 1 -env A one printenv A\n\n-n 1 -env A two printenv A :\n")
        .expect("it fits");
    let text = said(tool("mpiexec").arg("-configfile").arg(&file));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);

    std::fs::write(&file, "-n 1 -env A 'x  y' sh -c \"echo $A 'q' ''\"\n").expect("it fits");
    assert_eq!(said(tool("mpiexec").arg("-configfile").arg(&file)), "x y q \n");
    std::fs::write(&file, "-n 1 echo 'open\n").expect("it fits");
    let (good, said) = run(tool("mpiexec").arg("-configfile").arg(&file));
    assert!(!good && said.contains("' is not closed"), "{said}");
}

/// The number of a program belongs to one job: a job that one of its tasks starts is another.
#[test]
fn a_job_inside_a_job_of_several_programs_has_no_number_of_a_program() {
    let mut command = tool("mpiexec");
    command.args(["-n", "1", "true", ":", "-n", "1"]).arg(programs::folder().join("mpiexec"));
    command.args(["-n", "1", "sh", "-c", "echo inner${AM_PROGRAM}"]);
    assert_eq!(said(&mut command), "inner\n");
}

/// In a job of one program, the launcher looks it up; in a job of several, each task does.
#[test]
fn a_program_is_looked_up_in_the_folder_of_its_tasks() {
    let scratch = Scratch::new("wdir");
    for folder in [".", "other"] {
        std::fs::create_dir_all(scratch.path().join(folder)).expect("a test can write here");
        let program = scratch.path().join(folder).join("p");
        std::fs::write(&program, format!("#!/bin/sh\necho {folder}\n")).expect("it fits");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it is there");
    }
    let one = ["-n", "1", "-wdir", "other", "./p"];
    for args in [&one[..], &[&one[..], &[":", "-n", "1", "-wdir", "other", "p"]].concat()] {
        let text = said(tool("mpiexec").args(args).current_dir(scratch.path()));
        assert!(text.lines().all(|line| line == "other"), "{args:?}: {text}");
    }
}

#[test]
fn a_program_whose_name_begins_like_an_option_can_be_started() {
    let scratch = Scratch::new("option-name");
    let program = scratch.path().join("-prog");
    std::fs::write(&program, "#!/bin/sh\necho started $1\n").expect("it fits");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it is there");
    let mut command = tool("mpiexec");
    command.args(["-n", "1", "--", "-prog", "-x"]).current_dir(scratch.path());
    assert_eq!(said(&mut command), "started -x\n");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_compiler_may_have_arguments() {
    let scratch = Scratch::new("compiler-words");
    std::fs::write(
        scratch.path().join("p.c"),
        "#include <mpi.h>\nint main(void) { return sizeof(MPI_Comm) == 0; }\n",
    )
    .expect("it fits");
    let mut command = tool("mpicc");
    command.args(["p.c", "-c"]).env("AM_CC", "env  cc").current_dir(scratch.path());
    said(&mut command);
    assert!(scratch.path().join("p.o").exists());
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn several_programs_in_a_job() {
    let scratch = Scratch::new("several-programs");
    let program = adder(&scratch);
    let mut start = tool("mpiexec");
    start.args(["-genv", "GIVEN", "all", "-n", "2"]).arg(&program).args([
        "1",
        ":",
        "-n",
        "1",
        "-x",
        "GIVEN=own",
    ]);
    let text = said(start.arg("./t_programs").arg("10").current_dir(scratch.path()));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let expected = [
        "task 0 of 3: program 0, all, sum 12",
        "task 1 of 3: program 0, all, sum 12",
        "task 2 of 3: program 1, own, sum 12",
    ];
    assert_eq!(lines, expected);
    let (good, said) = run(tool("mpiexec").arg("true").args([":", "no-such-program"]));
    assert!(!good && said.contains("no-such-program"), "{said}");
}

/// Runs `c/s_malloc.c` with the expected result as its argument.
fn runs(program: &std::path::Path, tasks: &str, options: &[&str], expected: &str) {
    let mut start = Command::new(programs::folder().join("mpiexec"));
    start.args(["-n", tasks]).args(options).arg(program).arg(expected).env_remove("LD_PRELOAD");
    let (good, said) = run(&mut start);
    assert!(good && said.contains("all good"), "{expected}, {tasks} tasks, {options:?}: {said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn large_blocks_are_job_memory_if_wanted() {
    programs::build();
    let scratch = Scratch::new("shared-malloc");
    let program = scratch.path().join("program");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free", "-pthread"]);
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/c/s_malloc.c")).arg("-o").arg(&program);
    let (good, said) = run(&mut compile);
    assert!(good, "it does not compile: {said}");
    for tasks in ["1", "2", "3"] {
        runs(&program, tasks, &[], "plain");
        runs(&program, tasks, &["--shared-malloc"], "shared");
    }
    runs(&program, "2", &["--shared-malloc", "-x", "AM_MEMORY=job"], "shared");
    runs(&program, "2", &["--shared-malloc", "-x", "AM_HEAP_BYTES=4M"], "little");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn what_else_is_to_be_loaded_first_stays() {
    programs::build();
    let scratch = Scratch::new("shared-malloc-preload");
    let (source, library) = (scratch.path().join("other.c"), scratch.path().join("other.so"));
    std::fs::write(&source, "int of_the_other = 1;\n").expect("a test can write here");
    let (good, said) = run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source));
    assert!(good, "it does not compile: {said}");
    for by in ["-x", "-genv", "inherited"] {
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let value = library.display().to_string();
        start.arg("--shared-malloc");
        match by {
            "-x" => start.args(["-x", &format!("LD_PRELOAD={value}")]),
            "-genv" => start.args(["-genv", "LD_PRELOAD", &value]),
            _ => start.env("LD_PRELOAD", &value),
        };
        let (good, said) = run(start.args(["cat", "/proc/self/maps"]));
        assert!(good && said.contains("libmpi_malloc.so") && said.contains("other.so"), "{by}: {said}");
    }
}

/// Compiles `c/t_programs.c`, whose tasks add up their arguments.
fn adder(scratch: &Scratch) -> std::path::PathBuf {
    let program = scratch.path().join("t_programs");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_programs.c");
    let _ = said(tool("mpicc").args(["-Wall", "-Werror", source, "-o"]).arg(&program));
    program
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_task_that_ends_before_mpi_init_is_named_and_ends_the_job() {
    let scratch = Scratch::new("before-init");
    let program = adder(&scratch);
    for script in ["test $AM_TASK != 1 || exit 0; exec $0 1", "test $AM_TASK != 1 || exit 0; $0 1; exit $?"] {
        let (good, said) = run(tool("mpiexec").args(["-n", "3", "sh", "-c", script]).arg(&program));
        assert!(!good && said.contains("amrun: task 1 ended with code 0 without joining the job"), "{said}");
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_valgrind)), ignore = "no valgrind was found")]
fn a_program_runs_under_valgrind_without_a_setting() {
    let scratch = Scratch::new("under-valgrind");
    let program = adder(&scratch);
    let mut start = tool("mpiexec");
    start.args(["-n", "2", "valgrind", "-q", "--error-exitcode=99"]).arg(&program).arg("3");
    let text = said(start.env_remove("AM_HEAP_BYTES"));
    assert!(text.contains("task 0 of 2") && text.contains("task 1 of 2"), "{text}");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let mpiexec = programs::folder().join("mpiexec");
    programs::build();
    for words in ["--version", "--help", "-n 2 echo lost"] {
        let script = format!("exec {} {words} >&-", mpiexec.display());
        let (good, said) = run(Command::new("sh").args(["-c", &script]));
        assert!(!good && said.contains("cannot be written"), "{words}: {said}");
    }
    // The error is also reported if all tasks end before the launcher detects the loss, as happens on few processors.
    let script = format!("exec {} -n 2 echo lost >/dev/full", mpiexec.display());
    let jobs: Vec<_> = (0..24)
        .map(|_| Command::new("sh").args(["-c", &script]).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for job in jobs {
        let ended = job.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains("cannot be written"), "{}: {said}", ended.status);
    }
}

/// Without a home directory the module for Fortran is stored in a folder where other users may write, in a subfolder that belongs to this
/// user alone.
#[test]
fn a_folder_that_others_can_write_is_not_used() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
    let scratch = Scratch::new("private-cache");
    let folder = scratch.path().join("tmp");
    std::fs::create_dir(&folder).expect("a test can write here");
    // A program that stands in for the compiler, and accepts the module at once.
    let compiler = scratch.path().join("fc");
    std::fs::write(
        &compiler,
        "#!/bin/sh\n[ \"$1\" = --version ] && echo Fc 1 && exit\n: > mpi.mod\necho $@\n",
    )
    .expect("a test can write here");
    std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("a test can write here");
    let compile = || {
        let mut command = tool("mpifort");
        command.args(["-c", "x.f90"]).current_dir(scratch.path()).env("AM_FC", &compiler);
        run(command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env("TMPDIR", &folder))
    };
    let (good, text) = compile();
    assert!(good, "{text}");
    let made: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder can be read")
        .map(|made| made.expect("read").path())
        .collect();
    let [own] = made.as_slice() else { panic!("one folder, not {made:?}") };
    let found = std::fs::metadata(own).expect("the file can be read");
    assert_eq!(found.mode() & 0o7777, 0o700);
    assert!(text.contains(&format!("-I{}", own.display())), "{text}");
    assert!(own.to_string_lossy().ends_with(&format!("mpi-over-am-{}", found.uid())), "{own:?}");
    let refused = |what: &str| {
        let (good, text) = compile();
        assert!(good && text.contains("XDG_CACHE_HOME"), "{what}: {text}");
        assert!(!text.contains(&format!("-I{}", own.display())), "{what}: {text}");
    };
    std::fs::set_permissions(own, PermissionsExt::from_mode(0o770)).expect("a test can write here");
    refused("others can write");
    let elsewhere = scratch.path().join("elsewhere");
    std::fs::rename(own, &elsewhere).expect("a test can write here");
    std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o700)).expect("a test can write here");
    symlink(&elsewhere, own).expect("a link of ours");
    refused("a link");
}
