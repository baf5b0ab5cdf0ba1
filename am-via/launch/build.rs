//! Keeps the names that debuggers look for in the launcher, also in a file without other symbols.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=MPIR_*");
}
