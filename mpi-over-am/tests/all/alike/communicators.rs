//! Groups, communicators, inter-communicators, attributes, sessions.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use std::sync::{Arc, Mutex};

use super::common::{Communicator, Environment, job, networks};
use am_double::Config;
use mpi_over_am::attribute::{Keyval, ObjectKind, PredefinedAttribute};
use mpi_over_am::{
    Comparison, Error, ErrorClass, ErrorHandler, Group, Info, RankRange, Settings, Source, SplitType, TAG_UB,
    WORLD_SET, op,
};

fn with_tasks(tasks: impl IntoIterator<Item = u32>, task: impl Fn(&Environment, &Communicator) + Sync) {
    for tasks in tasks {
        for config in networks(tasks) {
            job(config, Settings::default(), &task);
        }
    }
}

/// Each task sends its world rank to every task, and receives the ranks that the group predicts.
fn talk(communicator: &Communicator, world_ranks: &[u32]) {
    let (own, size) = (communicator.rank(), communicator.size());
    assert_eq!(size as usize, world_ranks.len());
    for peer in 0..size {
        let mut got = [u32::MAX];
        let status = communicator
            .sendrecv(&[world_ranks[own as usize]], peer, 5, &mut got, Source::Rank(peer), 5)
            .unwrap();
        assert_eq!((got[0], status.source()), (world_ranks[peer as usize], peer));
    }
    let mut sum = [u64::from(world_ranks[own as usize])];
    communicator.allreduce_in_place(&mut sum, op::Sum).unwrap();
    assert_eq!(sum[0], world_ranks.iter().map(|&rank| u64::from(rank)).sum::<u64>());
    communicator.barrier().unwrap();
}

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    result.unwrap_err().class()
}

#[test]
fn a_duplicate_has_messages_of_its_own() {
    with_tasks([1, 2, 5], |environment, world| {
        let dup = world.dup().unwrap();
        let again = dup.dup().unwrap();
        let all: Vec<u32> = (0..world.size()).collect();
        for communicator in [&dup, &again] {
            assert_eq!(communicator.compare(world), Comparison::Congruent);
            talk(communicator, &all);
        }
        assert_eq!(dup.compare(&dup.clone()), Comparison::Identical);
        // The same message on three communicators, received in the reverse order.
        let to = (world.rank() + 1) % world.size();
        for (value, communicator) in [world, &dup, &again].into_iter().enumerate() {
            let sent = communicator.isend_owned(vec![value as u64], to, 0).unwrap();
            drop(sent);
        }
        for (value, communicator) in [world, &dup, &again].into_iter().enumerate().rev() {
            let mut got = [9u64];
            communicator.recv(&mut got, Source::Any, 0).unwrap();
            assert_eq!(got[0], value as u64);
        }
        dup.close().unwrap();
        talk(&again, &all);
        assert_eq!(class(world.clone().close()), ErrorClass::Communicator);
        assert_eq!(class(environment.alone().close()), ErrorClass::Communicator);
        talk(&environment.alone(), &[world.rank()]);
        assert_eq!(environment.alone().compare(world) == Comparison::Congruent, world.size() == 1);
    });
}

#[test]
fn duplicates_come_by_themselves_and_in_any_order() {
    with_tasks([1, 2, 4], |_, world| {
        let all: Vec<u32> = (0..world.size()).collect();
        let other = world.dup().unwrap();
        let pending: Vec<_> = (0..6).map(|i| if i % 2 == 0 { world.idup() } else { other.idup() }).collect();
        let mut pending: Vec<_> = pending.into_iter().map(Result::unwrap).collect();
        let blocking = world.dup().unwrap();
        if world.rank() % 2 == 0 {
            pending.reverse();
        }
        while !pending.iter().all(|one| one.is_over().unwrap()) {}
        let mut made: Vec<_> = pending.into_iter().map(|one| one.wait().unwrap()).collect();
        if world.rank() % 2 == 0 {
            made.reverse();
        }
        made.push(blocking);
        for communicator in &made {
            talk(communicator, &all);
        }
        // One duplication is waited for like other requests. No call waits for the other duplication.
        let one = world.idup().unwrap();
        drop(world.idup().unwrap());
        world.wait(one.request()).unwrap();
        talk(&one.wait().unwrap(), &all);
        talk(&world.dup().unwrap(), &all);
    });
}

