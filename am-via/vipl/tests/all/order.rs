//! The order in which VIs of the same endpoints are joined, if the channel of one NIC becomes ready late.

use super::*;

/// Both sides ask with three VIs. The channel of the side `late` is ready after `not_yet` looks.
fn joined_in_order(not_yet: u32) {
    let network = WireNetwork::new(WireOptions::new(2));
    let (early, mut late) = (network.open(task(0)).unwrap(), network.open(task(1)).unwrap());
    late.connect_late(not_yet);
    let (mut a, mut b) = (End::new(early, delivery), End::new(late, delivery));
    let more =
        |end: &mut End<Wire>| [(); 2].map(|()| end.agent.create_vi(delivery(end.tag), None, None).unwrap());
    let [a_vis, b_vis] = [&mut a, &mut b].map(|end| {
        let [second, third] = more(end);
        // The VIs do not ask in the order in which they were made.
        [third, end.vi, second]
    });
    let (to_a, to_b) = (a.agent.address(), b.agent.address());
    for number in 0..3 {
        b.ask(b_vis[number], to_a).unwrap();
        a.ask(a_vis[number], to_b).unwrap();
    }
    until(&mut a, &mut b, |a, b| {
        let all = |end: &mut End<Wire>, vis: [ViHandle; 3]| {
            end.agent.progress();
            vis.iter().all(|&vi| end.agent.query_vi(vi).unwrap().state == ViState::Connected)
        };
        all(a, a_vis) & all(b, b_vis)
    });
    for (number, (&at_a, &at_b)) in (0..).zip(a_vis.iter().zip(&b_vis)) {
        a.agent.post_recv(at_a, Descriptor::receive()).unwrap();
        b.agent.post_send(at_b, Descriptor::send().with_immediate(number)).unwrap();
        let mut came = None;
        until(&mut a, &mut b, |a, b| {
            b.agent.progress();
            came = a.agent.recv_done(at_a).unwrap();
            came.is_some()
        });
        assert_eq!(came.unwrap().immediate(), Some(number), "channel after {not_yet} looks");
    }
}

#[test]
fn vis_of_the_same_endpoints_are_joined_in_the_order_in_which_they_ask() {
    guarded(|| (0..24).for_each(joined_in_order));
}
