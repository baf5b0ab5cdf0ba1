//! Files between processes: what a death leaves.

use std::path::PathBuf;

use am_tests::harness::job;
use mpi_over_am::file::{AccessMode, Place, Whence};
use mpi_over_am::{Info, Source, Tag};

use crate::mpi_windows::{end, go_on, kill};

/// A task dies that has the file open, while the file is being written. The others go on with it: at offsets, at their own pointers, at the
/// shared pointer, which rank 0 has.
#[test]
fn a_death_leaves_a_file_to_the_others() {
    job("a_death_leaves_a_file_to_the_others").tasks(4).run_and_judge(
        || {
            let environment = go_on();
            let world = environment.world();
            let own = world.rank();
            let mut pids = [0u64; 4];
            world.allgather(&[u64::from(std::process::id())], &mut pids).expect("all tasks take part");
            let path: PathBuf = std::env::temp_dir().join(format!("a-death-{}", pids[0]));
            let mode = AccessMode::CREATE | AccessMode::READ_WRITE;
            let file = world.open_file(&path, mode, &Info::new()).expect("a new file");
            let number = u64::from(own);
            file.write_all(Place::At(8 * number), &number).expect("there is room");
            world.barrier().expect("all tasks reach the barrier");
            match own {
                0 => {
                    // Rank 2 is writing.
                    world.recv(&mut [0u8], Source::Rank(2), Tag::Is(1)).expect("the message arrives");
                    kill(pids[2]);
                    // The death is known to all when it is known here and told on.
                    let lost = world.recv(&mut [0u8], Source::Rank(2), Tag::Is(2));
                    assert!(lost.is_err(), "rank 2 sends nothing more");
                    [1, 3].iter().for_each(|&rank| world.send(&[0u8], rank, 3).expect("the message is sent"));
                }
                2 => {
                    world.send(&[0u8], 0, 1).expect("the message is sent");
                    loop {
                        file.write(Place::Shared, &[7u64; 1000]).expect("there is room");
                    }
                }
                _ => {
                    world.recv(&mut [0u8], Source::Rank(0), Tag::Is(3)).expect("the message arrives");
                }
            }
            let mut back = 0u64;
            file.read(Place::At(8 * 2), &mut back).expect("the file is there");
            assert!(back == 2 || back == 7, "what rank 2 has written stays: {back}");
            let far = 1 << 30;
            file.write(Place::At(far + 8 * number), &(number + 100)).expect("there is room");
            file.seek((far + 8 * number).cast_signed(), Whence::Start).expect("no other task takes part");
            file.read(Place::Pointer, &mut back).expect("the file is there");
            assert_eq!(back, number + 100);
            let before = file.shared_position().expect("rank 0 lives");
            file.write(Place::Shared, &number).expect("rank 0 lives");
            assert!(file.shared_position().expect("rank 0 lives") >= before + 8);
            assert!(file.set_len(far).is_err(), "a collective call of a task that has died");
            end(environment, &world, &[0, 1, 3]);
            drop(file);
            // The name may be gone already: each survivor removes it.
            let _ = std::fs::remove_file(&path);
        },
        |outcome| {
            let well = [0, 1, 3].map(|rank: usize| outcome.tasks[rank].is_success());
            assert_eq!(well, [true; 3], "the tasks that live go on");
        },
    );
}