#[test]
fn splits_are_by_colour_and_key() {
    with_tasks([1, 3, 8], |_, world| {
        let (rank, size) = (world.rank(), world.size());
        let color = (rank % 3 != 2).then_some((rank % 3).cast_signed());
        let part = world.split(color, -rank.cast_signed()).unwrap();
        assert_eq!(part.is_some(), color.is_some());
        if let Some(part) = part {
            let expected: Vec<u32> = (0..size).filter(|other| other % 3 == rank % 3).rev().collect();
            talk(&part, &expected);
            // If the keys are equal, the rank decides.
            let again = part.split(Some(7), 0).unwrap().unwrap();
            talk(&again, &expected);
            assert_eq!(again.compare(&part), Comparison::Congruent);
            let all: Vec<u32> = expected.clone();
            let shared = part.split_type(Some(SplitType::Shared), 0, &Info::new()).unwrap().unwrap();
            talk(&shared, &all);
            let none = part.split_type(Some(SplitType::HardwareUnguided), 0, &Info::new()).unwrap();
            assert!(none.is_none());
            let mut hint = Info::new();
            hint.set("mpi_hw_resource_type", "mpi_shared_memory").unwrap();
            let guided = part.split_type(Some(SplitType::HardwareGuided), 0, &hint).unwrap().unwrap();
            let resource = guided.properties().info();
            assert_eq!(resource.get("mpi_hw_resource_type").unwrap(), Some("mpi_shared_memory"));
            hint.set("mpi_hw_resource_type", "L9cache").unwrap();
            assert!(part.split_type(Some(SplitType::HardwareGuided), 0, &hint).unwrap().is_none());
            assert!(part.split_type(None, 0, &hint).unwrap().is_none());
        }
        assert_eq!(class(world.split(Some(-1), 0)), ErrorClass::Argument);
    });
}

#[test]
fn communicators_of_groups() {
    with_tasks([2, 5], |_, world| {
        let all = world.group();
        let last = world.size().cast_signed() - 1;
        let backwards = all.range_incl(&[RankRange { first: last, last: 0, stride: -1 }]).unwrap();
        let turned = world.create(&backwards).unwrap().unwrap();
        assert_eq!(turned.compare(world), Comparison::Similar);
        talk(&turned, &(0..world.size()).rev().collect::<Vec<_>>());
        // Two groups that do not overlap, at the same time; and an empty one.
        let halves = [all.incl(&[0]).unwrap(), all.excl(&[0]).unwrap()];
        let own = &halves[usize::from(world.rank() > 0)];
        let half = world.create(own).unwrap().unwrap();
        assert_eq!(half.group().compare(own), Comparison::Identical);
        assert_eq!(half.compare(world), Comparison::Unequal);
        assert!(world.create(&Group::EMPTY).unwrap().is_none());
        // Only members call.
        if world.rank() > 0 {
            let made = world.create_group(&halves[1], 3).unwrap().unwrap();
            talk(&made, &(1..world.size()).collect::<Vec<_>>());
            let again = made.create_group(&made.group(), 3).unwrap().unwrap();
            talk(&again, &(1..world.size()).collect::<Vec<_>>());
            assert_eq!(class(made.create(&all)), ErrorClass::Group);
            assert_eq!(class(made.create_group(&all, 1)), ErrorClass::Group);
        } else {
            assert!(world.create_group(&halves[1], 3).unwrap().is_none());
        }
        assert_eq!(class(world.create_group(&all, -1)), ErrorClass::Tag);
        assert_eq!(half.group().translate_ranks(&[0], &all).unwrap(), [Some(u32::from(world.rank() > 0))]);
    });
}

