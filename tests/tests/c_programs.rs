//! C programs on the C interface, by what they are about. Each is built with the wrapper `mpicc` of this build and run with 1, 2
//! and 3 tasks.

use am_tests::programs;

fn test(name: &str) {
    if programs::has("cc") {
        programs::compile_and_run("mpicc", &["-O1", "-Wall", "-Wextra", "-Werror"], &format!("c/{name}.c"));
    }
}

/// Each program by its name, a test of its own.
macro_rules! programs {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            test(stringify!($name));
        }
    )* };
}

programs! {
    c_classes
    c_communicators
    c_errhandlers
    c_levels
    c_objects
    c_shared_windows
    c_threads
    d_collectives
    d_datatypes
    d_point_to_point
    d_requests
    o_messages
    o_objects
    w_one_sided
    w_tools
}
