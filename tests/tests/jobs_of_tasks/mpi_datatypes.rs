//! Messages that are not contiguous, between processes, with each method of memory access: they are copied from the sender's layout to the
//! receiver's layout.

use am_core_conform::pattern;
use am_tests::harness::jobs;
use mpi_over_am::datatype::{Datatype, Order, Predefined};
use mpi_over_am::packing::{pack, unpack};
use mpi_over_am::{Communicator, Environment, Mode, Result, View, ViewMut};

/// Layouts of every kind, with lengths around every limit, each with a count.
fn layouts() -> Result<Vec<(u64, Datatype)>> {
    let double = Datatype::predefined(Predefined::Double);
    let byte = Datatype::predefined(Predefined::Byte);
    let mut layouts = Vec::new();
    for rows in [1, 2, 5, 300, 1024, 40_000] {
        let column = Datatype::vector(rows, 1, 5, &double)?;
        layouts.push((1, column.clone()));
        layouts.push((4, Datatype::resized(&column, 0, 8)?));
    }
    layouts.push((1, Datatype::subarray(&[40, 50, 60], &[40, 1, 60], &[0, 7, 0], Order::C, &double)?));
    layouts.push((1, Datatype::subarray(&[90, 80, 70], &[30, 60, 50], &[5, 6, 7], Order::Fortran, &byte)?));
    let record = Datatype::structure(
        &[1, 1, 3],
        &[0, 8, 17],
        &[Datatype::predefined(Predefined::Int), double.clone(), byte.clone()],
    )?;
    for count in [1, 100, 30_000] {
        layouts.push((count, record.clone()));
    }
    let places: Vec<i64> = (0..5000).map(|i| i * 7 + i % 3).collect();
    let lens: Vec<u64> = (0..5000).map(|i| 1 + i % 4).collect();
    layouts.push((3, Datatype::indexed(&lens, &places, &byte)?));
    layouts.push((1, Datatype::contiguous(70_000, &double)?));
    Ok(layouts)
}

fn around_the_ring(world: &Communicator) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for (tag, (count, layout)) in (0..).zip(layouts()?) {
        let len = usize::try_from(layout.span(count)?.1).expect("it lies in memory");
        let filled = |of: u32| pattern(of.into(), len);
        let elements = (count, &layout);
        let out = filled(rank);
        let out_view = View::new(&out, count, &layout)?;
        let mut expected = vec![0xEE; len];
        unpack(&pack(&filled(previous), elements)?, &mut expected, elements)?;
        for mode in [Mode::Standard, Mode::Synchronous] {
            let mut got = vec![0xEE; len];
            let mut view = ViewMut::new(&mut got, count, &layout)?;
            world.scope(|s| {
                let arriving = s.irecv(&mut view, previous, tag)?;
                let leaving = s.isend_in_mode(mode, &out_view, next, tag)?;
                assert_eq!(s.wait(arriving)?.count_of(&layout), Some(count));
                s.wait(leaving)
            })?;
            assert!(got == expected, "{count} of {layout:?} differ in mode {mode:?}");
        }
        // The same with contiguous data at the sender, then at the receiver.
        let packed = pack(&out, elements)?;
        let mut got = vec![0xEE; len];
        let mut bytes = vec![0; packed.len()];
        let mut view = ViewMut::new(&mut got, count, &layout)?;
        world.scope(|s| {
            let first = s.irecv(&mut view, previous, tag)?;
            let second = s.irecv(&mut bytes, previous, tag)?;
            let leaving = [s.isend(&packed, next, tag)?, s.isend(&out_view, next, tag)?];
            s.wait_all([first, second])?;
            s.wait_all(leaving)
        })?;
        assert!(got == expected, "{count} of {layout:?} differ when sent in one piece");
        assert!(bytes == pack(&filled(previous), elements)?, "{count} of {layout:?} differ in one piece");
    }
    Ok(())
}

#[test]
fn layouts_arrive_by_every_way_to_memory() {
    for job in jobs("layouts_arrive_by_every_way_to_memory", &[1, 2, 3]) {
        job.run(|| {
            let environment = Environment::init().expect("the launcher made a job");
            around_the_ring(&environment.world()).expect("each message fits");
            environment.finalize().expect("all tasks finalize");
        });
    }
}
