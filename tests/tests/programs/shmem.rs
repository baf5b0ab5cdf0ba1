//! C programs that test OpenSHMEM (`am-core/shmem`), built with `oshcc`, run with 1, 2 and 3 PEs; and what bad input gets.

use std::process::Command;

use am_tests::programs::{self, Scratch, run};

fn test(name: &str) {
    let options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    programs::compile_and_run("oshcc", &options, &format!("shmem/{name}.c"));
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn remote_memory_access() {
    test("rma");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn atomic_operations_and_locks() {
    test("atomics");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn waits_and_signals() {
    test("waits");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn teams_and_collectives() {
    test("collectives");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn symmetric_memory() {
    test("memory");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn threads() {
    test("threads");
}

/// Also a program at fixed addresses, and one that the loader binds at once.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn static_data_of_programs_of_each_kind() {
    for options in
        [&["-no-pie", "-fno-pie"][..], &["-Wl,-z,now"], &["-Wl,-z,norelro"], &["-static-libgcc", "-O2"]]
    {
        programs::compile_and_run("oshcc", options, "shmem/memory.c");
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn cxx_and_profiling_names() {
    programs::compile_and_run("oshcxx", &["-O1", "-Wall", "-Wextra", "-Werror"], "shmem/names.cpp");
}

/// Each kind of mistake of `bad.c`: what the error must say besides the call.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn bad_input_is_an_error_that_names_it() {
    programs::build();
    let scratch = Scratch::new("shmem-bad");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/shmem/bad.c");
    let mut compile = Command::new(programs::folder().join("oshcc"));
    let (good, said) = run(compile.args(programs::compiler_options()).arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    // The report of a hang names the call, the variable, what is waited for and what is there, and who waits for whom.
    let mut hang = Command::new(programs::folder().join("oshrun"));
    hang.args(["-n", "2", "--hang-report", "2", "--timeout", "12"]).arg(&program).arg("24");
    let (good, said) = run(&mut hang);
    let words = "shmem_long_wait_until until guard + 16 is 77; it is 3";
    assert!(!good && said.contains(words), "{said}");
    assert!(said.contains("receive for shmem_barrier_all from task 0"), "{said}");
    let start = |kind: usize| {
        let mut command = Command::new(programs::folder().join("oshrun"));
        command.args(["-n", "2", "--timeout", "60"]).arg(&program).arg(kind.to_string());
        command
    };
    let wanted: [&[&str]; 20] = [
        &["shmem_barrier_all: the library is not in use: call shmem_init"],
        &["shmem_long_p at PE", "there is no PE 2", "0 to 1"],
        &["shmem_long_p at PE", "there is no PE -1"],
        &["shmem_long_p at PE", "dest = 0x", "8 bytes for PE", "not symmetric", "shmem_malloc"],
        &["shmem_putmem at PE", "1099511627776 bytes", "run out of the symmetric heap"],
        &["shmem_getmem at PE", "source = 0x", "run out of the program's static data"],
        &["shmem_long_atomic_add at PE", "a multiple of 8"],
        &["shmem_free at PE", "ptr = 0x", "not the start of a block"],
        &["shmem_malloc at PE", "size = 0x", "the same arguments"],
        &["shmem_long_wait_until at PE", "comparison 77"],
        &["shmem_long_broadcast at PE", "PE_root = 2"],
        &["shmem_barrier at PE", "PE_size = 3"],
        &["shmem_clear_lock at PE", "no PE has set it"],
        &["shmem_team_sync at PE", "team was destroyed"],
        &["shmem_ctx_long_p at PE", "SHMEM_CTX_INVALID"],
        &["shmem_long_iput at PE", "at a distance of 0"],
        &["shmem_align at PE", "alignment = 48"],
        &["shmem_long_put_signal at PE", "sig_op = 9"],
        &["shmem_my_pe: the library is not in use"],
        &["shmem_free at PE", "or it was freed before"],
    ];
    for (words, kind) in wanted.iter().zip(1..) {
        let (good, said) = run(&mut start(kind));
        assert!(!good && words.iter().all(|word| said.contains(word)), "kind {kind}: {said}");
    }
    // A death ends the job: the others' error names it and its cause.
    let (good, said) = run(&mut start(23));
    let dead = "shmem_long_wait_until at PE 0: task 1 has failed (task 1 was killed by signal 9 (SIGKILL))";
    assert!(!good && said.contains(dead), "{said}");
    let status = start(21).status().expect("oshrun starts");
    assert_eq!(status.code(), Some(23), "shmem_global_exit(23)");
    let (good, said) = run(&mut start(22));
    assert!(good, "shmem_global_exit(0) ends all PEs without an error: {said}");
    let (good, said) = run(start(0).env("SHMEM_SYMMETRIC_SIZE", "many"));
    assert!(!good && said.contains("SHMEM_SYMMETRIC_SIZE=many: use a number of bytes"), "{said}");
    let (good, said) = run(start(0).env("SHMEM_SYMMETRIC_SIZE", "1.5M").env("SHMEM_INFO", "1"));
    assert!(good && said.contains("now 1572864") && said.contains("OpenSHMEM 1.6"), "{said}");
}

/// Both libraries in one process, begun and ended in either order, with a thread that calls MPI; also where PEs do not share memory.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn mpi_and_openshmem_in_one_program() {
    let warnings = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    for (order, wrapper) in [(0, "mpicc"), (1, "oshcc"), (2, "oshcc"), (3, "mpicc")] {
        let order = format!("-DORDER={order}");
        let options = [&warnings[..], &["-DTHREADS=1", &order]].concat();
        programs::compile_and_run(wrapper, &options, "shmem/with_mpi.c");
    }
}

/// A program whose functions of MPI are those of another library, and a task that was started by another, cannot use OpenSHMEM.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn processes_that_cannot_be_pes_are_told_why() {
    programs::build();
    let scratch = Scratch::new("shmem-refused");
    let other = scratch.path().join("libother.so");
    std::fs::write(scratch.path().join("other.c"), "int PMPI_Init(void) { return 0; }")
        .expect("the folder is ours");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&other).arg(scratch.path().join("other.c"));
    let (good, said) = run(&mut compile);
    assert!(good, "{said}");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/shmem/not_a_pe.c");
    for (is_spawned, words) in [
        (false, ["has an MPI library, ", "libother.so"]),
        (true, ["started by MPI_Comm_spawn", "oshrun or mpiexec"]),
    ] {
        let program = scratch.path().join(format!("program-{is_spawned}"));
        let mut compile = Command::new(programs::folder().join("oshcc"));
        compile.args(programs::compiler_options()).arg(source).arg("-o").arg(&program);
        if is_spawned {
            compile.arg("-DSPAWNS");
        } else {
            compile.arg("-Wl,--no-as-needed").arg(&other);
        }
        let (good, said) = run(&mut compile);
        assert!(good, "{said}");
        let mut start = Command::new(programs::folder().join("oshrun"));
        let (good, said) = run(start.args(["-n", "1", "--timeout", "60"]).arg(&program));
        assert!(!good && words.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// PEs that run different programs cannot have the same static data (open-mpi/ompi and Sandia's library check nothing).
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn different_programs_are_refused() {
    programs::build();
    let scratch = Scratch::new("shmem-differ");
    let mut names = Vec::new();
    for number in ["1", "2"] {
        let program = scratch.path().join(format!("program{number}"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/shmem/bad.c");
        let mut compile = Command::new(programs::folder().join("oshcc"));
        compile
            .args(programs::compiler_options())
            .arg(format!("-DVARIANT={number}"))
            .arg(format!("-O{number}"));
        let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
        assert!(good, "{said}");
        names.push(program);
    }
    let mut start = Command::new(programs::folder().join("oshrun"));
    let (good, said) = run(start.args(["-n", "1"]).arg(&names[0]).args([":", "-n", "1"]).arg(&names[1]));
    assert!(!good && said.contains("shmem_init") && said.contains("the identity of its program"), "{said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn examples_check_themselves() {
    for name in ["hello", "halo", "work_queue"] {
        let source = format!("../am-core/shmem/examples/{name}.c");
        programs::compile_and_run("oshcc", &["-O1", "-Wall", "-Wextra", "-Werror", "-lm"], &source);
    }
}

/// PEs on several hosts: words and tokens travel as messages, and PEs that compute take them (the test's hosts are agents on this machine).
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
#[cfg_attr(all(has_libfabric, not(has_cc)), ignore = "no C compiler (cc) was found")]
fn programs_run_on_hosts() {
    programs::build();
    let scratch = Scratch::new("shmem-hosts");
    for name in ["atomics", "waits", "collectives", "with_mpi"] {
        let program = scratch.path().join(name);
        let source = format!("{}/shmem/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let mut compile = Command::new(programs::folder().join("oshcc"));
        compile.args(["-std=gnu11", "-O1", "-pthread", "-DHOSTS=1"]).args(programs::compiler_options());
        let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
        assert!(good, "{name}: {said}");
        let (good, said) = run(programs::amrun_on_hosts(&scratch, 3, "a:2,b").arg(&program));
        assert!(good && said.contains("all good"), "{name}: {said}");
    }
}