#[test]
fn sessions_make_communicators_without_the_world() {
    with_tasks([1, 2, 4], |environment, world| {
        let session = environment.session(&Info::new(), ErrorHandler::Return);
        let all = session.group(WORLD_SET).unwrap();
        assert_eq!(
            session.set_info(WORLD_SET).unwrap().get("mpi_size").unwrap(),
            Some(&*world.size().to_string())
        );
        let made = session.create_from_group(&all, "a library", &Info::new(), ErrorHandler::Return).unwrap();
        let made = made.unwrap();
        talk(&made, &(0..world.size()).collect::<Vec<_>>());
        let alone = session.group("mpi://SELF").unwrap();
        let alone = session
            .create_from_group(&alone, "a library", &Info::new(), ErrorHandler::Fatal)
            .unwrap()
            .unwrap();
        talk(&alone, &[world.rank()]);
        assert_eq!(alone.properties().error_handler(), ErrorHandler::Fatal);
        assert_eq!(class(session.group("mpi://NONE")), ErrorClass::Argument);
        if world.size() == 1 {
            return;
        }
        let halves = [all.incl(&[0]).unwrap(), all.excl(&[0]).unwrap()];
        let side = usize::from(world.rank() > 0);
        let inter = session
            .inter_from_groups(&halves[side], &halves[1 - side], "two", &Info::new(), ErrorHandler::Return)
            .unwrap();
        talk_across(&inter);
        let apart = session.inter_from_groups(&all, &halves[0], "x", &Info::new(), ErrorHandler::Return);
        assert_eq!(class(apart), ErrorClass::Communicator);
    });
}

/// Each task sends to every task of the other side, and receives from each of them. A rank that the other side does not have is refused.
fn talk_across(inter: &Communicator) {
    assert!(inter.is_inter());
    let remote = inter.remote_size().unwrap();
    for peer in 0..remote {
        drop(inter.isend_owned(vec![inter.rank(), peer], peer, 4).unwrap());
    }
    for peer in 0..remote {
        let mut got = [0; 2];
        let status = inter.recv(&mut got, peer, 4).unwrap();
        assert_eq!((got, status.source()), ([peer, inter.rank()], peer));
    }
    assert_eq!(class(inter.send(&[0u8], remote, 0)), ErrorClass::Rank);
    assert_eq!(inter.remote_group().unwrap().rank(), None);
}

