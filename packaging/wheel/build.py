#!/usr/bin/env python3
"""Makes a wheel, which `pip install` puts into an environment: programs, libraries and headers of an installation.

FOLDER of --from is a folder in which cargo has built everything, such as target/debug; without it, optimised programs are built. The tag of
the wheel names the newest version of glibc that a file needs. By default that is a version of the building machine or an older one; with
--sysroot, programs are linked with the glibc below another root, which has files of an older distribution, but for functions that are newer
than --glibc. Needs a C compiler (cc) and strip. See README.md in the folder of this program.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True # no file beside the sources
import versions

NAME = "mpi-over-am"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["mpi-over-am-abi", "mpi-over-am-mpich", "mpi-over-am-openmpi", "mpi-over-am-malloc", "am-via-launch"]
# A wheel has no links. A link to a program becomes this script, by which the program is called under the link's name.
SCRIPT = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/{program}" --called-as {name} "$@"
"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, cwd=ROOT, **options)


def options_for(sysroot, newest, links):
    """The options with which programs are linked with the glibc below another root, without the functions of versions after `newest`. The
    folder `links` is for the files that the linker takes in place of that root's: the links that a distribution has there are absolute."""
    def find(pattern):
        found = [path for path in sorted(sysroot.glob(pattern)) if path.is_file()]
        if not found:
            sys.exit(f"{sysroot} has no {pattern}: --sysroot takes the root of a distribution with the files to link with glibc")
        return found[0]

    start, rest = find("usr/lib*/**/Scrt1.o"), find("usr/lib*/**/libc_nonshared.a")
    loader, libc = find("lib*/**/ld-*.so*"), find("lib*/**/libc.so.6")
    for library in [libc, *(find(f"lib*/**/lib{name}.so.[0-9]") for name in ("dl", "m", "pthread", "rt", "util"))]:
        data = library.read_bytes()
        (links / library.name).write_bytes(versions.without_newer(data, newest) if newest else data)
        if library != libc:
            (links / library.stem).symlink_to(library.name)
    (links / "libc.so").write_text(f"GROUP({links / libc.name} {rest} AS_NEEDED({loader}))\n")
    # Without -B, the compiler takes the Scrt1.o of its own system, by which programs run no constructors if their glibc is older.
    return [f"--sysroot={sysroot}", f"-B{start.parent}", f"-L{links}", f"-L{libc.parent}"]


def build(sysroot, newest):
    """Builds the optimised programs, and returns their folder."""
    environment = dict(os.environ)
    target = pathlib.Path(environment.get("CARGO_TARGET_DIR", ROOT / "target"))
    if sysroot:
        target = ROOT / target / "wheel"
        # Cargo builds everything again if the path of this folder changes, and nothing if only its files do.
        links = target / ("links-" + ".".join(map(str, newest or ["all"])))
        shutil.rmtree(links, ignore_errors=True)
        links.mkdir(parents=True)
        # Separated by the character that may be in a path.
        environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(f"-Clink-arg={option}" for option in options_for(sysroot, newest, links))
    environment["CARGO_TARGET_DIR"] = str(target)
    run("cargo", "build", "--release", *(word for package in PACKAGES for word in ("-p", package)), env=environment)
    return ROOT / target / "release"


def companion(name, leads_to, scratch):
    """A library of this name without functions, which loads the one to which the relative path `leads_to` leads."""
    made, named = scratch / name, scratch / leads_to.name
    shared = ["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-x", "none", "-Wl,-z,separate-code,-z,max-page-size=4096"]
    # The linker notes the name that a library has inside. That of the real one is a name that programs ask for, as this one's.
    run(*shared, f"-Wl,-soname,{leads_to.name}", "-o", named)
    run(*shared, f"-Wl,-soname,{name}", "-o", made, "-Wl,--no-as-needed", f"-Wl,-rpath,{pathlib.Path('$ORIGIN') / leads_to.parent}",
        "-Wl,--disable-new-dtags", named)
    run("strip", made)
    return made.read_bytes()


def contents(prefix, scratch):
    """The files of an installation below `prefix`: path, bytes, whether it is a program."""
    for path in sorted(prefix.rglob("*")):
        name = path.relative_to(prefix)
        if not path.is_symlink():
            if path.is_file():
                yield name, path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR)
        elif path.parent == prefix / "bin":
            yield name, SCRIPT.format(name=name.name, program=path.readlink()).encode(), True
        elif path.suffix == ".so":
            # For the linker: it takes functions from the library itself only.
            yield name, f"INPUT({path.readlink()})\n".encode(), False
        else:
            yield name, companion(path.name, path.readlink(), scratch), True
            # Modules of Python, which know the environment, look in its folder of libraries.
            yield pathlib.Path("lib", path.name), companion(path.name, pathlib.Path(path.readlink().name), scratch), True


def write(files, version, tag, out, level):
    stem = f"{NAME.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    entries = [(f"{stem}.data/data/{name}", data, is_program) for name, data, is_program in files]
    licences = [(f"{info}/licenses/{name}", (ROOT / name).read_bytes(), False) for name in ("LICENSE-MIT", "LICENSE-APACHE")]
    metadata = (f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: MPI over active messages: runs programs that were "
                "built for the standard ABI, MPICH, Intel MPI and Open MPI\nLicense-Expression: MIT OR Apache-2.0\n"
                "License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n"
                "Requires-Python: >=3\nDescription-Content-Type: text/markdown\n\n" + (ROOT / "mpi-over-am/abi/README.md").read_text())
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries += licences + [(f"{info}/METADATA", metadata.encode(), False), (f"{info}/WHEEL", wheel.encode(), False)]
    record = ""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        def add(name, data, is_program):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)

        for name, data, is_program in entries:
            add(name, data, is_program)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), False)
    return path


def glibc(text):
    try:
        major, minor = map(int, text.split("."))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no version of glibc: 2.28 is one") from None
    return major, minor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built_or_linked = parser.add_mutually_exclusive_group()
    built_or_linked.add_argument("--from", dest="built", type=pathlib.Path, metavar="FOLDER", help="programs that cargo has built")
    built_or_linked.add_argument("--sysroot", type=pathlib.Path, metavar="ROOT", help="the root whose glibc the programs are linked with")
    parser.add_argument("--glibc", type=glibc, metavar="X.Y", help="fail if a file needs a newer version of glibc")
    parser.add_argument("--level", type=int, choices=range(10), default=9, help="how much to compress, from 0 to 9 (9)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", metavar="FOLDER", help="where the wheel is put (dist)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prefix, scratch = (pathlib.Path(folder, name) for name in ("prefix", "scratch"))
        scratch.mkdir()
        built = arguments.built.resolve() if arguments.built else build(arguments.sysroot and arguments.sysroot.resolve(), arguments.glibc)
        # Modules of Fortran are compiled at the first use, by the compiler of the user.
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "AM_FC": "no-compiler"}
        run(built / "mpi-install", "--prefix", prefix, stdout=subprocess.DEVNULL, env=environment)
        files = list(contents(prefix, scratch))
        try:
            tag = versions.tag(files, arguments.glibc)
        except ValueError as error:
            sys.exit(f"no wheel is made: {error}")
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
        print(write(files, version, tag, arguments.out.resolve(), arguments.level))


main()
