//! The module `mpi_f08`, by two compilers whose descriptors of arrays differ: programs, and the names that the module has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

/// The compiled modules, which are the same for all tests of a compiler.
fn cache() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/fortran"))
}

/// Compiles a program with optimisation, so that accesses to a buffer would be moved where the compiler may move them, and runs it. Some
/// programs also have a form for the module `mpi`.
fn test(compiler: &str, source: &str) {
    programs::compile_and_run_fortran(compiler, &["-O2", "-DBY_MPI_F08"], source, cache());
}

macro_rules! programs_by {
    ($($sections:ident $handles:ident $callbacks:ident $ports:ident $cfg:ident $compiler:literal)*) => { $(
        #[test]
        #[cfg_attr(not($cfg), ignore = concat!($compiler, " was not found"))]
        fn $sections() {
            test($compiler, "fortran/f08_sections.f90");
        }

        #[test]
        #[cfg_attr(not($cfg), ignore = concat!($compiler, " was not found"))]
        fn $handles() {
            test($compiler, "fortran/f08_handles.f90");
        }

        #[test]
        #[cfg_attr(not($cfg), ignore = concat!($compiler, " was not found"))]
        fn $callbacks() {
            test($compiler, "fortran/f08_callbacks.f90");
        }

        #[test]
        #[cfg_attr(not($cfg), ignore = concat!($compiler, " was not found"))]
        fn $ports() {
            test($compiler, "fortran/f_ports.F90");
        }
    )* };
}

programs_by! {
    sections_by_gfortran handles_by_gfortran callbacks_by_gfortran ports_by_gfortran has_gfortran "gfortran"
    sections_by_flang handles_by_flang callbacks_by_flang ports_by_flang has_flang_new_19 "flang-new-19"
}

/// Functions that the standard has not in this module: those that only C has (the tool interface, conversions of handles), and the
/// deprecated ones that only older Fortran has (MPI 5.0 chapter 16).
fn is_elsewhere(function: &str) -> bool {
    function.starts_with("MPI_T_")
        || function.ends_with("_toint")
        || function.ends_with("_fromint")
        || function.starts_with("MPI_Attr_")
        || function.starts_with("MPI_Keyval_")
}

/// Forms with large counts whose Fortran arguments are those of the other form: kinds of counts, addresses and offsets are the same, or the
/// other form has large counts already.
const SAME_IN_FORTRAN: [&str; 6] = [
    "MPI_File_get_type_extent_c",
    "MPI_Precv_init_c",
    "MPI_Psend_init_c",
    "MPI_Type_create_resized_c",
    "MPI_Type_get_extent_c",
    "MPI_Type_get_true_extent_c",
];

/// The functions of the standard.
fn functions() -> impl Iterator<Item = &'static str> {
    include_str!("../../c/abi_values.txt").lines().filter_map(|line| line.strip_prefix("function "))
}

/// The folder with the modules of gfortran.
fn folder() -> PathBuf {
    programs::build();
    let mut show = Command::new(programs::folder().join("mpifort"));
    let (good, said) = run(show.arg("-showme:link").env("XDG_CACHE_HOME", cache()).env("AM_FC", "gfortran"));
    assert!(good && said.contains("-lmpi_f08"), "{said}");
    said.split_whitespace().find_map(|word| word.strip_prefix("-L")).expect("a folder").into()
}

/// The names that programs call: of generic interfaces, and of routines with names of their own.
fn names(module: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in module.lines().map(str::trim) {
        let mut words = line.split([' ', '(']);
        match (words.next(), words.next()) {
            (Some("interface"), name) => {
                names.extend(name.filter(|name| name.contains("MPI_")).map(str::to_lowercase));
            }
            // A routine whose form with large counts has the same generic name.
            (Some("subroutine" | "function"), Some(name)) => {
                names.insert(name.replace("_f08ts", "").replace("_f08", "").to_lowercase());
            }
            _ => {}
        }
    }
    names
}

