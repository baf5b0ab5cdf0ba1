//! A program that was started without a launcher is a job of one, and can send messages to itself.

use std::time::Duration;

use am_core_conform::watchdog::Watchdog;
use mpi_over_am::{Environment, Error, Source, Tag};

#[test]
fn a_task_alone_sends_to_itself_in_every_way() {
    let _watchdog = Watchdog::new("a job of one".to_owned(), Duration::from_secs(120));
    let environment = Environment::init().unwrap();
    let world = environment.world();
    assert_eq!((world.rank(), world.size()), (0, 1));

    world.send(&[1u64, 2, 3], 0, 7).unwrap();
    let mut got = [0u64; 3];
    let status = world.recv(&mut got, 0, 7).unwrap();
    assert_eq!((got, status.source(), status.tag(), status.count::<u64>()), ([1, 2, 3], 0, 7, Some(3)));

    let long: Vec<u32> = (0..1_000_000).collect();
    let mut copy = vec![0u32; long.len()];
    world
        .scope(|s| {
            let receive = s.irecv(&mut copy, Source::Any, Tag::Any)?;
            let send = s.isend(&long, 0, 1)?;
            assert_eq!(s.wait(receive)?.count::<u32>(), Some(1_000_000));
            s.wait(send)
        })
        .unwrap();
    assert_eq!(copy, long);

    assert!(matches!(world.send(&[0u8], 1, 0), Err(Error::UnknownRank { rank: 1, size: 1 })));
    drop(world);
    environment.finalize().unwrap();
    // Each time in a new job.
    for number in 0..20_u32 {
        let environment = Environment::init().unwrap();
        let mut got = 0_u32;
        environment.world().sendrecv(&number, 0, 1, &mut got, 0, 1).unwrap();
        assert_eq!(got, number);
        environment.finalize().unwrap();
    }
}