#[test]
fn two_sides_talk_merge_and_split() {
    with_tasks([2, 3, 7], |_, world| {
        let (rank, size) = (world.rank(), world.size());
        let is_left = rank % 2 == 0;
        let half = world.split(Some(i32::from(!is_left)), 0).unwrap().unwrap();
        // The leader of each side is its last task.
        let local_leader = half.size() - 1;
        let lasts = [size - 1 - (size - 1) % 2, size - 1 - size % 2];
        let remote_leader = if is_left { lasts[1] } else { lasts[0] };
        let bridge = (half.rank() == local_leader).then_some(world);
        let inter = half.create_inter_with(local_leader, bridge, remote_leader, 17).unwrap();
        assert_eq!(inter.remote_size().unwrap(), size - half.size());
        talk_across(&inter);
        let (left, right): (Vec<u32>, Vec<u32>) = (0..size).partition(|rank| rank % 2 == 0);
        let joined = |sides: [&Vec<u32>; 2]| sides.into_iter().flatten().copied().collect::<Vec<_>>();
        talk(&inter.merge(is_left).unwrap(), &joined([&right, &left]));
        talk(&inter.merge(!is_left).unwrap(), &joined([&left, &right]));
        talk(&inter.merge(true).unwrap(), &joined([&left, &right]));
        let dup = inter.dup().unwrap();
        assert_eq!(dup.compare(&inter), Comparison::Congruent);
        assert_eq!(dup.compare(&half), Comparison::Unequal);
        talk_across(&dup);
        // A communicator of the first task of each side; one to which the left side contributes no task; and a split, in which a side may
        // have no task of a colour.
        let first = inter.group().incl(&[0]).unwrap();
        let firsts = inter.create(&first).unwrap();
        assert_eq!(firsts.is_some(), half.rank() == 0);
        if let Some(firsts) = firsts {
            talk_across(&firsts);
        }
        let nobody = if is_left { Group::EMPTY } else { inter.group() };
        assert!(inter.create(&nobody).unwrap().is_none());
        let color = half.rank().min(1).cast_signed();
        let part = inter.split(Some(color), 0).unwrap();
        assert_eq!(part.is_some(), color == 0 || size > 3);
        if let Some(part) = part {
            talk_across(&part);
        }
        assert_eq!(class(inter.create_group(&first, 0)), ErrorClass::Communicator);
        assert_eq!(class(half.remote_group()), ErrorClass::Communicator);
        assert_eq!(class(half.merge(true)), ErrorClass::Communicator);
        assert_eq!(class(inter.create_cartesian(&[1], &[true])), ErrorClass::Communicator);
    });
}

#[test]
fn sides_that_cannot_be_are_refused_at_all_their_tasks() {
    with_tasks([3], |_, world| {
        assert_eq!(class(world.create_inter_with(7, None, 0, 0)), ErrorClass::Rank);
        let half = world.split(Some(i32::from(world.rank() > 0)), 0).unwrap().unwrap();
        // A leader without a bridge, or with a bridge that does not have the other leader.
        let expected = |own: ErrorClass| if half.rank() == 0 { own } else { ErrorClass::Other };
        assert_eq!(class(half.create_inter_with(0, None, 0, 0)), expected(ErrorClass::Communicator));
        assert_eq!(class(half.create_inter_with(0, Some(world), 9, 0)), expected(ErrorClass::Rank));
        assert_eq!(class(half.create_inter_with(0, Some(world), 1, -5)), expected(ErrorClass::Tag));
        // Both sides are the same group.
        let dup = world.dup().unwrap();
        assert_eq!(class(dup.create_inter_with(0, Some(world), 0, 0)), ErrorClass::Communicator);
    });
}

#[test]
fn attributes_follow_their_callbacks() {
    with_tasks([1, 3], |environment, world| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (copies, deletes) = (Arc::clone(&log), Arc::clone(&log));
        let keyval = Keyval::new(
            ObjectKind::Communicator,
            move |object, _, value| {
                copies.lock().unwrap().push(("copy", object, value));
                match value {
                    0 => Err(Error::Callback { call: "copy", code: 77 }),
                    _ => Ok(Some(value * 2)),
                }
            },
            move |object, _, value| {
                deletes.lock().unwrap().push(("delete", object, value));
                Ok(())
            },
        );
        world.properties().set_handle(1);
        assert_eq!(world.properties().attribute(&keyval).unwrap(), None);
        world.properties().set_attribute(&keyval, 21).unwrap();
        let dup = world.dup().unwrap();
        dup.properties().set_handle(2);
        assert_eq!(dup.properties().attribute(&keyval).unwrap(), Some(42));
        // The attribute belongs to the communicator, whichever handle is used.
        assert_eq!(environment.world().properties().attribute(&keyval).unwrap(), Some(21));
        world.properties().set_attribute(&keyval, 0).unwrap();
        assert!(matches!(world.dup(), Err(Error::Callback { code: 77, .. })));
        world.properties().delete_attribute(&keyval).unwrap();
        assert_eq!(class(world.properties().delete_attribute(&keyval)), ErrorClass::Keyval);
        dup.close().unwrap();
        let expected =
            [("copy", 1, 21), ("delete", 1, 21), ("copy", 1, 0), ("delete", 1, 0), ("delete", 2, 42)];
        assert_eq!(*log.lock().unwrap(), expected);
        // After a failed duplication the next duplication works in all tasks.
        talk(&world.dup().unwrap(), &(0..world.size()).collect::<Vec<_>>());
        assert_eq!(
            class(world.properties().attribute(&Keyval::private(ObjectKind::Window))),
            ErrorClass::Keyval
        );
        let predefined = |attribute| world.predefined_attribute(attribute);
        assert_eq!(predefined(PredefinedAttribute::TagUb), Some(i64::from(TAG_UB)));
        assert_eq!(predefined(PredefinedAttribute::UniverseSize), Some(i64::from(world.size())));
        assert_eq!(predefined(PredefinedAttribute::WtimeIsGlobal), Some(1));
        assert_eq!(predefined(PredefinedAttribute::AppNum), Some(0));
        assert_eq!(predefined(PredefinedAttribute::Host), None);
    });
}