#[test]
#[cfg_attr(not(has_gfortran), ignore = "no gfortran was found")]
#[cfg_attr(not(has_nm), ignore = "no nm was found")]
fn every_function_has_its_interface_and_its_routine() {
    let folder = folder();
    let module = std::fs::read_to_string(folder.join("mpi_f08.f90")).expect("the module's source");
    let names = names(&module);
    let is_missing = |function: &&str| {
        !is_elsewhere(function)
            && !SAME_IN_FORTRAN.contains(function)
            && !["", "p"].iter().all(|front| names.contains(&(front.to_string() + &function.to_lowercase())))
    };
    let missing: Vec<_> = functions().filter(is_missing).collect();
    assert!(missing.is_empty(), "the module mpi_f08 has no {missing:?}");
    for function in SAME_IN_FORTRAN {
        assert!(
            !names.contains(&function.to_lowercase()),
            "{function} would make its generic name ambiguous"
        );
    }
    let functions_of_fortran = ["status_f2f08", "status_f082f", "sizeof", "f_sync_reg"];
    for name in functions_of_fortran {
        assert!(names.contains(&format!("mpi_{name}")) && names.contains(&format!("pmpi_{name}")), "{name}");
    }
    // Each routine without a descriptor is one of the library.
    let mut list = Command::new("nm");
    let library = programs::folder().join("libmpi_abi.so");
    let (good, said) = run(list.args(["-D", "--defined-only"]).arg(library));
    assert!(good, "{said}");
    let symbols: BTreeSet<_> = said.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let mut routines = 0;
    for line in module.lines().map(str::trim).take_while(|line| *line != "contains") {
        let name = ["subroutine ", "function "].iter().find_map(|front| line.strip_prefix(front));
        let Some(name) = name.and_then(|name| name.split('(').next()) else { continue };
        let is_abstract = name.ends_with("_function") || name.ends_with("_function_c");
        let has_descriptor =
            name.ends_with("_f08ts") || name.contains("F_sync_reg") || name.contains("Sizeof");
        if !is_abstract && !has_descriptor {
            let symbol = format!("{}_", name.to_lowercase());
            assert!(symbols.contains(symbol.as_str()), "the library has no {symbol}");
            routines += 1;
        }
    }
    assert!(routines > 600, "{routines} routines only");
    // Each routine with a descriptor is in the library of this compiler, and needs only what the other library has.
    let scratch = Scratch::new("f08-routines");
    let mut link = Command::new("gfortran");
    link.args(["-shared", "-Wl,--no-undefined", "-Wl,--whole-archive"]).arg(folder.join("libmpi_f08.a"));
    link.arg("-Wl,--no-whole-archive").arg("-L").arg(programs::folder()).args(["-lmpi_abi", "-o"]);
    let (good, said) = run(link.arg(scratch.path().join("all.so")));
    assert!(good, "{said}");
    let (good, said) = run(Command::new("nm").arg(folder.join("libmpi_f08.a")));
    assert!(good, "{said}");
    let symbols: BTreeSet<_> = said.lines().filter_map(|line| line.split_once(" T ")).collect();
    let symbols: BTreeSet<_> = symbols.into_iter().map(|(_, name)| name).collect();
    for name in module.split("bind(C, name='").skip(1).filter_map(|rest| rest.split('\'').next()) {
        assert!(symbols.contains(name), "{name} is not in libmpi_f08.a");
    }
}

/// A compiler without Fortran 2018's header still has the module `mpi`, and says why there is no `mpi_f08`.
#[test]
fn a_compiler_without_descriptors_has_the_older_module() {
    use std::os::unix::fs::PermissionsExt;
    programs::build();
    let scratch = Scratch::new("f08-old-compiler");
    let compiler = scratch.path().join("bin/fc");
    std::fs::create_dir(scratch.path().join("bin")).expect("a test can write here");
    let text =
        "#!/bin/sh\n[ \"$1\" = --version ] && echo Fc 1 && exit\n: > mpi.mod\n: > mpi_f08.mod\necho \"$@\"\n";
    std::fs::write(&compiler, text).expect("a test can write here");
    std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("a test can write here");
    let mut compile = Command::new(programs::folder().join("mpifort"));
    compile.args(["x.f90", "-o", "x"]).current_dir(scratch.path());
    let (good, said) = run(compile.env("AM_FC", &compiler).env("XDG_CACHE_HOME", scratch.path()));
    assert!(good && said.contains("cannot use the module mpi_f08"), "{said}");
    assert!(said.contains("has no ISO_Fortran_binding.h") && !said.contains("-lmpi_f08"), "{said}");
}
