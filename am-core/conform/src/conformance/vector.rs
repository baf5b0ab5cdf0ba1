//! Non-contiguous data: lists and strides at either side, by put, get and amsend. Also multicasts, and errors about layouts.

use super::Check;
use super::common::{Shared, everyone, new_counter, next, pattern, previous, register};
use am_core::buffer::{Access, JobBuffer};
use am_core::context::Context;
use am_core::error::{Error, Fault};
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, Scatter};
use am_core::vector::{Block, Layout, Pieces, PiecesMut};
use am_core::{AmOptions, Amsend, Get, GetOptions, Put, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("vector_put_and_get_every_layout", put_and_get),
        ("vector_put_and_get_without_waiting", without_waiting),
        ("vector_amsend_gathers_and_scatters", amsend),
        ("vector_multicast", multicast),
        ("vector_errors", errors),
    ]
}

/// Number of regions: enough that a fabric whose method of access depends on the region uses all its methods.
const REGIONS: usize = 3;
const REGION_BYTES: u64 = 40_000;

fn layouts() -> Vec<Layout> {
    let strided =
        |offset, block, stride, count| Layout::strided(offset, block, stride, count).expect("a layout");
    let list = (0..40).rev().map(|i| Block { offset: i * 997, len: i * 7 % 31 });
    vec![
        Layout::contiguous(3, 0).expect("a layout"),
        Layout::contiguous(3, 900).expect("a layout"),
        strided(1, 8, 16, 50),
        strided(0, 1, 3, 100),
        strided(5, 700, 9000, 4),
        Layout::list(list).expect("a layout"),
    ]
}

/// The bytes of `memory` in the order of `layout`.
fn packed(layout: &Layout, memory: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; layout.len() as usize];
    assert_eq!(layout.pack(memory, &mut bytes, &mut 0).expect("pack"), bytes.len());
    bytes
}

fn put_and_get<F: Fabric>(context: &mut Context<F>) {
    let (arrived, completed, reused) = (new_counter(context), new_counter(context), new_counter(context));
    let mut regions = Vec::new();
    for _ in 0..REGIONS {
        let buffer = context.alloc(REGION_BYTES as usize).expect("alloc");
        let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        let (to, me) = (next(context), context.task().0);
        let at = all[to.task.index()];
        for there in layouts() {
            let mut wanted = vec![0; REGION_BYTES as usize];
            let bytes = pattern(me, there.len() as usize);
            // The same bytes from one slice, from many, and from a stride.
            let slices: Vec<&[u8]> = bytes.chunks(13).collect();
            let wide: Vec<u8> = bytes.iter().flat_map(|&byte| [byte, 0xEE]).collect();
            let every_other = Layout::strided(0, 1, 2, bytes.len() as u64).expect("a layout");
            let options = PutOptions {
                origin: Some(reused),
                target: Some(arrived.name()),
                completion: Some(completed),
            };
            for from in
                [Pieces::Slices(&[&bytes]), Pieces::Slices(&slices), Pieces::Layout(&wide, &every_other)]
            {
                own.write(0, &vec![0; REGION_BYTES as usize]).expect("inside");
                context.gfence().expect("gfence");
                context.run(Put { to: (at, &there), options }, from).expect("putv");
                for counter in [reused, completed, arrived] {
                    context.wait_counter(counter, 1).expect("its only bump");
                }
                let theirs = pattern(previous(context).task.0, there.len() as usize);
                there.unpack(&theirs, &mut wanted, &mut 0).expect("unpack");
                let mut found = vec![0; REGION_BYTES as usize];
                own.read(0, &mut found).expect("inside");
                assert!(found == wanted, "{there:?}: bytes in place, and no others");
                context.gfence().expect("gfence");
            }
            // The data are read back.
            let options = GetOptions { origin: Some(reused), target: Some(arrived.name()) };
            let mut back = vec![0xEE; 2 * bytes.len()];
            let to = PiecesMut::Layout(&mut back, &every_other);
            context.run(Get { from: (at, &there), options }, to).expect("getv");
            let back_of = |each: usize| if each.is_multiple_of(2) { bytes[each / 2] } else { 0xEE };
            assert!((0..back.len()).all(|each| back[each] == back_of(each)), "{there:?} by getv");
            let mut parts = bytes.clone();
            parts.fill(0);
            let mut slices: Vec<&mut [u8]> = parts.chunks_mut(17).collect();
            context.run(Get { from: (at, &there), options }, PiecesMut::Slices(&mut slices)).expect("getv");
            assert_eq!(parts, bytes, "{there:?} by getv into slices");
            context.wait_counter(reused, 2).expect("each get raises it once");
            context.wait_counter(arrived, 2).expect("each get raises it once");
            context.gfence().expect("gfence");
        }
        regions.push(own);
    }
    for region in regions {
        drop(context.unexpose(region).expect("unexpose"));
    }
    [arrived, completed, reused].into_iter().for_each(|counter| context.remove_counter(counter));
}

