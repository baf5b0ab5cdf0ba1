//! Buffers for buffered sends: those of the process, of a session and of a communicator, and the automatic buffer.

use super::common::{Communicator, everywhere, job, pattern};
use am_double::Config;
use mpi_over_am::{BufferOwner, Error, ErrorClass, ErrorHandler, Info, SendBuffer, Settings};

#[test]
fn a_message_is_kept_in_the_nearest_buffer() {
    job(Config::new(1), Settings::default(), |environment, world| {
        let session = BufferOwner::Session(3);
        let error = world.bsend(&[1u8; 100], 0, 0).expect_err("there is no buffer");
        assert!(matches!(error, Error::NoBuffer { len: 100, .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Buffer);
        let fits_in = |world: &Communicator, len: usize| match world.bsend(&vec![1u8; len], 0, 0) {
            Ok(()) => world.recv(&mut vec![0u8; len], 0, 0).map(|_| true).expect("it was sent"),
            Err(error) => {
                assert!(matches!(error, Error::BufferExhausted { .. }), "{error}");
                assert_eq!(error.class(), ErrorClass::Buffer);
                false
            }
        };
        let fits = |len| fits_in(world, len);
        environment.attach_buffer(vec![0; 1000]).expect("the first");
        assert!(fits(500) && !fits(1001));
        let making = environment.session(&Info::new(), ErrorHandler::Return);
        let group = world.group().of_session(3);
        let made = making.create_from_group(&group, "of a session", &Info::new(), ErrorHandler::Return);
        let made = made.expect("all tasks take part").expect("this task is in it");
        // Communicators made from this communicator belong to the session, too.
        let world = &made.dup().expect("all tasks take part");
        let fits = |len| fits_in(world, len);
        assert!(fits(500));
        environment.attach_buffer_for(session, vec![0; 2000].into()).expect("the first");
        assert!(fits(1500) && !fits(2001));
        world.attach_buffer(vec![0; 300]).expect("the first");
        let error = world.attach_buffer(vec![0; 300]).expect_err("it is the second");
        assert!(matches!(error, Error::BufferAttached { attached: 300 }), "{error}");
        assert!(fits(200) && !fits(500));
        world.flush_buffer().expect("nothing is left");
        assert_eq!(world.detach_buffer().expect("the buffer is free").map(|buffer| buffer.len()), Some(300));
        assert!(world.detach_buffer().expect("there is none").is_none());
        assert!(fits(1500));
        environment.detach_buffer_for(session).expect("nothing is left");
        assert!(fits(500) && !fits(1001));
        assert_eq!(
            environment.detach_buffer().expect("the buffer is free").map(|buffer| buffer.len()),
            Some(1000)
        );
    });
}

#[test]
fn the_librarys_own_buffer_has_room_for_everything() {
    everywhere(2, |environment, world| {
        world.attach_buffer(SendBuffer::Automatic).expect("the first");
        let owner = world.buffer_owner().expect("it has one");
        if world.rank() == 0 {
            for (tag, len) in (0..).zip([0, 8, 1000, 100_000, 1 << 20]) {
                world.bsend(&pattern(7, len), 1, tag).expect("the buffer is large enough");
            }
            let flushed = environment.iflush_buffer_for(owner).expect("it has started");
            let was_over = world.test(flushed).expect("nothing went wrong").is_some();
            world.send(&(), 1, 99).expect("it is short");
            if !was_over {
                world.wait(flushed).expect("all are received");
            }
        } else {
            world.recv(&mut (), 0, 99).expect("the message arrives");
            for (tag, len) in (0..).zip([0, 8, 1000, 100_000, 1 << 20]) {
                let mut got = vec![0u8; len];
                world.recv(&mut got, 0, tag).expect("the message arrives");
                assert_eq!(got, pattern(7, len));
            }
        }
        assert!(matches!(world.detach_buffer(), Ok(Some(SendBuffer::Automatic))));
    });
}

/// A flush does not wait for messages that are sent after the flush has begun.
#[test]
fn a_flush_that_does_not_wait_ends_with_the_messages_before_it() {
    everywhere(2, |environment, world| {
        world.attach_buffer(SendBuffer::Automatic).expect("the first");
        let owner = world.buffer_owner().expect("it has one");
        // These messages are announced: their data are sent when they are received.
        let long = 100_000;
        if world.rank() == 0 {
            world.bsend(&pattern(1, long), 1, 1).expect("the buffer is large enough");
            let first = environment.iflush_buffer_for(owner).expect("it has started");
            assert!(world.test(first).expect("nothing went wrong").is_none(), "no receive is posted");
            world.bsend(&pattern(2, long), 1, 2).expect("the buffer is large enough");
            let both = environment.iflush_buffer_for(owner).expect("it has started");
            world.send(&(), 1, 99).expect("it is short");
            world.wait(first).expect("the first is received");
            assert!(
                world.test(both).expect("the flush has no error").is_none(),
                "the second message is not received"
            );
            world.send(&(), 1, 99).expect("it is short");
            world.wait(both).expect("both are received");
        } else {
            for (seed, tag) in [(1, 1), (2, 2)] {
                world.recv(&mut (), 0, 99).expect("the message arrives");
                let mut got = vec![0u8; long];
                world.recv(&mut got, 0, tag).expect("the message arrives");
                assert_eq!(got, pattern(seed, long));
            }
        }
        world.detach_buffer().expect("the buffer is free");
    });
}