#[test]
fn the_end_deletes_the_attributes_of_the_task_alone_in_reverse() {
    let log = Mutex::new(Vec::new());
    super::common::job_without_finalize(Config::new(2), Settings::default(), |environment| {
        let deleted = Arc::new(Mutex::new(Vec::new()));
        for value in 0..3 {
            let deleted = Arc::clone(&deleted);
            let keyval = Keyval::new(
                ObjectKind::Communicator,
                |_, _, _| Ok(None),
                move |_, _, value| {
                    deleted.lock().unwrap().push(value);
                    Ok(())
                },
            );
            environment.alone().properties().set_attribute(&keyval, value).unwrap();
        }
        environment.finalize().unwrap();
        log.lock().unwrap().push(deleted.lock().unwrap().clone());
    });
    assert_eq!(*log.lock().unwrap(), [[2, 1, 0], [2, 1, 0]]);
}

#[test]
fn names_hints_and_handlers_belong_to_the_communicator() {
    with_tasks([2], |environment, world| {
        assert_eq!(world.properties().name(), "MPI_COMM_WORLD");
        assert_eq!(environment.alone().properties().name(), "MPI_COMM_SELF");
        let mut hints = Info::new();
        hints.set("mpi_assert_no_any_tag", "true").unwrap();
        let dup = world.dup_with_info(&hints).unwrap();
        assert_eq!(dup.properties().name(), "");
        let value = |of: &Info| of.get("mpi_assert_no_any_tag").unwrap().map(str::to_owned);
        assert_eq!(value(&dup.properties().info()).as_deref(), Some("true"));
        // Hints are not inherited (MPI 5.0 section 7.4.2).
        assert_eq!(value(&dup.dup().unwrap().properties().info()).as_deref(), Some("false"));
        dup.properties().set_name("\u{e9}".repeat(100).as_str());
        assert_eq!(dup.properties().name(), "\u{e9}".repeat(63));
        // An error handler is inherited, and runs only for errors that are passed to `handled`.
        assert_eq!(world.properties().error_handler(), ErrorHandler::Return);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let handler =
            ErrorHandler::user(move |object, error| log.lock().unwrap().push((object, error.class())));
        dup.properties().set_error_handler(handler.clone());
        let child = dup.dup().unwrap();
        assert_eq!(child.properties().error_handler(), handler);
        child.properties().set_handle(99);
        let refused = child.handled(child.send(&[1u8], 5, 0));
        assert!(matches!(refused, Err(Error::UnknownRank { rank: 5, size: 2 })));
        assert_eq!(*seen.lock().unwrap(), [(99, ErrorClass::Rank)]);
        assert!(world.handled(world.send(&[1u8], 5, 0)).is_err());
        assert_eq!(seen.lock().unwrap().len(), 1);
    });
}
