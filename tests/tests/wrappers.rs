//! The compiler wrappers and the starters of the C interface, as other launchers' users know them.

use std::process::Command;

use am_tests::programs::{self, Scratch, run};

fn tool(name: &str) -> Command {
    programs::build();
    Command::new(programs::folder().join(name))
}

/// What a command says, which must end well.
fn said(command: &mut Command) -> String {
    let (good, said) = run(command);
    assert!(good, "{command:?}: {said}");
    said
}

#[test]
fn show_is_a_line_of_a_compiler() {
    let folder = programs::folder().canonicalize().expect("it is there");
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
    assert!(compile.starts_with("c++ ") && compile.contains(" -I") && !compile.contains("-l"), "{compile}");
    let link = said(tool("mpicxx").arg("-link-info"));
    assert!(link.starts_with("c++ ") && link.contains("-lmpi_abi") && !link.contains("-I"), "{link}");
    let options = said(tool("mpicc").arg("-showme:link"));
    assert!(options.starts_with("-L") && options.contains("-lmpi_abi"), "{options}");
    assert!(!said(tool("mpicc").args(["-show", "-c", "x.c"])).contains("-lmpi_abi"));
}

#[test]
fn questions_go_to_the_compiler() {
    if programs::has("cc") {
        let own = said(Command::new("cc").arg("--version"));
        assert_eq!(said(tool("mpicc").arg("--version")), own);
    }
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
        &["-host", "elsewhere", "ls"],
        &["--bind-to", "moon", "ls"],
        &["-n", "2"],
        &["ls", ":"],
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
}

#[test]
fn several_programs_in_a_job() {
    if !programs::has("cc") {
        return;
    }
    let scratch = Scratch::new("several-programs");
    let program = scratch.path().join("t_programs");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_programs.c");
    let _ = said(tool("mpicc").args(["-Wall", "-Werror", source, "-o"]).arg(&program));
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

/// Runs `c/s_malloc.c`, which is told what to expect.
fn runs(program: &std::path::Path, tasks: &str, options: &[&str], expected: &str) {
    let mut start = Command::new(programs::folder().join("mpiexec"));
    start.args(["-n", tasks]).args(options).arg(program).arg(expected).env_remove("LD_PRELOAD");
    let (good, said) = run(&mut start);
    assert!(good && said.contains("all good"), "{expected}, {tasks} tasks, {options:?}: {said}");
}

#[test]
fn large_blocks_are_job_memory_if_wanted() {
    if !programs::has("cc") {
        return;
    }
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
fn what_else_is_to_be_loaded_first_stays() {
    if !programs::has("cc") {
        return;
    }
    programs::build();
    let scratch = Scratch::new("shared-malloc-preload");
    let (source, library) = (scratch.path().join("other.c"), scratch.path().join("other.so"));
    std::fs::write(&source, "int of_the_other = 1;\n").expect("a file of ours");
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