fn without_waiting<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(REGION_BYTES as usize).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let (there, here) = (
        Layout::strided(0, 16, 64, 300).expect("a layout"),
        Layout::strided(8, 24, 32, 200).expect("a layout"),
    );
    let at = all[next(context).task.index()];
    let bytes = pattern(context.task().0, 7000);
    let mut back = vec![0; 4800];
    let scoped = context.scope(|scope| {
        scope.start(Put { to: (at, &there), options: PutOptions::default() }, Pieces::Layout(&bytes, &here))
    });
    scoped.expect("all ended").expect("putv");
    let scoped = context.scope(|scope| {
        let mut slices = [&mut back[..]];
        let slice = std::mem::take(&mut slices[0]);
        let whole = Layout::contiguous(0, 4800).expect("a layout");
        let whole: &'static Layout = Box::leak(Box::new(whole));
        scope.start(
            Get { from: (at, &there), options: GetOptions::default() },
            PiecesMut::Layout(slice, whole),
        )
    });
    scoped.expect("all ended").expect("getv");
    assert_eq!(back, packed(&here, &bytes));
    // The same with buffers that the operations own.
    let mut buffer = JobBuffer::zeroed(7000);
    buffer.copy_from_slice(&pattern(context.task().0 + 1, 7000));
    let put = context
        .start(Put { to: (at, &there), options: PutOptions::default() }, (buffer, &here))
        .expect("putv_owned");
    let (buffer, result) = context.wait_owned(put).expect("a handle of this context");
    result.expect("in place");
    let get = context
        .start(Get { from: (at, &there), options: GetOptions::default() }, (JobBuffer::zeroed(7000), &here));
    let (back, result) = context.wait_owned(get.expect("getv_owned")).expect("a handle of this context");
    result.expect("here");
    assert_eq!(packed(&here, &back), packed(&here, &buffer));
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
}

fn amsend<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(REGION_BYTES as usize).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let here = own.range(0, REGION_BYTES).expect("inside");
    let received: Shared<Vec<(Vec<u8>, u64)>> = Shared::new();
    let arrived = new_counter(context);
    let sink = received.clone();
    let handler = register(context, move |message| {
        let len = u64::from(u32::from_le_bytes(*message.uhdr.first_chunk().expect("a stride")));
        // Blocks of 5 bytes; the last one may be partly filled.
        let layout = Layout::strided(2, 5, len, message.len.div_ceil(5)).expect("a layout");
        if message.uhdr.len() == 4 {
            return Answer::scatter(
                Scatter::exposed(here, layout).expect("inside"),
                Completion::Bump(arrived),
            );
        }
        let sink = sink.clone();
        let buffer = JobBuffer::zeroed(2 + message.len.div_ceil(5) as usize * len as usize);
        Answer::scatter(
            Scatter::owned(buffer, layout).expect("inside"),
            Completion::Call(Box::new(move |delivered| {
                let buffer = delivered.buffer.expect("the scatter's own");
                sink.with(|sink| sink.push((buffer.to_vec(), delivered.placed)));
            })),
        )
    });
    let to = next(context);
    for len in [0, 1, 5, 27, 28, 40, 1000, 4080, 4100, 9000, 20_000] {
        let bytes = pattern(context.task().0, len);
        let theirs = pattern(previous(context).task.0, len);
        let slices: Vec<&[u8]> = bytes.chunks(11).collect();
        for announce in [false, true] {
            let options = AmOptions { announce, target: Some(arrived.name()), ..AmOptions::default() };
            let mut wanted = vec![0; REGION_BYTES as usize];
            let blocks = theirs.chunks(5).enumerate();
            blocks.for_each(|(i, block)| wanted[2 + i * 9..][..block.len()].copy_from_slice(block));
            own.write(0, &vec![0; REGION_BYTES as usize]).expect("inside");
            context.gfence().expect("gfence");
            context
                .run(
                    Amsend { target: to, handler, uhdr: &9u32.to_le_bytes(), options },
                    Pieces::Slices(&slices),
                )
                .expect("amsendv");
            context.wait_counter(arrived, 2).expect("the completion and the target counter");
            let mut found = vec![0; REGION_BYTES as usize];
            own.read(0, &mut found).expect("inside");
            assert!(found == wanted, "{len} bytes, announced: {announce}");
            let uhdr = [6, 0, 0, 0, 1];
            context
                .run(Amsend { target: to, handler, uhdr: &uhdr, options }, Pieces::Slices(&slices))
                .expect("amsendv");
            context.wait_counter(arrived, 1).expect("the target counter");
            let (buffer, placed) = received.with(Vec::pop).expect("its completion has run");
            assert_eq!(placed, len as u64);
            for (i, block) in theirs.chunks(5).enumerate() {
                assert_eq!(buffer[2 + i * 6..][..block.len()], *block, "{len} bytes, block {i}");
            }
        }
    }
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
    context.remove_counter(arrived);
}

fn multicast<F: Fabric>(context: &mut Context<F>) {
    let received: Shared<Vec<Vec<u8>>> = Shared::new();
    let (completed, reused) = (new_counter(context), new_counter(context));
    let sink = received.clone();
    let handler = register(context, move |message| {
        let sink = sink.clone();
        let buffer = JobBuffer::zeroed(message.len as usize);
        let done = move |delivered: am_core::handler::Delivered| {
            sink.with(|sink| sink.push(delivered.buffer.expect("the buffer of the destination").to_vec()));
        };
        Answer::owned(buffer, Completion::Call(Box::new(done)))
    });
    let mut tasks: Vec<_> = everyone(context).map(|endpoint| endpoint.task).collect();
    tasks.reverse();
    tasks.extend_from_within(..1);
    let group = context.group(&tasks).expect("tasks of the job");
    assert_eq!(group.members().len(), context.num_tasks() as usize, "each once");
    for len in [0, 20, 3000, 100_000] {
        let bytes = pattern(context.task().0, len);
        let options = AmOptions { origin: Some(reused), completion: Some(completed), ..AmOptions::default() };
        context.multicast(&group, handler, b"to all", &bytes, options).expect("multicast");
        context.wait_counter(reused, 1).expect("once");
        context.wait_counter(completed, u64::from(context.num_tasks())).expect("one a member");
        context.gfence().expect("gfence");
        let mut received = received.take();
        let mut wanted: Vec<_> = everyone(context).map(|from| pattern(from.task.0, len)).collect();
        received.sort();
        wanted.sort();
        assert!(received == wanted, "{len} bytes: {} messages", received.len());
        context.gfence().expect("gfence");
    }
    let error = context.group(&[am_core::task::TaskId(context.num_tasks())]).expect_err("no such task");
    assert_eq!(error.fault(), Fault::Caller);
    [completed, reused].into_iter().for_each(|counter| context.remove_counter(counter));
}

fn errors<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let at = all[next(context).task.index()];
    let (eight, beyond) =
        (Layout::strided(0, 2, 4, 4).expect("a layout"), Layout::strided(40, 4, 12, 3).expect("a layout"));
    let error = context
        .run(Put { to: (at, &eight), options: PutOptions::default() }, Pieces::Slices(&[&[1; 9]]))
        .expect_err("9 and 8");
    assert!(matches!(error, Error::LengthsDiffer { here: 9, there: 8 }), "{error}");
    assert_eq!(error.fault(), Fault::Caller);
    let mut short = [0; 13];
    let to = PiecesMut::Layout(&mut short, &eight);
    let error = context
        .run(Get { from: (at, &eight), options: GetOptions::default() }, to)
        .expect_err("the last block ends at 14");
    assert!(matches!(error, Error::LocalRange { offset: 12, len: 2, region_len: 13 }), "{error}");
    // A range that exceeds the target's region is refused.
    let mut to = [0; 12];
    let to = PiecesMut::Slices(&mut [&mut to]);
    let error = context
        .run(Get { from: (at, &beyond), options: GetOptions::default() }, to)
        .expect_err("the last block ends at 68");
    assert_eq!(error.fault(), Fault::Caller, "{error}");
    let error =
        context.run(Put { to: (at, &beyond), options: PutOptions::default() }, Pieces::Slices(&[&[1; 12]]));
    assert_eq!(error.expect_err("the same").fault(), Fault::Caller);
    assert!(matches!(Layout::strided(0, 8, 4, 2), Err(Error::Layout(_))));
    // If the owner had to check the range, it has reported the error too.
    super::errors::quiet_gfence(context);
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
}
